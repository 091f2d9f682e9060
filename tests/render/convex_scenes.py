"""Convexes that the tests of their reference share."""

from __future__ import annotations

import math
from typing import Any

import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import SH_C0

D = torch.float64


def random_convexes(n: int, seed: int = 0, *, k: int = 6, sh_degree: int = 1, size: float = 0.4) -> Convexes:
    """Convexes around the origin, soft enough that most pixels see a slope; some masks are off."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return Convexes(
        points=0.7 * normal(n, 1, 3) + size * normal(n, k, 3),
        log_delta=math.log(0.05) + 0.5 * normal(n),
        log_sigma=math.log(0.05) + 0.5 * normal(n),
        opacity_logits=1 + normal(n),
        sh_dc=0.8 * normal(n, 3),
        sh_rest=0.2 * normal(n, (sh_degree + 1) ** 2 - 1, 3),
        mask_logits=torch.where(torch.arange(n) % 5 == 3, -5.0, 1.0) + 0.1 * normal(n),
    ).to(D)


def convexes_like(precision: dict[str, Any], *args: Any, **options: Any) -> Convexes:
    """`random_convexes` in a precision."""
    return random_convexes(*args, **options).map(lambda t: t.to(**precision))


def solid(points: torch.Tensor, colors: torch.Tensor, delta: float = 0.3, sigma: float = 0.3) -> Convexes:
    """Nearly opaque convexes of one colour each with hard boundaries."""
    n = points.shape[0]
    return Convexes(
        points=points,
        log_delta=torch.full((n,), math.log(delta)),
        log_sigma=torch.full((n,), math.log(sigma)),
        opacity_logits=torch.full((n,), 8.0),
        sh_dc=(colors - 0.5) / SH_C0,
        sh_rest=torch.zeros(n, 0, 3),
        mask_logits=torch.ones(n),
    ).to(D)


def facing(depth: float, half: float = 1.0) -> torch.Tensor:
    """A square that faces a camera at the origin, [1, 4, 3]."""
    return torch.tensor(
        [[[-half, -half, depth], [half, -half, depth], [half, half, depth], [-half, half, depth]]]
    )


def axis_camera(width: int = 64, height: int = 64, focal: float = 64.0) -> Camera:
    """At the origin, looking along z."""
    intrinsics = torch.tensor([focal, focal, width / 2, height / 2])
    return Camera(torch.eye(4), intrinsics, width, height).to(D)
