"""A fair lock: the thread that has waited longest acquires it next."""

from __future__ import annotations

import threading
import time
from collections import deque


class FairLock:
    """A reentrant lock that is handed to the longest waiting thread.

    With threading.RLock a thread that releases and reacquires it at once, as a training loop does, starves
    the others for seconds. Same interface as threading.RLock.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._owner: int | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquires the lock, waiting at most ``timeout`` seconds (-1: without limit); returns whether it was
        acquired."""
        me = threading.get_ident()
        with self._changed:
            if self._owner == me:
                self._depth += 1
                return True
            free = self._owner is None and not self._waiting
            if not free and not blocking:
                return False
            ticket = object()
            self._waiting.append(ticket)
            deadline = None if timeout < 0 else time.monotonic() + timeout
            try:
                while self._owner is not None or self._waiting[0] is not ticket:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    self._changed.wait(left)
                self._owner, self._depth = me, 1
                return True
            finally:  # also when Ctrl-C ends the wait: a ticket left behind would block all other threads
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def release(self) -> None:
        """Releases the lock to the next thread.

        Raises:
            RuntimeError: this thread does not hold the lock.
        """
        with self._changed:
            if self._owner != threading.get_ident():
                raise RuntimeError("cannot release a lock that this thread does not hold")
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                self._changed.notify_all()

    def __enter__(self) -> FairLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
