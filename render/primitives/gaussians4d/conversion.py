"""Gaussians as 4D Gaussians that appear, move and disappear: a scene for benchmarks."""

from __future__ import annotations

import torch

from luxel.render.primitives.gaussians.parameters import Gaussians
from luxel.render.primitives.gaussians4d.parameters import Gaussians4d

SPAN, TIME_SCALE = 1.0, 0.35  # times of the centres, and the standard deviation in time
DRIFT = 0.2  # rotation from space into time, radians


def from_gaussians(gaussians: Gaussians) -> Gaussians4d:
    """4D Gaussians, one for each Gaussian, at random times from 0 to 1; the same numbers every time."""
    generator = torch.Generator().manual_seed(5)
    out = Gaussians4d.from_gaussians(gaussians, time=0.0, time_scale=TIME_SCALE)
    out.times = SPAN * torch.rand(out.count, generator=generator).to(out.times)
    turn = DRIFT * (2 * torch.rand(out.count, 3, generator=generator) - 1)
    out.rotors = out.rotors / out.rotors.norm(dim=-1, keepdim=True)
    out.rotors[:, 4:7] = turn.to(out.rotors) * out.log_scales.exp().clamp_max(
        0.1
    )  # large ones would sweep the scene
    return out
