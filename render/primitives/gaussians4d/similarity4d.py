"""Rotation and uniform scale of space applied to the rotors and scales of 4D Gaussians; time stays as it is."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from luxel.render.ops.raster.slice_gaussians4d import rotor_to_matrix, rotor_to_quats
from luxel.render.primitives.similarity import Similarity, quat_product


def turn_rotors(rotors: Tensor, similarity: Similarity) -> Tensor:
    """Rotors [N, 8] followed by a rotation of space.

    The rotation q of space maps v to q v conj(q), so both quaternions of a rotor are multiplied by q from the left.
    """
    if not similarity.turns:
        return rotors
    left, right = rotor_to_quats(rotors)
    quat = similarity.unit_quat(rotors)
    return quats_to_rotor(quat_product(quat, left), quat_product(quat, right))


def quats_to_rotor(left: Tensor, right: Tensor) -> Tensor:
    """The rotor of two unit quaternions wxyz, [N, 4] twice to [N, 8]: the reverse of `rotor_to_quats`."""
    mean, half = (left + right) / 2, (left - right) / 2
    s, yz, xz, xy = mean.unbind(-1)
    p, xt, yt, zt = half.unbind(-1)
    return torch.stack([s, -xy, xz, -yz, xt, yt, zt, p], -1)


def scale_space(
    log_scales: Tensor, log_scale_t: Tensor, rotors: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Scales and rotors of the same 4D Gaussians with space ``scale`` times as large.

    Where no axis mixes space and time this adds to ``log_scales``. Elsewhere the covariance G R S^2 R^T G with
    G = diag(scale, scale, scale, 1) gets new axes, from the singular values of G R S, in float64.

    Args:
        log_scales, log_scale_t, rotors: as in Gaussians4d, [N, 3], [N], [N, 8].
        scale: above 0.

    Returns:
        The three changed tensors.
    """
    if scale == 1:
        return log_scales, log_scale_t, rotors
    mixed = (rotors[:, 4:] != 0).any(-1)
    scales, scale_t, turned = log_scales + log(scale), log_scale_t.clone(), rotors.clone()
    rows = mixed.nonzero()[:, 0]
    if len(rows):
        spans = torch.cat([log_scales[rows], log_scale_t[rows, None]], -1).double().exp()
        stretch = torch.tensor([scale, scale, scale, 1.0], dtype=torch.float64, device=rotors.device)
        root = stretch[:, None] * rotor_to_matrix(rotors[rows].double()) * spans[:, None, :]
        axes, values, _ = torch.linalg.svd(root)
        axes, values = _time_last(axes, values)
        scales[rows] = values[:, :3].clamp_min(1e-30).log().to(scales)
        scale_t[rows] = values[:, 3].clamp_min(1e-30).log().to(scale_t)
        turned[rows] = matrix_to_rotor(axes).to(turned)
    return scales, scale_t, turned


def _time_last(axes: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The axis nearest to time as the fourth, the first one reversed where the axes were a reflection."""
    nearest = axes[:, 3].abs().argmax(-1)
    rows = torch.arange(len(axes), device=axes.device)
    order = torch.arange(4, device=axes.device).repeat(len(axes), 1)
    order[rows, nearest], order[:, 3] = 3, nearest
    axes = axes.gather(2, order[:, None, :].expand(-1, 4, -1))
    axes[:, :, 0] *= torch.linalg.det(axes).sign()[:, None]
    return axes, values.gather(1, order)


def matrix_to_rotor(matrices: Tensor) -> Tensor:
    """Rotors of rotations of (x, y, z, t), [N, 4, 4] to [N, 8].

    A rotation is the sum of l_a r_b E_ab over products E_ab of unit quaternions from the left and right, which are
    orthogonal with square norm 4 (Van Elfrinkhof's formula). The matrix of the l_a r_b has rank 1.
    """
    unit = torch.eye(4, dtype=matrices.dtype, device=matrices.device)
    pairs = quats_to_rotor(unit.repeat_interleave(4, 0), unit.repeat(4, 1))
    basis = rotor_to_matrix(pairs).reshape(4, 4, 4, 4)
    outer = torch.einsum("abij,nij->nab", basis, matrices) / 4
    largest = outer.norm(dim=2).argmax(-1)
    right = outer[torch.arange(len(outer), device=outer.device), largest]
    right = right / right.norm(dim=-1, keepdim=True)
    left = (outer @ right[:, :, None])[..., 0]
    return quats_to_rotor(left / left.norm(dim=-1, keepdim=True), right)
