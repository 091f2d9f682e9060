"""What a sample of a file format is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WIDTH, HEIGHT = 24, 16  # of the images of samples


@dataclass(frozen=True)
class Sample:
    """One valid file, or folder of files.

    Args:
        group: what is read: "scene", "mesh", "capture", "image", "mask", "points", "volume", "path" or "field".
        name: of the sample, unique within its group.
        registered: the format's key in its registry: a suffix, or the name of a capture format.
        files: names of the files within a folder, by which they are written; all may be damaged.
        write: writes them into a folder.
        read: called with the folder; returns anything, or raises LuxelError.
        slow: reading takes more than a tenth of a second.
        valid: whether the undamaged sample can be read; otherwise it is refused with a LuxelError.
    """

    group: str
    name: str
    registered: str
    files: tuple[str, ...]
    write: Callable[[Path], object]
    read: Callable[[Path], object]
    slow: bool = False
    valid: bool = True

    @property
    def key(self) -> str:
        """Group and name."""
        return f"{self.group}/{self.name}"


def single(
    group: str, file: str, write: Callable[[Path], object], read: Callable[[Path], object], name: str = ""
) -> Sample:
    """A sample of one file; ``write`` and ``read`` are called with its path."""
    return Sample(
        group,
        name or file,
        Path(file).suffix,
        (file,),
        lambda folder: write(folder / file),
        lambda folder: read(folder / file),
    )


def pixels(channels: int = 3) -> np.ndarray:
    """A smooth image with some noise, uint8 [HEIGHT, WIDTH, channels]."""
    noise = np.random.default_rng(0).integers(0, 40, (HEIGHT, WIDTH, channels))
    ramp = np.linspace(0, 200, WIDTH)[None, :, None] + np.zeros((HEIGHT, 1, channels))
    return (ramp + noise).astype(np.uint8)
