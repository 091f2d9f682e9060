"""Rotation matrices of pages as quaternions, in plain Python: a message takes 30 us instead of 380 us with numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

TOLERANCE = 1e-3  # of the products of the columns


def quaternion(m: Sequence[float]) -> tuple[float, float, float, float]:
    """The unit quaternion w, x, y, z of a rotation (Shepperd 1978: divides by the largest component).

    Args:
        m: the matrix in rows, [9].

    Raises:
        ValueError: it is no rotation.
    """
    xx, xy, xz, yx, yy, yz, zx, zy, zz = m
    columns = ((xx, yx, zx), (xy, yy, zy), (xz, yz, zz))
    for i, a in enumerate(columns):
        for j, b in enumerate(columns[: i + 1]):
            product = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
            if not abs(product - (i == j)) < TOLERANCE:
                raise ValueError("matrix is not a rotation and a position")
    a, b, c = columns
    cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    if not cross[0] * c[0] + cross[1] * c[1] + cross[2] * c[2] > 0:
        raise ValueError("matrix is not a rotation and a position")
    trace = xx + yy + zz
    if trace > 0:
        q = (1 + trace, zy - yz, xz - zx, yx - xy)
    elif xx >= yy and xx >= zz:
        q = (zy - yz, 1 + xx - yy - zz, xy + yx, xz + zx)
    elif yy >= zz:
        q = (xz - zx, xy + yx, 1 - xx + yy - zz, yz + zy)
    else:
        q = (yx - xy, xz + zx, yz + zy, 1 - xx - yy + zz)
    norm = math.sqrt(sum(x * x for x in q))
    w, x, y, z = (component / norm for component in q)
    return w, x, y, z
