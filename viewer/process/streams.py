"""Standard input, output and error of a command: they are there, never raise, and show no control characters.

A closed, full or broken output ends nothing: what follows is dropped, and the other stream says so once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Container, Iterator
from typing import TextIO

from luxel.render.runs.notices import visible

NAMES = {1: "standard output", 2: "standard error"}
LOST = (
    120  # exit status of a command that did its work, but whose output was lost; as Python's own end has it
)


def open_standard_descriptors() -> set[int]:
    """Opens those of the descriptors 0, 1 and 2 that are closed on /dev/null, so that no other file gets their numbers;
    Python has no streams for these, and gets some. Returns the numbers of those."""
    closed = set()
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            closed.add(number)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # as long as the process
    return closed


class Output(io.TextIOWrapper):
    """A standard stream, over the buffer of the one that Python made.

    Attributes:
        lost: error number of the first write that failed; None: all went well.
        open: whether somebody may read what is written: it was open when the process began, and no write failed.
        rich_proxied_file: the stream without the replacement of control characters, for displays that draw by them;
            rich looks for this name.
    """

    def __init__(self, stream: TextIO, number: int, *, closed: bool = False) -> None:
        line_buffering = bool(getattr(stream, "line_buffering", False)) or number == 2
        write_through = bool(getattr(stream, "write_through", False))
        encoding, newline = stream.encoding or "utf-8", None
        super().__init__(
            stream.detach(),  # type: ignore[attr-defined]
            encoding,
            "backslashreplace",
            newline,
            line_buffering,
            write_through,
        )
        self._number = number
        self.lost: int | None = None
        self._was_closed = closed
        self.rich_proxied_file = _Terminal(self)

    @property
    def open(self) -> bool:
        """See the class."""
        return self.lost is None and not self._was_closed

    def write(self, text: str) -> int:
        """Writes text; control characters are shown as escapes."""
        return self.draw(visible(text))

    def draw(self, text: str) -> int:
        """Writes text as it is."""
        try:
            super().write(text)
        except (OSError, ValueError) as error:
            self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Writes what is buffered."""
        try:
            super().flush()
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: OSError | ValueError) -> None:
        """Drops what follows."""
        if self.lost is not None:
            return
        number: int = getattr(error, "errno", None) or errno.EBADF
        self.lost = number
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._number)
            os.close(null)
        with contextlib.suppress(OSError, ValueError):
            super().flush()  # what was buffered
        other = sys.stderr if self._number == 1 else sys.stdout
        if isinstance(other, Output) and other.lost is None and number != errno.EPIPE:
            reason = os.strerror(number)
            other.write(
                f"luxel: {NAMES[self._number]} cannot be written ({reason}); luxel goes on without it.\n"
            )
            other.flush()


class _Terminal:
    """An `Output` to which control characters go as they are."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, text: str) -> int:
        return self._output.draw(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._output, name)


def wrap_outputs(closed: Container[int] = ()) -> None:
    """Replaces standard output and error by `Output`.

    Args:
        closed: numbers of the descriptors that were closed when the process began.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if not isinstance(stream, Output):
            setattr(sys, name, Output(stream, number, closed=number in closed))


@contextlib.contextmanager
def rendered_outputs() -> Iterator[None]:
    """A context in which control characters go as they are, for coloured help texts."""
    with (
        contextlib.redirect_stdout(getattr(sys.stdout, "rich_proxied_file", sys.stdout)),
        contextlib.redirect_stderr(getattr(sys.stderr, "rich_proxied_file", sys.stderr)),
    ):
        yield


def print_where_it_is_read(text: str) -> None:
    """Prints a line to standard error where nobody reads standard output, on which it was printed before."""
    if isinstance(sys.stdout, Output) and not sys.stdout.open:
        print(text, file=sys.stderr)


def was_lost() -> bool:
    """Whether output was lost otherwise than by a reader that closed its pipe."""
    return any(
        isinstance(stream, Output) and stream.lost not in (None, errno.EPIPE)
        for stream in (sys.stdout, sys.stderr)
    )
