"""The captures of the benchmark: how each is written from a seed, and what is trained on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from luxel.scenes.synthetic.captures.exact_solid import make_exact_solid, write_exact_solid
from luxel.scenes.synthetic.captures.room import write_room
from luxel.scenes.synthetic.captures.street import write_street, write_utm_copy
from luxel.scenes.synthetic.captures.turntable import write_turntable
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
Writer = Callable[
    [Path, int, Size, torch.device], Path
]  # the capture, from a folder, seed, size, device to render on


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


def _turntable(folder: Path, seed: int, size: Size, device: torch.device) -> Path:
    width, height = size.shape(4 / 3)
    views = size.views + size.held_out
    return write_turntable(folder, seed=seed, views=views, width=width, height=height).posed


def _room(folder: Path, seed: int, size: Size, device: torch.device) -> Path:
    width, height = size.shape(4 / 3)
    views = size.views + size.held_out
    return write_room(folder, seed=seed, views=views, width=width, height=height, device=device)


def _street(folder: Path, seed: int, size: Size, device: torch.device) -> Path:
    width, height = size.shape(3 / 2)
    views = size.views + size.held_out
    return write_street(folder, seed=seed, views=views, width=width, height=height, device=device)


def _utm(folder: Path, seed: int, size: Size, device: torch.device) -> Path:
    return write_utm_copy(folder.parent / STREET, folder, seed=seed)


def given_capture(folder: Path) -> MadeCapture:
    """A capture that is there already, trained in every way: its name is that of the folder."""
    return MadeCapture(folder.name, "given", lambda *_: folder, 0, methods.METHODS)


STREET = "street"
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
    MadeCapture(
        "turntable",
        "object on a turntable, masks, changing exposure, no points",
        _turntable,
        25,
        (
            methods.GAUSSIANS_DEFAULT,
            methods.GAUSSIANS_FAST,
            methods.RADIANCE,
            methods.GAUSSIANS_BEST,
            methods.SURFELS,
            methods.SURFACE,
            methods.GSPLAT_MCMC,
        ),
        is_object=True,
    ),
    MadeCapture(
        "room",
        "furnished room with textured and bare walls, from within",
        _room,
        20,
        (
            methods.GAUSSIANS_DEFAULT,
            methods.GAUSSIANS_FAST,
            methods.GAUSSIANS_BEST,
            methods.SURFELS,
            methods.SURFACE,
            methods.GSPLAT_MCMC,
            methods.CONVEXES,
        ),
    ),
    MadeCapture(
        STREET,
        "street with near detail and far towers and hills, on foot",
        _street,
        25,
        (
            methods.GAUSSIANS_DEFAULT,
            methods.GAUSSIANS_FAST,
            methods.GAUSSIANS_BEST,
            methods.GSPLAT_MCMC,
            methods.GSPLAT_DEFAULT,
        ),
    ),
    MadeCapture(
        "utm",
        "the street in the coordinates of a map, as a COLMAP model",
        _utm,
        2,
        (methods.GAUSSIANS_DEFAULT, methods.GAUSSIANS_FAST),
        copy_of=STREET,
    ),
)
