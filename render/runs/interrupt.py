"""Ctrl-C: the first one ends the run after the current step, the second one aborts it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupt:
    """Context that handles SIGINT, in the main thread only (Python allows no other).

    Where SIGINT was ignored when the process began, as in the background of a script, it stays ignored.

    Args:
        say: receives the message on the first Ctrl-C.

    Attributes:
        requested: whether Ctrl-C was pressed.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.requested = False
        self._say = say
        self._before: Any = None
        self._mine = False

    def __enter__(self) -> Interrupt:
        main = threading.current_thread() is threading.main_thread()
        self._mine = main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        if self._mine:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._say("Ctrl-C: saving a checkpoint after this step. Press it again to abort without saving.")
