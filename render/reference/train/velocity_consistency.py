"""Differences between velocities of 4D Gaussians and those of their neighbours, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.ops.raster.slice_gaussians4d import rotor_to_quats
from luxel.render.reference.train.opacity_entropy import mean_where


def velocity_consistency_reference(
    rotors: Tensor, log_scales: Tensor, log_scale_t: Tensor, neighbours: Tensor, visible: Tensor
) -> Tensor:
    """The mean over visible Gaussians of |v - mean of v over neighbours|_1 (Duan et al. 2024, 4D consistency loss).

    Gradients reach both terms of the difference. What is neither visible nor a neighbour may hold anything.

    Args:
        rotors, log_scales, log_scale_t: of 4D Gaussians, [N, 8], [N, 3], [N].
        neighbours: their rows, integers [N, k].
        visible: bool, seen by a camera of the batch, [N].
    """
    index = neighbours.long()
    used = visible.clone()
    used[index[visible].flatten()] = True
    rows = used.nonzero()[:, 0]  # the others have no gradient, even if they hold NaN
    velocity = velocities(rotors[rows], log_scales[rows], log_scale_t[rows])
    v = velocity.new_zeros(rotors.shape[0], 3).index_copy(0, rows, velocity)
    around = v[index.flatten()].view(*index.shape, 3).mean(1)
    return mean_where((v - around).abs().sum(-1), visible)


def velocities(rotors: Tensor, log_scales: Tensor, log_scale_t: Tensor) -> Tensor:
    """How fast the slice of each Gaussian moves, b / c of its covariance [[A, b], [b^T, c]], [N, 3]; differentiable.

    With w the time row of R times the squared scales, R w = l w conj(r) holds c and b; no matrix is formed.

    Args:
        rotors, log_scales, log_scale_t: [N, 8], [N, 3], [N].
    """
    left, right = rotor_to_quats(rotors)
    logs = torch.cat([log_scale_t[:, None], log_scales], -1)
    logs = logs - logs.detach().amax(-1, keepdim=True)  # b / c stays: nothing can overflow
    weighted = logs.mul(2).exp() * _product(_conjugate(left), right)
    c, b = _product(_product(left, weighted), _conjugate(right)).split([1, 3], -1)
    return b / c.clamp_min(torch.finfo(c.dtype).tiny)


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
