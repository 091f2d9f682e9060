"""The interface of a part of the protocol, and its setup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]  # of a table: plain values for JSON by the key of their column


@dataclass(frozen=True)
class Setup:
    """What all parts of one call share.

    Args:
        device: to measure on.
        data: folder of the captures and published scenes; None: there is none.
        cache: folder that keeps poses found by structure from motion and synthetic captures; None: nothing is stored.
        quick: tiny sizes, to check that a part works; its figures are meaningless.
    """

    device: torch.device
    data: Path | None = None
    cache: Path | None = None
    quick: bool = False

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    def path(self, name: str) -> Path:
        """A file or folder of the data that a part needs; call it only for what `Part.missing` does not list."""
        assert self.data is not None
        return self.data / name

    def has(self, name: str) -> bool:
        """Whether the data have that file or folder."""
        return self.data is not None and (self.data / name).exists()

    def note(self, text: str) -> None:
        """Prints what a part is doing, or a figure that it has."""
        print(f"  {text}", flush=True)


@dataclass(frozen=True)
class Headline:
    """A row of the README's table, filled from one row of a part.

    Args:
        label: what was measured.
        where: values by which the row is chosen; empty: the part's first row.
        luxel: format string over the row's values.
        other: the same for a peer, where the row has its figures; empty: there is no peer.
    """

    label: str
    luxel: str
    where: tuple[tuple[str, Any], ...] = ()
    other: str = ""


@dataclass(frozen=True)
class Part:
    """A piece of the protocol that runs in one go, well below eight minutes.

    Args:
        name: in `--parts` and results.json.
        title: what it measures, for display.
        table: name of the table that its rows belong to.
        seconds: expected wall time on one NVIDIA H200.
        measure: measures and returns the rows.
        needs: files and folders below the data folder without which it is skipped.
        headlines: rows of the README's table.
    """

    name: str
    title: str
    table: str
    seconds: float
    measure: Callable[[Setup], list[Row]]
    needs: tuple[str, ...] = ()
    headlines: tuple[Headline, ...] = ()

    def missing(self, setup: Setup) -> list[str]:
        """The files and folders that it needs and the data folder lacks."""
        return [name for name in self.needs if not setup.has(name)]
