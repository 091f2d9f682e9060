"""Turns of pages: of those that wait, the one that has used the least time is next."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import OrderedDict
from collections.abc import Hashable

MIN_COST = 1e-4  # seconds that every turn counts, at least: pages whose turns cost nothing still alternate

REMEMBERED = 256  # pages whose last turn is remembered


class FairTurns:
    """One page at a time; start-time fair queueing (Goyal et al. 1996) of the pages by the time that their turns took.

    Pages that always wait get equal time, and pages of equal cost equal numbers of turns. A turn counts no more than
    the page's turn before, so that one slow image (the first one, say) does not cost a page many turns. A page that was
    away saves nothing up: it begins at the time of the turn that was granted last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[Hashable, float] = {}
        self._last: OrderedDict[Hashable, float] = OrderedDict()  # seconds of the last turn
        self._now = 0.0  # of the accounts: that of the turn granted last
        self._holder: Hashable = None
        self._busy = False
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, threading.Event, Hashable]] = []

    def acquire(self, page: Hashable) -> None:
        """Waits for the turn of a page."""
        with self._lock:
            used = max(self._used.get(page, 0.0), self._now)
            if not self._busy:
                self._grant(used, page)
                return
            ready = threading.Event()
            entry = (used, next(self._order), ready, page)
            heapq.heappush(self._waiting, entry)
        try:
            ready.wait()
        except BaseException:  # Ctrl-C: a turn that nobody takes would block all pages
            with self._lock:
                granted = ready.is_set()
                if not granted:
                    self._waiting.remove(entry)
                    heapq.heapify(self._waiting)
            if granted:
                self.release(0.0)
            raise

    def release(self, seconds: float) -> None:
        """Ends the turn, which took ``seconds``, and grants the next one."""
        with self._lock:
            used = max(self._used.get(self._holder, 0.0), self._now)
            cost = min(seconds, self._last.pop(self._holder, 0.0))
            self._used[self._holder] = used + max(cost, MIN_COST)
            self._last[self._holder] = seconds
            if len(self._last) > REMEMBERED:
                self._last.popitem(last=False)
            self._busy, self._holder = False, None
            if self._waiting:
                used, _, ready, page = heapq.heappop(self._waiting)
                self._grant(used, page)
                ready.set()
            else:  # nobody competes: all begin anew
                self._now = max(self._now, *self._used.values())
                self._used = {}

    def _grant(self, used: float, page: Hashable) -> None:
        self._busy, self._holder = True, page
        if used > self._now:
            self._now = used
            self._used = {other: time for other, time in self._used.items() if time > used}
