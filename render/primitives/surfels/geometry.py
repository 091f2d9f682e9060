"""Losses of the geometry of surfels: depth distortion and consistency of normals (Huang et al. 2024, section 5)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives.spec import GeometryImages, Term
from luxel.render.primitives.surfels.options import DISTORTION, NORMALS

COVERED = 0.5  # alpha from which on a pixel has a surface
LEAST_COVER = 1e-4  # of a pixel whose depth counts


def geometry_terms(images: GeometryImages, loss: Any, names: tuple[str, ...]) -> list[Term]:
    """The terms of ``names`` with their weights; see `PrimitiveEngine.geometry`."""
    terms: list[Term] = []
    if DISTORTION in names:
        terms.append((loss.distortion_weight, distortion(images)))
    if NORMALS in names:
        terms.append((loss.normal_weight, normal_difference(images)))
    return terms


def mean_depth(images: GeometryImages) -> Tensor:
    """Mean depth of what covers each pixel, [B, H, W]; 0 where hardly anything does."""
    cover = 1 - images.transmittance
    return torch.where(cover > LEAST_COVER, images.depth / cover.clamp_min(LEAST_COVER), 0.0)


def distortion(images: GeometryImages) -> Tensor:
    """Mean over pixels of sum_ij w_i w_j ((z_i - z_j) / z)^2, with z the mean depth as a constant; a scalar.

    The sum over pairs of eq. 13, of squares and relative to the depth, so that it has no unit, follows from moments: it
    is 2 (sum w sum w z^2 - (sum w z)^2) / z^2.
    """
    cover, z = 1 - images.transmittance, mean_depth(images).detach()
    pairs = 2 * (cover * images.square - images.depth.square())
    relative = torch.where(z > 0, pairs / torch.where(z > 0, z, 1.0).square(), 0.0)
    return _mean(relative, images.weight)


def normal_difference(images: GeometryImages) -> Tensor:
    """Mean over pixels of sum_i w_i (1 - n_i . N), with N the normal of the surface of mean depths (eq. 14); a scalar.

    N comes from central differences between neighbours (eq. 15). Pixels at the border, and those where a neighbour is
    covered by less than half, do not count.
    """
    cover, z = 1 - images.transmittance, mean_depth(images)
    fx, fy, cx, cy = (one[:, None, None] for one in images.intrinsics[:, :4].unbind(-1))
    _, height, width = z.shape
    x = torch.arange(width, device=z.device, dtype=z.dtype) + 0.5
    y = torch.arange(height, device=z.device, dtype=z.dtype) + 0.5
    points = torch.stack([(x - cx) / fx * z, (y[:, None] - cy) / fy * z, z], -1)
    along_x = points[:, 1:-1, 2:] - points[:, 1:-1, :-2]
    along_y = points[:, 2:, 1:-1] - points[:, :-2, 1:-1]
    normal = torch.linalg.cross(along_y, along_x)  # towards the camera
    length = normal.square().sum(-1, keepdim=True)
    known = length > 0
    normal = torch.where(known, normal, 0.0) * torch.where(known, length, 1.0).rsqrt()
    rotation = images.world_to_cam[:, None, None, :3, :3]
    normal = (normal[..., None] * rotation).sum(-2)  # R^T n
    neighbours = (cover[:, 1:-1, 2:], cover[:, 1:-1, :-2], cover[:, 2:, 1:-1], cover[:, :-2, 1:-1])
    counts = torch.stack(neighbours).amin(0).minimum(cover[:, 1:-1, 1:-1]).detach() > COVERED
    difference = cover[:, 1:-1, 1:-1] - (images.normals[:, 1:-1, 1:-1] * normal).sum(-1)
    difference = torch.where(counts & known[..., 0], difference, 0.0)
    weight = None if images.weight is None else images.weight[:, 1:-1, 1:-1]
    return _mean(difference, weight)


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    return values.mean() if weight is None else (values * weight).mean()
