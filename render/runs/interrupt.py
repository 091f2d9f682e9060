"""Signals that end a run: the first one ends it after the current step, a second Ctrl-C aborts it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

NAMES = {"SIGINT": "Ctrl-C", "SIGTERM": "SIGTERM", "SIGHUP": "SIGHUP"}


class Interrupt:
    """Context that handles SIGINT, SIGTERM and SIGHUP, in the main thread only (Python allows no other).

    What was ignored when the process began, as SIGINT in the background of a script or SIGHUP by nohup, stays ignored.

    Args:
        say: receives the message on the first signal.

    Attributes:
        requested: whether a signal came.
        number: of the first one; 0: none.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.requested, self.number = False, 0
        self._say = say
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for name in NAMES:
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            if (
                number == signal.SIGINT
            ):  # a terminal that closes sends SIGHUP twice, and a scheduler may repeat SIGTERM
                raise KeyboardInterrupt
            return
        self.requested, self.number = True, number
        name = NAMES[signal.Signals(number).name]
        self._say(
            f"{name}: saving a checkpoint after this step. Press Ctrl-C{' again' * (number == signal.SIGINT)} to "
            "abort without saving."
        )
