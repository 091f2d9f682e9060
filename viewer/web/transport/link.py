"""The speed of the link to a page, from when its images were sent and when it had them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LEAST = 4000  # bytes: smaller messages say more about the delay of a link than about its speed
SHORTEST = 2e-4  # seconds that a message takes at least, so that one that seemed to take none counts little
KEEP = 0.8  # weight of the earlier messages with each further one
ENOUGH = 3  # messages after which the speed is known


class Link:
    """Bytes a second that a page receives; may be called from any thread.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._sent: dict[int, tuple[float, int]] = {}
        self._free_at = 0.0  # when the page had the last message
        self._round_trip: float | None = None
        self._bytes = self._seconds = 0.0
        self._messages = 0

    def answered(self, seconds: float) -> None:
        """Notes the time that an empty message and its answer took."""
        with self._lock:
            self._round_trip = seconds if self._round_trip is None else min(self._round_trip, seconds)

    def sent(self, number: int, size: int) -> None:
        """Notes that message ``number`` of ``size`` bytes is handed to the network."""
        with self._lock:
            self._sent[number] = (self._clock(), size)

    def received(self, number: int, decode_ms: float) -> None:
        """Notes that the page has used a message, for which it took ``decode_ms``, and all before it."""
        with self._lock:
            known, now = self._sent.get(number), self._clock()
            self._sent = {other: entry for other, entry in self._sent.items() if other > number}
            if known is None:
                return
            sent_at, size = known
            if sent_at >= self._free_at:  # the link was idle
                taken = now - sent_at - decode_ms / 1e3
                if size < LEAST:
                    self.answered(max(taken, 0.0))
                taken -= self._round_trip or 0.0
            else:  # this message waited for the one before
                taken = now - self._free_at
            self._free_at = now
            if size >= LEAST:
                self._bytes = KEEP * self._bytes + size
                self._seconds = KEEP * self._seconds + max(taken, SHORTEST)
                self._messages += 1

    @property
    def speed(self) -> float | None:
        """Bytes a second; None before enough messages have arrived."""
        with self._lock:
            return self._bytes / self._seconds if self._messages >= ENOUGH else None

    def forget_sent(self) -> None:
        """Forgets messages that did not arrive: their connection ended."""
        with self._lock:
            self._sent.clear()
