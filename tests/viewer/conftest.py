"""What several viewer tests start from."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.render.primitives import PRIMITIVES, Convexes, Gaussians, Gaussians4d, Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference
from luxel.scenes.synthetic import write_courtyard
from luxel.scenes.synthetic.toy import write_toy_capture


@pytest.fixture(scope="session")
def toy_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen 64x48 images of a torus knot; not to be written to."""

    def draw(gaussians: Gaussians, camera: Camera) -> np.ndarray:
        return rasterize(gaussians, camera).rgb.numpy()

    return write_toy_capture(tmp_path_factory.mktemp("toy") / "knot", draw)


@pytest.fixture(scope="session")
def blurred_place(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes captures of a courtyard with one blurred photograph, 0011.jpg."""

    def write(**options: Any) -> Path:
        folder = tmp_path_factory.mktemp("place")
        write_courtyard(folder, device="cpu", **options)
        file = folder / "images" / "0011.jpg"
        Image.fromarray(cv2.GaussianBlur(np.asarray(Image.open(file)), (0, 0), 3)).save(file, quality=95)
        return folder

    return write


def draw_by_reference(scene: Parameters, camera: Camera, *, time: float | None = None, **options: Any) -> Any:
    """Draws any primitive as `rasterize` does, by other code; strict about what each must be given."""
    assert (time is not None) == scene.moves, "a time is for scenes that move, and for no others"
    if isinstance(scene, Gaussians4d):
        assert time is not None
        return rasterize(scene.at(time), camera, **options)
    if isinstance(scene, Convexes):
        options.pop("count", None)  # is always given
        return rasterize_convexes_reference(scene, camera, **options)
    assert isinstance(scene, Gaussians)
    return rasterize(scene, camera, **options)


@pytest.fixture(scope="session")
def draw_any() -> Callable[..., Any]:
    """`draw_by_reference`."""
    return draw_by_reference


def build_carousel(count: int = 12, times: tuple[float, float] = (0.0, 1.0)) -> Gaussians4d:
    """Balls on a ring of which one at a time is there, first those of red, then green, then blue.

    Args:
        count: of balls, each of five Gaussians.
        times: when the first and the last is brightest.
    """
    angles = torch.arange(count) * (2 * math.pi / count)
    rows = []
    for i, angle in enumerate(angles.tolist()):
        colour = torch.zeros(3)
        colour[3 * i // count] = 1.0
        for shift in (0.0, 0.2, -0.2, 0.1, -0.1):
            rows.append((math.cos(angle), math.sin(angle), shift, i / max(count - 1, 1), *colour.tolist()))
    table = torch.tensor(rows)
    n = len(table)
    rotors = torch.zeros(n, 8)
    rotors[:, 0] = 1
    start, end = times
    return Gaussians4d(
        means=table[:, :3],
        times=start + (end - start) * table[:, 3],
        log_scales=torch.full((n, 3), math.log(0.2)),
        log_scale_t=torch.full((n,), math.log(0.08 * (end - start))),
        rotors=rotors,
        opacity_logits=torch.full((n,), 4.0),
        sh_dc=(table[:, 4:] - 0.5) / 0.282,
        sh_rest=torch.zeros(n, 0, 3),
    )


@pytest.fixture(scope="session")
def carousel() -> Callable[..., Gaussians4d]:
    """`build_carousel`."""
    return build_carousel


def build_crystals(count: int = 40, seed: int = 0) -> Convexes:
    """Hard-edged convexes of six points around the origin, coloured by place."""
    random = np.random.default_rng(seed)
    xyz = random.standard_normal((count, 3)).astype(np.float32) * 0.5
    rgb = np.clip(127 + 127 * xyz, 0, 255).astype(np.uint8)
    convexes = Convexes.from_points(Points(xyz, rgb), sh_degree=0, opacity=0.9)
    convexes.points += 0.05 * torch.randn(
        convexes.points.shape, generator=torch.Generator().manual_seed(seed)
    )
    convexes.log_delta += 3.0
    return convexes


@pytest.fixture(scope="session")
def crystals() -> Callable[..., Convexes]:
    """`build_crystals`."""
    return build_crystals


def grid_of(side: int = 6) -> Gaussians:
    """Gaussians at the integer points of a cube, with random other parameters."""
    generator = torch.Generator().manual_seed(1)
    axis = torch.arange(side, dtype=torch.float32)
    means = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    n = len(means)
    return Gaussians(
        means=means,
        quats=torch.randn(n, 4, generator=generator),
        log_scales=-2 + 0.3 * torch.randn(n, 3, generator=generator),
        opacity_logits=torch.randn(n, generator=generator),
        sh_dc=torch.randn(n, 3, generator=generator),
        sh_rest=0.1 * torch.randn(n, 15, 3, generator=generator),
    )


@pytest.fixture
def grid() -> Callable[..., Gaussians]:
    """`grid_of`."""
    return grid_of


@pytest.fixture(params=list(PRIMITIVES))
def any_scene(request: pytest.FixtureRequest) -> Parameters:
    """The grid of each registered primitive."""
    return PRIMITIVES[request.param].engine.from_gaussians(grid_of())
