"""What the training of 4D Gaussians adds to the photometric loss (Duan et al. 2024, "4D-Rotor Gaussian Splatting").

Plain torch on top of the stage `neighbours`: nothing waits for the device, so that a captured step may hold all of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.ops.neighbours import neighbours
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.reference.slice_gaussians4d import rotor_to_quats


def entropy(
    opacities: Tensor, visible: Tensor, of_others: float = 0.01, live: Tensor | None = None
) -> Tensor:
    """The mean of -o ln o, which drives opacities to 0 or 1 (Duan et al. 2024, entropy loss).

    Args:
        opacities: o, held to [1e-3, 1 - 1e-3], beyond which there is no gradient, [N].
        visible: bool, seen by a camera of the batch, [N].
        of_others: times the mean over those that are not visible, added.
        live: bool, those that are there at all, [N]; None: all.

    Returns:
        One number, 0 where there is nothing to take a mean of.
    """
    o = opacities.clamp(1e-3, 1 - 1e-3)
    each = -o * o.log()
    others = ~visible if live is None else live & ~visible
    return _mean(each, visible) + of_others * _mean(each, others)


def consistency(
    velocity: Tensor, positions: Tensor, visible: Tensor, *, time_weight: float, k: int = 8
) -> Tensor:
    """How much Gaussians move unlike those around them (Duan et al. 2024, 4D consistency loss).

    The mean over visible Gaussians of |v - mean of v over its k nearest|_1, the nearest among the visible ones in
    (x, y, z, time_weight t). Gradients reach both terms of the difference, and none which neighbours there are.
    With k visible Gaussians or fewer, a Gaussian stands in for the neighbours that it lacks.

    Args:
        velocity: v, [N, 3], see `velocities`.
        positions: x, y, z, t, [N, 4].
        visible: bool, seen by a camera of the batch, [N].
        time_weight: units of length per unit of time; the authors take 5 for D-NeRF and 1 for videos.
        k: 1 to 16.
    """
    places = positions.detach()
    near = neighbours(torch.cat([places[:, :3], time_weight * places[:, 3:]], -1), k, visible)
    v = torch.where(visible[:, None], velocity, 0.0)  # those left out may hold anything
    around = v.index_select(0, near.flatten()).view(*near.shape, 3).mean(1)
    return _mean((v - around).abs().sum(-1), visible)


def velocities(gaussians: Gaussians4d) -> Tensor:
    """How fast the slice of each Gaussian moves, b / c of its covariance [[A, b], [b^T, c]], [N, 3]; differentiable.

    R w = l w conj(r) for the time row of R times the squared scales as w holds b and c in one: no matrix is formed.
    """
    left, right = rotor_to_quats(gaussians.rotors)
    log_scales = torch.cat([gaussians.log_scale_t[:, None], gaussians.log_scales], -1)
    log_scales = log_scales - log_scales.detach().amax(-1, keepdim=True)  # b / c stays: nothing can overflow
    weighted = log_scales.mul(2).exp() * _product(_conjugate(left), right)
    c, b = _product(_product(left, weighted), _conjugate(right)).split([1, 3], -1)
    return b / c.clamp_min(torch.finfo(c.dtype).tiny)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Over the rows of the mask, without a choice of rows whose number the host would have to know."""
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp_min(1)


def _conjugate(q: Tensor) -> Tensor:
    return torch.cat([q[..., :1], -q[..., 1:]], -1)


def _product(p: Tensor, q: Tensor) -> Tensor:
    """Hamilton's product of quaternions wxyz, [N, 4]."""
    a, b, c, d = p.unbind(-1)
    w, x, y, z = q.unbind(-1)
    parts = (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )
    return torch.stack(parts, -1)
