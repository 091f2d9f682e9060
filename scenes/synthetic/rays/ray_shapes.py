"""Boxes, ellipsoids, cylinders and tori for many rays at once, in torch: first hits, normals and surface coordinates.

Every shape is centred at the origin of its object space. Vectors are [3, ...], components first. `size` is that of
the shape: half edges of a box, radii of an ellipsoid, (radius, radius, half height) of an upright cylinder, and
(ring, ring, tube) of a torus around z.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BOX, ELLIPSOID, CYLINDER, TORUS = range(4)
NEAR = 1e-3  # least ray parameter of a hit
BISECTIONS = 26


def half_extents(shape: int, size: tuple[float, float, float]) -> tuple[float, float, float]:
    """Half edges of the shape's bounding box in object space."""
    a, b, c = size
    return (a + c, b + c, c) if shape == TORUS else (a, b, c)


def first_hit(shape: int, size: tuple[float, float, float], origin: Tensor, direction: Tensor) -> Tensor:
    """The least t > NEAR at which each ray o + t d hits the surface; inf without a hit.

    Args:
        shape: BOX, ELLIPSOID, CYLINDER or TORUS.
        size: of the shape, see above.
        origin: components in object space divided by ``size``, [3, ...], or [3, 1, ...] for rays from one point; those
            of a torus are all divided by its first.
        direction: in the same space, of any length above 0, [3, ...].

    Returns:
        t, [...].
    """
    if shape == TORUS:
        return _torus(size[2] / size[0], origin.double(), direction.double()).float()
    enter, leave = (_box, _round, _cylinder)[shape](origin, direction)
    t = torch.where(enter > NEAR, enter, leave)
    return torch.where((enter <= leave) & (t > NEAR), t, math.inf)


def divisors(shape: int, size: tuple[float, float, float]) -> tuple[float, float, float]:
    """What components in object space are divided by for `first_hit`, [3]."""
    return (size[0], size[0], size[0]) if shape == TORUS else size


def _box(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Where rays enter and leave the box |x|, |y|, |z| <= 1; enter > leave without a hit."""
    inverse = 1 / d
    nearest, half = o * inverse, inverse.abs()
    return -(nearest + half).amin(0), (half - nearest).amin(0)


def _cylinder(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    enter, leave = _round(o[:2], d[:2])
    begin, end = _box(o[2:], d[2:])
    return torch.maximum(enter, begin), torch.minimum(leave, end)


def _round(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Entry and exit of the unit circle or ball, measured from the point nearest to its centre against cancellation."""
    square = (d * d).sum(0).clamp_min(1e-20)
    middle = -(o * d).sum(0) / square
    nearest = o + middle * d
    left = 1 - (nearest * nearest).sum(0)
    half = torch.sqrt(left.clamp_min(0) / square)
    return torch.where(left > 0, middle - half, math.inf), middle + half


def _torus(tube: float, o: Tensor, d: Tensor) -> Tensor:
    """First sign change of the quartic of a torus of major radius 1 along the ray.

    With t measured from the point nearest to the centre the quartic has no cubic term; between the roots of its
    derivative it is monotone, so that bisection converges.
    """
    length = torch.sqrt((d * d).sum(0))
    d = d / length
    middle = -(o * d).sum(0)
    o = o + middle * d
    left = (1 + tube) ** 2 * (1 + 1e-6) - (o * o).sum(0)
    half = torch.sqrt(left.clamp_min(0))
    begin, end = torch.maximum(-half, NEAR * length - middle), half
    k, four = (o * o).sum(0) + 1 - tube**2, 4.0
    p2 = 2 * k - four * (d[0] * d[0] + d[1] * d[1])
    p1 = -2 * four * (o[0] * d[0] + o[1] * d[1])
    p0 = k * k - four * (o[0] * o[0] + o[1] * o[1])
    turns = torch.minimum(torch.maximum(_cubic_roots(p2 / 2, p1 / 4), begin), end)
    knots = torch.cat([begin[None], turns, end[None]])
    value = ((knots * knots + p2) * knots + p1) * knots + p0
    change = (value[:-1] > 0) != (value[1:] > 0)
    first = change.to(torch.uint8).argmax(0, keepdim=True)
    met = change.any(0) & (left > 0) & (begin < end)
    low, high = knots.gather(0, first)[0][met], knots.gather(0, first + 1)[0][met]
    outside = value.gather(0, first)[0][met] > 0
    p2, p1, p0 = p2.expand_as(met)[met], p1[met], p0[met]
    for _ in range(BISECTIONS):
        s = 0.5 * (low + high)
        before = ((((s * s + p2) * s + p1) * s + p0) > 0) == outside
        low, high = torch.where(before, s, low), torch.where(before, high, s)
    t = torch.full_like(left, math.inf)
    t[met] = (0.5 * (low + high) + middle[met]) / length.expand_as(met)[met]
    return t


def _cubic_roots(p: Tensor, q: Tensor) -> Tensor:
    """Real roots of s^3 + p s + q in ascending order, [3, ...]; a single root is repeated three times."""
    inner = (q / 2) ** 2 + (p / 3) ** 3
    inside = -q / 2 - torch.copysign(torch.sqrt(inner.clamp_min(0)), q)
    w = torch.copysign(inside.abs() ** (1 / 3), inside)
    single = torch.where(w == 0, 0, w - p / (3 * w))
    radius = 2 * torch.sqrt((-p / 3).clamp_min(1e-30))
    angle = torch.arccos((3 * q / (p * radius)).clamp(-1, 1)) / 3
    three = torch.stack([radius * torch.cos(angle - 2 * math.pi * k / 3) for k in (2, 1, 0)])
    return torch.where(inner >= 0, single, three)


def surface(shape: Tensor, size: Tensor, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Normals and coordinates of surface points, each on a shape of its own.

    Args:
        shape: of each point, [R].
        size: of its shape, [3, R].
        point: in object space, [3, R].

    Returns:
        Unit outward normals in object space [3, R]; coordinates along the surface in object units [2, R]; and half of
        their extents on boxes [2, R] (undefined on other shapes).
    """
    x, y, z = point
    a, b, c = point.abs() / size
    axis = torch.where(c >= torch.maximum(a, b), 2, (b >= a).long())
    across = torch.sqrt(x * x + y * y).clamp_min(1e-12)
    on_end = (shape == CYLINDER) & (size[2] - z.abs() < size[0] - across)
    flat = (shape == BOX) | on_end
    axis = torch.where(on_end, 2, axis)
    facing = torch.stack([(axis == k) * torch.sign(point[k]) for k in range(3)])
    round_ = torch.where(shape == ELLIPSOID, point / (size * size), point)
    shrink = torch.where(shape == TORUS, 1 - size[0] / across, 1)
    up = torch.where(shape == CYLINDER, 0, round_[2])
    normal = torch.where(flat, facing, torch.stack([round_[0] * shrink, round_[1] * shrink, up]))
    normal = normal / torch.sqrt((normal * normal).sum(0)).clamp_min(1e-12)
    turn = torch.atan2(y, x) * size[0]
    around = torch.atan2(z, across - size[0]) * size[2]
    v = torch.where(
        shape == TORUS, around, torch.where(shape == ELLIPSOID, torch.asin(normal[2]) * size[2], z)
    )
    u = torch.where(flat, torch.where(axis == 0, y, x), turn)
    v = torch.where(flat, torch.where(axis == 2, y, z), v)
    extent = torch.stack([torch.where(axis == 0, size[1], size[0]), torch.where(axis == 2, size[1], size[2])])
    return normal, torch.stack([u, v]), extent
