"""Surfels that tests share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.surfels import Surfels

D = torch.float64


def random_surfels(n: int, seed: int = 0, *, sh_degree: int = 1, size: float = 0.3) -> Surfels:
    """Surfels around the origin, of all orientations."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Surfels(
        means=0.7 * normal(n, 3),
        quats=normal(n, 4),
        log_scales=torch.tensor(size).log() + 0.5 * normal(n, 2),
        opacity_logits=1 + normal(n),
        sh_dc=0.8 * normal(n, 3),
        sh_rest=0.2 * normal(n, (sh_degree + 1) ** 2 - 1, 3),
    ).to(D)


def well_observed(surfels: Surfels, camera: Camera, least: float = 0.2) -> Surfels:
    """Those that a camera does not see edge-on, where rounding counts; least: cosine of the angle."""
    cameras = camera if camera.batched else Camera.stack([camera])
    keep = torch.ones(surfels.count, dtype=torch.bool)
    for position in cameras.cam_to_world[:, :3, 3].to(surfels.means):
        sight = torch.nn.functional.normalize(surfels.means - position, dim=-1)
        keep &= (surfels.normals * sight).sum(-1).abs() >= least
    return surfels.select(keep)


def surfels_like(precision: dict[str, Any], camera: Camera, *args: Any, **options: Any) -> Surfels:
    """`random_surfels` that the camera sees well, in a precision."""
    return well_observed(random_surfels(*args, **options), camera).map(lambda t: t.to(**precision))
