"""The measurements of a session: those that all pages of a scene share, with undo, saved after each change."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from luxel.render.errors import LuxelError
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.measuring.measurements import Measurements, Point
from luxel.scenes.measuring.measurements_file import MeasurementsFile
from luxel.viewer.scene_loading.scene_facts import as_up
from luxel.viewer.web.session import Session, StaticSession, TrainingSession

MeasurableSession = StaticSession | TrainingSession

log = logging.getLogger("luxel.viewer")

LOOK_EVERY = 2.0  # seconds between looks at the file
MAX_UNDO = 1000  # changes that can be taken back


class SharedMeasurements:
    """Changes the measurements of a scene and saves them; its methods may be called from any thread.

    They belong to the run, or to the scene file, and are saved with it; a scene that is being trained has them too. A
    change that cannot be saved stays in effect, and is saved with the next one or as soon as that is possible.

    Args:
        session: of the scene, as it was opened.
    """

    _all: ClassVar[WeakKeyDictionary[Session, SharedMeasurements]] = WeakKeyDictionary()
    _all_lock = threading.Lock()

    def __init__(self, session: MeasurableSession) -> None:
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []
        self._done: list[tuple[str, Measurements]] = []  # titles, and what was before
        self._undone: list[tuple[str, Measurements]] = []  # titles, and what was after
        self._looked_at, self._unsaved = 0.0, False
        self.shift: Point = session.about.shift or (0.0, 0.0, 0.0)
        self._stated_metres = session.about.metres
        self._problem = ""
        if session.measured_in is not None:
            self._file: MeasurementsFile | None = MeasurementsFile.of_run(session.measured_in)
        else:
            with session.borrow() as scene:
                self._file = MeasurementsFile.of_scene(scene)
        self._present = Measurements() if self._file is None else self._file.read()

    @staticmethod
    def of(session: Session) -> SharedMeasurements:
        """Those of a session that `is_measurable`, read when they are first asked for."""
        assert isinstance(session, MeasurableSession)
        with SharedMeasurements._all_lock:
            if session not in SharedMeasurements._all:
                SharedMeasurements._all[session] = SharedMeasurements(session)
            return SharedMeasurements._all[session]

    @property
    def present(self) -> Measurements:
        """What is measured now."""
        return self._present

    @property
    def metres(self) -> float | None:
        """Length of a unit: measured, else what the scene's file states; None: it is not known."""
        return self._present.metres or self._stated_metres

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
        """Why the measurements that are there cannot be used, or the present ones are not saved; empty: neither."""
        if self._problem:
            return self._problem
        if self._file is None:
            return "The measurements are not saved: there is no folder for them."
        return "" if self._file.problem is None else str(self._file.problem)

    def apply(self, title: str, change: Callable[[Measurements], Measurements]) -> None:
        """Makes a change, which can be undone.

        Args:
            title: of the change.
            change: one of `luxel.scenes.measuring.operations`.

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

    def _become(self, measurements: Measurements) -> None:
        self._present = measurements
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
        """Whether another program has changed the file, whose measurements are then the present ones; what was changed
        here can be undone no more."""
        if self._file is None or not self._file.outdated or not self._file.path.exists():
            return False
        self._present = self._file.read()
        self._done, self._undone, self._unsaved, self._problem = [], [], False, ""
        return True

    def to_capture(self, point: np.ndarray) -> np.ndarray:
        """A point of the scene in the coordinates of the capture, float64 [3]."""
        return np.asarray(point, np.float64) + np.array(self.shift)

    def to_scene(self, point: Sequence[float]) -> np.ndarray:
        """A point of the capture in the coordinates of the scene, float64 [3]."""
        return np.asarray(point, np.float64) - np.array(self.shift)

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
                log.debug("a page could not show the measurements", exc_info=True)


def is_measurable(session: Session) -> bool:
    """Whether a session has measurements: one scene, in space."""
    return isinstance(session, MeasurableSession) and not session.about.flat


def known_facts(session: Session, measured: SharedMeasurements | None) -> SceneFacts:
    """What is known of the scene of a session as files hold it, with the present measurements if it has such."""
    about = session.about
    antialiased = (session.antialiased or None) if about.antialiased is None else about.antialiased
    facts = SceneFacts(antialiased, as_up(session.up), about.metres, about.shift)
    return facts if measured is None else measured.present.over(facts)


def measurements_of(session: Session) -> SharedMeasurements | None:
    """The measurements of a session; None: it has none, see `is_measurable`."""
    return SharedMeasurements.of(session) if is_measurable(session) else None


def measured_up(session: Session) -> np.ndarray | None:
    """The up direction that was measured in the scene of a session, [3]; None: there is none."""
    up = SharedMeasurements.of(session).present.up if is_measurable(session) else None
    return None if up is None else np.array(up)
