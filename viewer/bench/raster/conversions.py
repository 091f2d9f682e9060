"""A landscape of Gaussians as other primitives, so that all are timed on scenes of one kind."""

from __future__ import annotations

from math import log

import torch

from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.render.primitives.convexes import STARTING_SIGMA, fibonacci_sphere
from luxel.render.train.densify.situation import rotations

POINTS_EACH = 6
REACH = 1.6  # standard deviations of the Gaussian at which a convex has its points
DELTA = 0.05  # smoothness of a convex of size 1 (capture units)
SPAN, LASTING = 1.0, 0.35  # times of 4D Gaussians, and their standard deviation in time
DRIFT = 0.2  # how far a 4D Gaussian is turned from space into time, radians


def as_primitive(gaussians: Gaussians, primitive: str) -> Parameters:
    """The same scene made of another primitive, in the same order; the same numbers every time.

    Convexes have their points on the ellipsoids; 4D Gaussians have times of their own, come and go, and drift.
    """
    return {"gaussians": lambda g: g, "convexes": as_convexes, "gaussians4d": as_moving}[primitive](gaussians)


def as_convexes(gaussians: Gaussians) -> Convexes:
    """Convexes of six points, one for each Gaussian."""
    axes = rotations(gaussians.quats) * gaussians.scales[:, None, :]
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


def as_moving(gaussians: Gaussians) -> Gaussians4d:
    """4D Gaussians, one for each Gaussian, at random times from 0 to 1."""
    generator = torch.Generator().manual_seed(5)
    out = Gaussians4d.from_gaussians(gaussians, time=0.0, time_scale=LASTING)
    out.times = SPAN * torch.rand(out.count, generator=generator).to(out.times)
    turn = DRIFT * (2 * torch.rand(out.count, 3, generator=generator) - 1)
    out.rotors = out.rotors / out.rotors.norm(dim=-1, keepdim=True)
    out.rotors[:, 4:7] = turn.to(out.rotors) * out.log_scales.exp().clamp_max(
        0.1
    )  # large ones would sweep the scene
    return out
