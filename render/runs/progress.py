"""The progress of a run: a live display in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from luxel.render.runs.notices import visible

BYTES = 2**30


class ProgressDisplay:
    """Shows step, steps per second, quality, count, memory and time left; use as a context.

    Args:
        console: where to write; None: standard output.
        plain_every: seconds between lines if the output is not a terminal.
    """

    def __init__(self, console: Console | None = None, plain_every: float = 10.0) -> None:
        self.console = Console() if console is None else console
        self._every = 0.2 if self.console.is_terminal else plain_every
        self._next = 0.0
        self._live: Live | None = None

    def __enter__(self) -> ProgressDisplay:
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=False)
            self._live.start()
        self._next = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def due(self) -> bool:
        """Whether it is time for `update`."""
        return time.monotonic() >= self._next

    def update(self, status: dict[str, Any]) -> None:
        """Shows the status of a run, see `luxel.render.runs.loop.Run.status`."""
        self._next = time.monotonic() + self._every
        if self._live is None:
            self.console.print(one_line(status), highlight=False, soft_wrap=True)
        else:
            self._live.update(_table(status), refresh=True)

    def say(self, message: str) -> None:
        """Prints a message above the display."""
        self.console.print(visible(message), highlight=False, soft_wrap=True, markup=False)


def one_line(status: dict[str, Any]) -> str:
    """The status as one line of text."""
    return "  ".join(f"{name} {text}" for name, text in _cells(status))


def duration(seconds: float | None) -> str:
    """A duration as text: 12 s, 3:07, 1:02:45; a dash if unknown."""
    if seconds is None:
        return "-"
    full = round(seconds)
    if full < 60:
        return f"{full} s"
    hours, minutes = divmod(full // 60, 60)
    return f"{hours}:{minutes:02d}:{full % 60:02d}" if hours else f"{minutes}:{full % 60:02d}"


def _cells(status: dict[str, Any]) -> list[tuple[str, str]]:
    def decibel(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f} dB"

    quality = []
    if "loss" in status:
        loss = status["loss"]
        quality.append(("loss", "-" if loss is None else f"{loss:.3g}"))
    if "psnr" in status:
        quality += [("PSNR", decibel(status["psnr"])), ("held-out", decibel(status["test_psnr"]))]
    quality += [(name.replace("_", " "), f"{score:.4g}") for name, score in status.get("scores", {}).items()]
    return [
        ("step", f"{status['step']}/{status['steps']}"),
        ("steps/s", f"{status['steps_per_s']:.1f}"),
        *quality,
        (status["noun"], f"{status['count']:,}"),
        ("memory", f"{status['memory'] / BYTES:.2f} GiB"),
        ("elapsed", duration(status["elapsed"])),
        ("left", "paused" if status["paused"] else duration(status["eta"])),
    ]


def _table(status: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    cells = _cells(status)
    table.add_row(*(f"[dim]{name}[/] {text}" for name, text in cells[:4]))
    table.add_row(*(f"[dim]{name}[/] {text}" for name, text in cells[4:]))
    outer = Table.grid()
    outer.add_row(ProgressBar(total=1.0, completed=min(1.0, status["progress"]), width=72))
    outer.add_row(table)
    return outer
