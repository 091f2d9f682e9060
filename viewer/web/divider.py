"""The line on the image of one page between what is compared: labelled on both sides, and dragged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Divider:
    """Where the line is, for the scripts of a page; a panel shows it and is called when it was dragged.

    Its methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._state: dict[str, Any] = {"shown": False}
        self._owner: object = None
        self._moved: Callable[[float], object] = lambda value: None
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def on_change(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` whenever `state` has changed, and after each `move`."""
        self._callbacks.append(callback)

    def state(self) -> dict[str, Any]:
        """``shown``, and if so ``value``, ``left``, ``right`` and ``span`` as `show` was given them; as JSON has it."""
        with self._lock:
            return dict(self._state)

    def show(
        self,
        owner: object,
        moved: Callable[[float], object],
        *,
        value: float,
        left: str,
        right: str,
        span: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        """Shows the line, or changes it.

        Args:
            owner: the panel whose line it is; the last one that shows a line has it.
            moved: called with a new value after a drag.
            value: where the line is, in [0, 1] of the span.
            left, right: what is shown on its sides.
            span: of what is divided, in [0, 1] of the width of the image.
        """
        state = {"shown": True, "value": value, "left": left, "right": right, "span": list(span)}
        self._take(owner, moved, state)

    def hide(self, owner: object) -> None:
        """Hides the line, if it is that of ``owner``."""
        if self._owner is owner:
            self._take(None, lambda value: None, {"shown": False})

    def move(self, value: float) -> None:
        """Moves the line to a value in [0, 1]; the page is answered in any case."""
        with self._lock:
            moved, before = self._moved, self._state
        moved(value)
        if self._state is before:  # what was moved has not shown the line again
            self._tell()

    def _take(self, owner: object, moved: Callable[[float], object], state: dict[str, Any]) -> None:
        with self._lock:
            self._owner, self._moved = owner, moved
            if self._state == state:
                return
            self._state = state
        self._tell()

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback()
