"""Real spherical harmonics of directions as torch operations; kernels have theirs in cuda/math/raster/sh.h."""

from __future__ import annotations

from math import pi, sqrt

import torch
from torch import Tensor


def sh_basis(directions: Tensor, degree: int) -> Tensor:
    """The basis functions up to ``degree``, in the order and with the signs of 3D Gaussian Splatting scene files.

    Args:
        directions: unit vectors in world coordinates, [..., 3].
        degree: 0..3.

    Returns:
        [..., (degree + 1)^2].
    """
    x, y, z = directions.unbind(-1)
    basis = [torch.full_like(x, sqrt(1 / (4 * pi)))]
    if degree >= 1:
        k = sqrt(3 / (4 * pi))
        basis += [-k * y, k * z, -k * x]
    if degree >= 2:
        k = sqrt(15 / (4 * pi))
        basis += [
            k * x * y,
            -k * y * z,
            sqrt(5 / (16 * pi)) * (2 * z * z - x * x - y * y),
            -k * x * z,
            k / 2 * (x * x - y * y),
        ]
    if degree >= 3:
        k1, k2, k3 = sqrt(21 / (32 * pi)), sqrt(105 / (4 * pi)), sqrt(35 / (32 * pi))
        basis += [
            -k3 * y * (3 * x * x - y * y),
            k2 * x * y * z,
            -k1 * y * (4 * z * z - x * x - y * y),
            sqrt(7 / (16 * pi)) * z * (2 * z * z - 3 * x * x - 3 * y * y),
            -k1 * x * (4 * z * z - x * x - y * y),
            k2 / 2 * z * (x * x - y * y),
            -k3 * x * (x * x - 3 * y * y),
        ]
    return torch.stack(basis, -1)
