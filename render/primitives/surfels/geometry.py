"""Losses of the geometry of surfels: depth distortion and consistency of normals (Huang et al. 2024, section 5)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives.depth_normals import normal_difference
from luxel.render.primitives.spec import GeometryImages, Term
from luxel.render.primitives.surfels.options import DISTORTION, NORMALS

MIN_COVER = 1e-4  # of a pixel whose depth counts


def geometry_terms(images: GeometryImages, loss: Any, names: tuple[str, ...]) -> list[Term]:
    """The terms of ``names`` with their weights; see `PrimitiveEngine.geometry`."""
    terms: list[Term] = []
    if DISTORTION in names:
        terms.append((loss.distortion_weight, distortion(images)))
    if NORMALS in names:
        terms.append((loss.normal_weight, normal_difference(images, mean_depth(images))))
    return terms


def mean_depth(images: GeometryImages) -> Tensor:
    """Mean depth of what covers each pixel, [B, H, W]; 0 where hardly anything does."""
    cover = 1 - images.transmittance
    return torch.where(cover > MIN_COVER, images.depth / cover.clamp_min(MIN_COVER), 0.0)


def distortion(images: GeometryImages) -> Tensor:
    """Mean over pixels of sum_ij w_i w_j ((z_i - z_j) / z)^2, with z the mean depth as a constant; a scalar.

    The sum over pairs of eq. 13, of squares and relative to the depth, so that it has no unit, follows from moments: it
    is 2 (sum w sum w z^2 - (sum w z)^2) / z^2.
    """
    cover, z = 1 - images.transmittance, mean_depth(images).detach()
    assert images.square is not None
    pairs = 2 * (cover * images.square - images.depth.square())
    relative = torch.where(z > 0, pairs / torch.where(z > 0, z, 1.0).square(), 0.0)
    return _mean(relative, images.weight)


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    return values.mean() if weight is None else (values * weight).mean()
