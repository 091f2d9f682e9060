"""What all pages of a session share and change, with undo, saved after each change."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from luxel.render.errors import LuxelError
from luxel.render.runs.sealed_file import SealedFile

Value = TypeVar("Value")

log = logging.getLogger("luxel.viewer")

LOOK_EVERY = 2.0  # seconds between looks at the file
MAX_UNDO = 1000  # changes that can be taken back


class SharedValue(Generic[Value]):
    """Changes a value and saves it; its methods may be called from any thread.

    A change that cannot be saved stays in effect, and is saved with the next one or as soon as that is possible.

    Args:
        file: of the value; None: there is no folder for one.
        empty: the value where there is no file.
        no_file: the problem where there is no file.
    """

    def __init__(self, file: SealedFile[Value] | None, empty: Value, no_file: str) -> None:
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []
        self._done: list[tuple[str, Value]] = []  # titles, and what was before
        self._undone: list[tuple[str, Value]] = []  # titles, and what was after
        self._looked_at, self._unsaved = 0.0, False
        self._problem, self._no_file = "", no_file
        self._file = file
        self._present = empty if file is None else file.read()

    @property
    def present(self) -> Value:
        """The value now."""
        return self._present

    @property
    def undo_titles(self) -> Sequence[str]:
        """Titles of the changes in effect, oldest first."""
        return [title for title, _ in self._done]

    @property
    def redo_titles(self) -> Sequence[str]:
        """Titles of the changes that were taken back, the next one to redo last."""
        return [title for title, _ in self._undone]

    @property
    def problem(self) -> str:
        """Why the value that is there cannot be used, or the present one is not saved; empty: neither."""
        if self._problem:
            return self._problem
        if self._file is None:
            return self._no_file
        return "" if self._file.problem is None else str(self._file.problem)

    def apply(self, title: str, change: Callable[[Value], Value]) -> None:
        """Makes a change, which can be undone.

        Args:
            title: of the change.
            change: from the present value to the next one.

        Raises:
            LuxelError: raised by the change; nothing changes.
        """
        with self._lock:
            self._take_over()
            after = change(self._present)
            if after == self._present:
                return
            self._done = [*self._done, (title, self._present)][-MAX_UNDO:]
            self._undone = []
            self._become(after)

    def undo(self) -> None:
        """Takes the last change back; nothing happens where there is none."""
        with self._lock:
            if self._done:
                title, before = self._done.pop()
                self._undone.append((title, self._present))
                self._become(before)

    def redo(self) -> None:
        """Makes the change again that was taken back last; nothing happens where there is none."""
        with self._lock:
            if self._undone:
                title, after = self._undone.pop()
                self._done.append((title, self._present))
                self._become(after)

    def _become(self, value: Value) -> None:
        self._present = value
        self._save()
        self._notify()

    def _save(self) -> None:
        if self._file is None:
            return
        try:
            self._file.write(self._present)
        except LuxelError as error:
            self._unsaved, self._problem = True, str(error)
            log.warning("%s", error)
        else:
            self._unsaved, self._problem = False, ""

    def follow(self) -> None:
        """Takes over what another program has written, and saves what could not be saved; to be called now and then."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked_at = now
            if self._take_over():
                self._notify()
            elif self._unsaved:
                self._save()
                if not self._unsaved:
                    self._notify()
        finally:
            self._lock.release()

    def _take_over(self) -> bool:
        """Whether another program has changed the file, whose value is then the present one; what was changed here
        can be undone no more."""
        if self._file is None or not self._file.outdated or not self._file.path.exists():
            return False
        self._present = self._file.read()
        self._done, self._undone, self._unsaved, self._problem = [], [], False, ""
        return True

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` after each change, until `forget`."""
        with self._lock:
            self._callbacks = [*self._callbacks, callback]

    def forget(self, callback: Callable[[], None]) -> None:
        """The reverse of `on_change`."""
        with self._lock:
            self._callbacks = [each for each in self._callbacks if each != callback]

    def _notify(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # a page that is being closed must not affect the others
                log.debug("a page could not show a change", exc_info=True)
