"""Memory of pages that have closed goes back to the system.

The C library keeps what is freed in the heap of the thread that asked for it, and pages come with threads of their own:
after 2,400 pages the process was 16 % larger, though no object was left.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

GAP = 5.0  # seconds, at least, between two trims: each takes milliseconds and holds the heaps


def trim() -> None:
    """Gives back what the C library has free; nothing happens where there is no malloc_trim."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


class FreeMemory:
    """Trims when pages have closed, at most every GAP seconds.

    Args:
        trim: gives memory back.
        clock: seconds.
    """

    def __init__(self, trim: Callable[[], None] = trim, clock: Callable[[], float] = time.monotonic) -> None:
        self._trim, self._clock = trim, clock
        self._closed = threading.Event()
        self._not_before = 0.0

    def page_closed(self) -> None:
        """Notes that there may be something to give back."""
        self._closed.set()

    def trim_when_due(self) -> None:
        """Trims if a page has closed and the last trim was long enough ago."""
        if self._closed.is_set() and self._clock() >= self._not_before:
            self._closed.clear()
            self._trim()
            self._not_before = self._clock() + GAP
