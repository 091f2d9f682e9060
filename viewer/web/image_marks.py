"""What a tool draws over the image of one page: an outline under the cursor, and where something is being computed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

Outline = Sequence[Sequence[tuple[float, float]]]
"""Closed polygons; corners u, v in [0, 1] of the image, from its upper left."""
Hover = Callable[[float, float], object]


class ImageMarks:
    """The marks for the scripts of a page. A tool that follows the cursor answers each place with `outline`.

    Its methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._follow: Hover | None = None
        self._outline: list[list[float]] = []
        self._busy: tuple[float, float] | None = None
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def on_change(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` whenever `state` may have changed, and after each answer to the cursor."""
        self._callbacks.append(callback)

    def state(self) -> dict[str, Any]:
        """``follows``: whether the page sends the cursor; ``outline``: polygons as [u0, v0, u1, v1, ...]; ``busy``:
        [u, v] or null. As JSON has it."""
        with self._lock:
            busy = None if self._busy is None else list(self._busy)
            return {"follows": self._follow is not None, "outline": self._outline, "busy": busy}

    def follow(self, hover: Hover | None) -> None:
        """Calls ``hover`` with the place of the cursor on the image, u and v in [0, 1]; None: it is not followed.

        The next place is sent when `outline` has answered the one before.
        """
        with self._lock:
            self._follow, self._outline = hover, []
        self._changed()

    def hover(self, u: float, v: float) -> None:
        """Takes the place of the cursor."""
        with self._lock:
            follow = self._follow
        if follow is not None:
            follow(u, v)

    def outline(self, polygons: Outline) -> None:
        """Draws an outline instead of the last one; none: nothing is drawn."""
        with self._lock:
            self._outline = [[round(x, 4) for corner in polygon for x in corner] for polygon in polygons]
        self._changed()

    def busy(self, place: tuple[float, float] | None) -> None:
        """Shows at a place, u and v in [0, 1], that something is being computed; None: nothing is."""
        with self._lock:
            if self._busy == place:
                return
            self._busy = place
        self._changed()

    def _changed(self) -> None:
        for callback in self._callbacks:
            callback()
