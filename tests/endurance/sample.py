"""What a sample of the fuzzers is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    """A valid file.

    Args:
        name: unique, "format: variant".
        suffix: of the file name, with the dot.
        data: its bytes, at most a few kB.
        read: called with the path of a file of any bytes; returns or raises LuxelError.
    """

    name: str
    suffix: str
    data: bytes
    read: Callable[[Path], object]


def written(name: str, write: Callable[[Path], object]) -> bytes:
    """The bytes that a function writes to a path of this name."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()
