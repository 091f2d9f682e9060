"""Messages about files of a run, which one command may read several times: printed once."""

from __future__ import annotations

import sys
from collections.abc import Callable

_printed: set[str] = set()


def print_once(message: str) -> None:
    """Prints a message to stderr, unless this process has printed it since `forget_printed`."""
    if message not in _printed:
        _printed.add(message)
        print(message, file=sys.stderr)


def say_or_print(say: Callable[[str], None] | None) -> Callable[[str], None]:
    """A function that gives messages to ``say`` unless they were printed just before; None: `print_once`."""

    def once(message: str) -> None:
        if message in _printed:
            _printed.discard(message)
        else:
            assert say is not None
            say(message)

    return print_once if say is None else once


def forget_printed() -> None:
    """Lets `print_once` print everything again; a command line calls it when it starts."""
    _printed.clear()
