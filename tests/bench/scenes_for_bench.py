"""The scenes that the rasterizer is timed on: real positions and colours, random shapes, fixed seeds.

What they are
    garden   The profiling scene of gsplat: 138,766 coloured points of a garden, cropped to +-2 around the
             origin and tiled g x g over the ground, so that g sets the count (g=1 0.11 M, g=5 2.79 M, g=9
             9.05 M). Scales uniform in [0, 0.02], rotations random, opacities uniform in [0, 1]; the first of
             its cameras, intrinsics rescaled to the wanted resolution.
    bonsai   A trained room of 1.16 M Gaussians, seen from a ring around its median point with a radius of 1.5
             times the median distance to it; focal length 1100 px at a width of 1920 px.
    Both get random spherical-harmonics coefficients of degree 1-3 with a standard deviation of 0.05.

How to run
    Not run by itself: `raster_against_gsplat.py` uses it. The data folder must hold `garden-points.npz`
    (arrays means3d, colors, viewmats, Ks, width, height) and `bonsai-7k.splat`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import SH_C0, Gaussians

SH_STD = 0.05
RING_VIEWS = 8


@dataclass(frozen=True)
class Row:
    """One line of the benchmark.

    Args:
        name: what the table calls it.
        scene: "garden" or "bonsai".
        grid: g of the garden; unused for the room.
        width, height: pixels.
        goal_fwd, goal_fb: milliseconds to reach on an NVIDIA H200 for forward, forward + backward.
    """

    name: str
    scene: str
    grid: int
    width: int
    height: int
    goal_fwd: float
    goal_fb: float


ROWS = (
    Row("bonsai-1080p", "bonsai", 0, 1920, 1080, 0.8, 2.7),
    Row("garden-g1-1080p", "garden", 1, 1920, 1080, 0.35, 1.0),
    Row("garden-g5-1080p", "garden", 5, 1920, 1080, 0.6, 2.1),
    Row("garden-g5-4k", "garden", 5, 3840, 2160, 1.1, 4.2),
    Row("garden-g9-1080p", "garden", 9, 1920, 1080, 1.1, 3.6),
)


def build(
    row: Row, data: Path, device: torch.device | str, *, keep: int | None = None
) -> tuple[Gaussians, list[Camera]]:
    """The Gaussians of a row on ``device`` and the cameras that it is seen from.

    Args:
        row: one of ``ROWS``, or the like.
        data: folder of ``garden-points.npz`` and ``bonsai-7k.splat``.
        device: where everything goes; random numbers are drawn there, so they differ between kinds of device.
        keep: at most this many Gaussians, picked at random (for a try on a small machine).
    """
    generator = torch.Generator(device).manual_seed(42)
    if row.scene == "garden":
        gaussians, cameras = garden(data / "garden-points.npz", row.grid, row.width, row.height, generator)
    else:
        gaussians, cameras = bonsai(data / "bonsai-7k.splat", row.width, row.height, generator)
    if keep is not None and keep < gaussians.count:
        gaussians = gaussians.select(
            torch.randperm(gaussians.count, generator=generator, device=device)[:keep]
        )
    return gaussians, [camera.to(device) for camera in cameras]


def garden(
    path: Path, grid: int, width: int, height: int, generator: torch.Generator
) -> tuple[Gaussians, list[Camera]]:
    """The tiled garden with ``grid`` (odd) copies along both ground axes and its first camera."""
    if grid % 2 == 0:
        raise ValueError(f"grid must be odd, got {grid}")
    device = generator.device
    with np.load(path) as file:
        arrays = {name: file[name] for name in ("means3d", "colors", "viewmats", "Ks", "width", "height")}
    points = torch.from_numpy(arrays["means3d"]).float().to(device)
    inside = (points.abs() <= 2).all(dim=-1)
    points = points[inside]
    rgb = torch.from_numpy(arrays["colors"]).to(device)[inside].float() / 255
    steps = 4.0 * torch.arange(-(grid // 2), grid // 2 + 1, device=device)
    offsets = torch.cartesian_prod(steps, steps, torch.zeros(1, device=device))
    means = (points[None] + offsets[:, None]).reshape(-1, 3)
    n = means.shape[0]

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    gaussians = Gaussians(
        means=means,
        quats=torch.nn.functional.normalize(torch.randn(n, 4, generator=generator, device=device), dim=-1),
        log_scales=(0.02 * uniform(n, 3)).clamp_min(1e-8).log(),
        opacity_logits=uniform(n).logit(eps=1e-6),
        sh_dc=((rgb - 0.5) / SH_C0).repeat(offsets.shape[0], 1),
        sh_rest=SH_STD * torch.randn(n, 15, 3, generator=generator, device=device),
    )
    matrix, intrinsics = torch.from_numpy(arrays["viewmats"][0]), arrays["Ks"][0]
    camera = Camera(
        matrix.float(),
        torch.tensor(
            [intrinsics[0, 0], intrinsics[1, 1], intrinsics[0, 2], intrinsics[1, 2]], dtype=torch.float32
        ),
        int(arrays["width"]),
        int(arrays["height"]),
    )
    return gaussians, [camera.resized(width, height)]


def bonsai(path: Path, width: int, height: int, generator: torch.Generator) -> tuple[Gaussians, list[Camera]]:
    """The trained room and ``RING_VIEWS`` cameras around it."""
    from luxel.scenes import load_scene

    device = generator.device
    gaussians = load_scene(path).to(device)
    gaussians.sh_rest = SH_STD * torch.randn(gaussians.count, 15, 3, generator=generator, device=device)
    centre = gaussians.means.median(dim=0).values
    radius = 1.5 * (gaussians.means - centre).norm(dim=-1).median().item()
    middle = centre.tolist()
    focal = 1100.0 * width / 1920
    fov_y = 2 * math.atan(0.5 * height / focal)
    cameras = []
    for k in range(RING_VIEWS):
        angle = 2 * math.pi * (k + 1) / RING_VIEWS
        eye = [middle[0] + radius * math.cos(angle), middle[1], middle[2] + radius * math.sin(angle)]
        # The room was reconstructed with y pointing down.
        cameras.append(Camera.look_at(eye, middle, (0.0, -1.0, 0.0), fov_y=fov_y, width=width, height=height))
    return gaussians, cameras
