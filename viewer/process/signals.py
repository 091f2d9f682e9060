"""SIGTERM and SIGHUP end a command as Ctrl-C does; imports nothing of luxel, as it comes first in a process."""

from __future__ import annotations

import signal
from types import FrameType

ENDING = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
_received: list[int] = []


class Ended(KeyboardInterrupt):
    """A signal asked the process to end.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def raise_at_signals() -> None:
    """Lets each of `ENDING` raise `Ended` in the main thread, but those that were ignored when the process began, as by
    nohup."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


def ignore_signals() -> None:
    """Lets nothing interrupt what is left of the process."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def received() -> int | None:
    """The signal that this process received last; None: none."""
    return _received[-1] if _received else None


def exit_status(error: KeyboardInterrupt) -> int:
    """The exit status of a command that a signal ended: 128 and its number."""
    return 128 + getattr(error, "number", signal.SIGINT)


def line_about(error: KeyboardInterrupt) -> str:
    """What is printed of it."""
    number = getattr(error, "number", signal.SIGINT)
    return "Interrupted." if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}."


def _raise(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise Ended(number)
