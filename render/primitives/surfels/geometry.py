"""Losses of the geometry of surfels: depth distortion and consistency of normals (Huang et al. 2024, section 5)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from luxel.render.primitives.depth_normals import normal_difference
from luxel.render.primitives.surfels.options import DISTORTION, NORMALS
from luxel.render.primitives.terms import LossContext, StepImages, StepTerm

MIN_COVER = 1e-4  # of a pixel whose depth counts
MAX_DISTORTION = (
    0.05  # of a pixel: that of halves a third of their depth apart; those of one surface have a thousandth
)


def mean_depth(images: StepImages) -> Tensor:
    """Mean depth of what covers each pixel, [B, H, W]; 0 where hardly anything does."""
    cover = 1 - images.transmittance
    return torch.where(cover > MIN_COVER, images.depth / cover.clamp_min(MIN_COVER), 0.0)


def distortion(images: StepImages) -> Tensor:
    """Mean over pixels of D / (1 + D / `MAX_DISTORTION`), a scalar.

    D is sum_ij w_i w_j ((z_i - z_j) / z)^2, with z the mean depth as a constant. Where a pixel shows something near
    and something far, at the frame of a window, it is in the hundreds, and would outweigh all colours; such a pixel
    counts no more than that limit (Geman & McClure 1987).

    The sum over pairs of eq. 13, of squares and relative to the depth, so that it has no unit, follows from moments: it
    is 2 (sum w sum w z^2 - (sum w z)^2) / z^2.
    """
    cover, z = 1 - images.transmittance, mean_depth(images).detach()
    assert images.square is not None
    pairs = 2 * (cover * images.square - images.depth.square())
    relative = torch.where(z > 0, pairs / torch.where(z > 0, z, 1.0).square(), 0.0)
    return _mean(relative / (1 + relative / MAX_DISTORTION), images.weight)


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    return values.mean() if weight is None else (values * weight).mean()


def normals(images: StepImages) -> Tensor:
    """The difference between the normals of surfels and those of their mean depth; a scalar."""
    return normal_difference(images, mean_depth(images))


def _counting(name: str, weight: str) -> Callable[[LossContext], float]:
    """The weight in a step, where the term of that name counts; see `Loss.geometry_at` and `SurfelLoss.factor_at`."""
    return lambda context: (
        getattr(context.loss, weight) * context.loss.factor_at(context.progress)
        if name in context.loss.geometry_at(context.progress)
        else 0.0
    )


TERMS = (
    StepTerm(
        DISTORTION,
        distortion,
        _counting(DISTORTION, "distortion_weight"),
        frozenset({"depth", "square", "transmittance"}),
    ),
    StepTerm(
        NORMALS,
        normals,
        _counting(NORMALS, "normal_weight"),
        frozenset({"depth", "normals", "transmittance"}),
    ),
)
