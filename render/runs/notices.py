"""Messages for the terminal: those about files of a run, which one command may read several times, are printed once;
names of files that come from elsewhere show no control characters."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

_printed: set[str] = set()
# C0 but for tab and line feed, DEL, C1, marks that change the direction of text, and bytes that are no UTF-8.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Text with its control characters as escapes, such as \\x1b, so that a name cannot change the terminal."""
    return _CONTROL.sub(_escape, text) if _CONTROL.search(text) else text


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that the system's encoding does not know
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


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
