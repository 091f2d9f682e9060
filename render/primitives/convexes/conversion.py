"""Gaussians as convexes with points on their ellipsoids: a scene for benchmarks."""

from __future__ import annotations

from math import log

import torch

from luxel.render.primitives.convexes.options import STARTING_SIGMA
from luxel.render.primitives.convexes.parameters import Convexes, fibonacci_sphere
from luxel.render.primitives.gaussians.parameters import Gaussians, quat_to_matrix

POINTS_EACH = 6
REACH = 1.6  # standard deviations of the Gaussian at which a convex has its points
DELTA = 0.05  # smoothness of a convex of size 1 (capture units)


def from_gaussians(gaussians: Gaussians) -> Convexes:
    """Convexes of six points, one for each Gaussian."""
    axes = quat_to_matrix(gaussians.quats) * gaussians.scales[:, None, :]
    sphere = fibonacci_sphere(POINTS_EACH).to(gaussians.means)
    points = gaussians.means[:, None] + REACH * sphere @ axes.mT
    size = gaussians.scales.sort(dim=-1).values[:, 1]
    return Convexes(
        points=points,
        log_delta=(DELTA / size.clamp_min(1e-6)).log(),
        log_sigma=torch.full_like(size, log(STARTING_SIGMA["light"])) + 3.0,
        opacity_logits=gaussians.opacity_logits,
        sh_dc=gaussians.sh_dc,
        sh_rest=gaussians.sh_rest,
        mask_logits=torch.ones_like(size),
    )
