"""Cameras with a lens, and Gaussians around them, that tests share."""

from __future__ import annotations

import math

import torch

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_lens, radial_lens
from luxel.render.primitives.gaussians import Gaussians

LENSES = {
    "fisheye": fisheye_lens((0.05, -0.01, 0.002, -0.0003)),
    "limited fisheye": fisheye_lens((-0.08, 0.01), limit=1.4),
    "radial": radial_lens((-0.12, 0.02, 0.001), (0.004, -0.003), limit=1.6),
    "folding radial": radial_lens((-0.3,), (0.002, 0.001)),
}


def camera_with(name: str, width: int = 62, height: int = 50) -> Camera:
    """A camera that looks along a tilted axis from beside the origin, with a lens of `LENSES`."""
    camera = Camera.look_at((0.3, -0.2, 0.1), (1.0, 0.6, 0.3), width=width, height=height)
    focal = width / 3.4 if "fisheye" in name else 0.6 * width
    intrinsics = torch.tensor([focal, 1.05 * focal, 0.48 * width, 0.53 * height])
    return Camera(camera.world_to_cam, intrinsics, width, height, near=0.2, lens=LENSES[name])


def gaussians_around(
    count: int = 160, seed: int = 0, *, sh_degree: int = 1, before: Camera | None = None
) -> Gaussians:
    """Gaussians in all directions from the origin, 1 to 4 units away, some of them large and thin.

    With ``before`` only those well before that camera: beside a radial lens the gradients of huge splats lose digits
    in float32.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    directions = torch.nn.functional.normalize(normal(count, 3), dim=-1)
    distances = 1 + 3 * torch.rand(count, 1, generator=generator)
    gaussians = Gaussians(
        directions * distances,
        normal(count, 4),
        math.log(0.25) + 0.7 * normal(count, 3),
        normal(count),
        0.8 * normal(count, 3),
        0.2 * normal(count, (sh_degree + 1) ** 2 - 1, 3),
    )
    if before is None:
        return gaussians
    matrix = before.world_to_cam
    depth = (gaussians.means @ matrix[:3, :3].mT + matrix[:3, 3])[:, 2]
    return gaussians.select((depth > 0.8).nonzero()[:, 0])
