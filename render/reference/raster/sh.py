"""Colours as sums of real spherical harmonics up to degree 3."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.ops.field.spherical_harmonics import sh_basis


def sh_color(directions: Tensor, sh_dc: Tensor, sh_rest: Tensor, degree: int) -> Tensor:
    """Colour seen along a direction before it is clamped at 0: the SH sum plus 0.5.

    Args:
        directions: unit vectors from the camera to the primitive, [N, 3].
        sh_dc: coefficients of degree 0, [N, 3].
        sh_rest: coefficients of degrees 1 and up, [N, K - 1, 3].
        degree: 0..3; coefficients above it are not read.

    Returns:
        RGB, [N, 3].
    """
    coefficients = torch.cat([sh_dc[:, None], sh_rest[:, : (degree + 1) ** 2 - 1]], 1)
    return (sh_basis(directions, degree)[..., None] * coefficients).sum(1) + 0.5
