"""The captures of the benchmark: how each is written from a seed, and what is trained on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from luxel.scenes.synthetic.captures.exact_solid import make_exact_solid, write_exact_solid
from luxel.scenes.synthetic.rays.distance_solid import DistanceSolid
from luxel.viewer.bench.strangers import methods
from luxel.viewer.bench.strangers.methods import Method


@dataclass(frozen=True)
class Size:
    """How large a capture is.

    Args:
        views, held_out: number of images to train on and to test on; together where a capture has no test views of its
            own.
        pixels: of an image; each capture has its own shape.
    """

    views: int = 100
    held_out: int = 12
    pixels: int = 640_000

    def shape(self, aspect: float = 1.0) -> tuple[int, int]:
        """Width and height of images of an aspect ratio."""
        return round(math.sqrt(self.pixels * aspect)), round(math.sqrt(self.pixels / aspect))


QUICK_SIZE = Size(12, 3, 32 * 32)
Writer = Callable[[Path, int, Size, torch.device], object]  # folder, seed, size, device to render on


@dataclass(frozen=True)
class MadeCapture:
    """A capture that is made from a seed.

    Args:
        name: in --only and tables.
        about: what it is, in a few words.
        write: writes it.
        seconds: expected for that on one NVIDIA H100 with 16 processors.
        methods: that are trained on it.
        is_object: whether it shows one object, on which a radiance field is as good as Gaussians.
        solid: its exact solid, by seed and device; None: the surface is not known.
        copy_of: name of the capture of which it is a copy in other coordinates; empty: of none.
    """

    name: str
    about: str
    write: Writer
    seconds: float
    methods: tuple[Method, ...]
    is_object: bool = False
    solid: Callable[..., DistanceSolid] | None = None
    copy_of: str = ""


def _exact(folder: Path, seed: int, size: Size, device: torch.device) -> Path:
    return write_exact_solid(
        folder, seed=seed, views=size.views, held_out=size.held_out, side=size.shape()[0], device=device
    )


CAPTURES = (
    MadeCapture(
        "exact",
        "solid of known distance, exact alpha, no points",
        _exact,
        25,
        methods.METHODS,
        is_object=True,
        solid=make_exact_solid,
    ),
)
