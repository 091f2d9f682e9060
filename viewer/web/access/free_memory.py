"""Memory that threads of pages have freed stays small and goes back to the system.

The C library gives threads heaps of their own, eight for each core, and keeps in a heap what was freed there. Each page
renders and encodes in threads of its own:

* after 2,400 pages the process was 16 % larger, though no object was left;
* sixteen pages alongside a training on two cores held 111 MiB in such heaps, of which 22 MiB were in use, and 2 to 3
  MiB more every minute. With HEAPS heaps it is 18 to 30 MiB;
* the main heap still gained 7 to 14 MiB in eight minutes of the same, all of it free.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

HEAPS = 2  # of the process: the main one, and one that other threads share
M_ARENA_MAX = -8  # malloc.h of glibc
GAP = 5.0  # seconds, at least, between two trims: each takes milliseconds and holds the heaps
EVERY = 60.0  # seconds between two trims while pages are open: a training takes again what it had free


def limit_heaps() -> None:
    """Lets threads that start from now on share HEAPS heaps; nothing happens where the C library is not glibc.

    Allocations of less than a kilobyte do not wait for other threads: each thread keeps a stock of them.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, HEAPS)


def trim() -> None:
    """Gives back what the C library has free; nothing happens where there is no malloc_trim."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


class FreeMemory:
    """Trims when pages have closed, at most every GAP seconds, and while pages are open every EVERY seconds.

    Args:
        trim: gives memory back.
        clock: seconds.
    """

    def __init__(self, trim: Callable[[], None] = trim, clock: Callable[[], float] = time.monotonic) -> None:
        self._trim, self._clock = trim, clock
        self._closed = threading.Event()
        self._last = -math.inf  # when it trimmed last

    def page_closed(self) -> None:
        """Notes that there may be something to give back."""
        self._closed.set()

    def trim_when_due(self, pages: int = 0) -> None:
        """Trims if a page has closed, or ``pages`` are open, and the last trim was long enough ago."""
        now = self._clock()
        if (self._closed.is_set() and now >= self._last + GAP) or (pages and now >= self._last + EVERY):
            self._closed.clear()
            self._trim()
            self._last = self._clock()
