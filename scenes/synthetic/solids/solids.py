"""Solids with exact ray intersections, in closed form or by iterations that converge to the first hit.

Every shape is centred at the origin of its object space. Vectors are [3, R], components first, so that sums over
components are contiguous. A ray is o + t d with d of any length: t is invariant under affine maps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

NEWTON_STEPS = 60  # a grazing ray halves its distance in each
HIT_DISTANCE = 1e-12  # from the surface, at which a ray has hit it, object units
BISECTIONS = 45


class Shape(Protocol):
    """A closed surface around the origin."""

    @property
    def bound(self) -> float:
        """Radius of a bounding sphere around the origin."""
        ...

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        """The least t > near at which each ray hits the surface, inf without a hit, [R].

        Args:
            origin: [3, R], or [3, 1] for rays from one point.
            direction: of any length above 0, [3, R].
            near: lower bound of t.
        """
        ...

    def normal(self, point: np.ndarray) -> np.ndarray:
        """Outward normals, of any length, at points of the surface [3, R]; [3, R]."""
        ...


def _first(near: float, *candidates: np.ndarray) -> np.ndarray:
    """The least candidate above near; inf where there is none (NaN is ignored)."""
    out = np.full_like(candidates[0], np.inf)
    for t in candidates:
        np.minimum(out, np.where(t > near, t, np.inf), out=out)
    return out


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _roots(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both roots of a t^2 + 2 b t + c without cancellation; NaN where they are not real."""
    with np.errstate(invalid="ignore", divide="ignore"):
        q = -(b + np.copysign(np.sqrt(b * b - a * c), b))
        return q / a, c / q


def _within(bound: float, origin: np.ndarray, direction: np.ndarray, near: float) -> tuple[np.ndarray, ...]:
    """The rays that intersect the sphere of radius ``bound`` beyond near, with unit directions.

    Returns:
        Their indices [Q], origins and unit directions [3, Q], and distances of entry and exit [Q].
    """
    length = np.sqrt(_dot(direction, direction))
    d = direction / length
    o = np.broadcast_to(origin, d.shape)
    b = _dot(o, d)
    with np.errstate(invalid="ignore"):
        half = np.sqrt(b * b - _dot(o, o) + (bound * (1 + 1e-6)) ** 2)
    begin, end = np.maximum(-b - half, near * length), half - b
    left = np.flatnonzero(begin < end)  # false for NaN: rays that miss the sphere
    return left, o[:, left], d[:, left], begin[left], end[left]


def _cubic_roots(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Real roots of s^3 + p s + q in ascending order, [3, R]; a single root is repeated three times."""
    inner = (q / 2) ** 2 + (p / 3) ** 3
    with np.errstate(invalid="ignore", divide="ignore"):
        w = np.cbrt(-q / 2 - np.copysign(np.sqrt(inner), q))
        single = np.where(w == 0, 0, w - p / (3 * w))
        radius = 2 * np.sqrt(-p / 3)
        angle = np.arccos(np.clip(3 * q / (p * radius), -1, 1)) / 3
        three = [radius * np.cos(angle - 2 * np.pi * k / 3) for k in (2, 1, 0)]
    return np.where(inner >= 0, single, np.sort(np.stack(three), axis=0))


@dataclass(frozen=True)
class Ellipsoid:
    """|x / radii| = 1."""

    radii: tuple[float, float, float]

    @property
    def bound(self) -> float:
        return max(self.radii)

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        radii = np.array(self.radii)[:, None]
        o, d = origin / radii, direction / radii
        return _first(near, *_roots(_dot(d, d), _dot(o, d), _dot(o, o) - 1))

    def normal(self, point: np.ndarray) -> np.ndarray:
        return point / np.square(np.array(self.radii))[:, None]


def sphere(radius: float) -> Ellipsoid:
    """A sphere."""
    return Ellipsoid((radius, radius, radius))


@dataclass(frozen=True)
class Box:
    """A box with sharp edges; ``half`` are its half edge lengths."""

    half: tuple[float, float, float]

    @property
    def bound(self) -> float:
        return float(np.linalg.norm(self.half))

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        half = np.array(self.half)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = (-half - origin) / direction, (half - origin) / direction
        enter = np.fmax.reduce(np.fmin(a, b), axis=0)
        leave = np.fmin.reduce(np.fmax(a, b), axis=0)
        met = enter <= leave
        return _first(near, np.where(met, enter, np.inf), np.where(met, leave, np.inf))

    def normal(self, point: np.ndarray) -> np.ndarray:
        share = np.abs(point) / np.array(self.half)[:, None]
        return np.where(share == share.max(axis=0), np.sign(point), 0.0)


@dataclass(frozen=True)
class Cylinder:
    """An upright cylinder with flat ends: x^2 + y^2 <= radius^2, |z| <= half."""

    radius: float
    half: float

    @property
    def bound(self) -> float:
        return float(np.hypot(self.radius, self.half))

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        o, d = origin, direction
        a, b = d[0] * d[0] + d[1] * d[1], o[0] * d[0] + o[1] * d[1]
        c = o[0] * o[0] + o[1] * o[1] - self.radius**2
        candidates = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for t in _roots(a, b, c):
                candidates.append(np.where(np.abs(o[2] + t * d[2]) <= self.half, t, np.inf))
            for end in (-self.half, self.half):
                t = (end - o[2]) / d[2]
                away = (o[0] + t * d[0]) ** 2 + (o[1] + t * d[1]) ** 2
                candidates.append(np.where(away <= self.radius**2, t, np.inf))
        return _first(near, *candidates)

    def normal(self, point: np.ndarray) -> np.ndarray:
        on_end = self.half - np.abs(point[2]) < self.radius - np.hypot(point[0], point[1])
        flat = np.zeros_like(point)
        flat[2] = np.sign(point[2])
        side = np.stack([point[0], point[1], np.zeros_like(point[2])])
        return np.where(on_end, flat, side)


@dataclass(frozen=True)
class Torus:
    """A torus around z with major radius ``ring`` and minor radius ``tube`` < ``ring``.

    Along a ray, with t measured from the point nearest to the centre, it is a quartic without a cubic term. Between the
    roots of its derivative it is monotone, so that bisection converges to its first sign change.
    """

    ring: float
    tube: float

    @property
    def bound(self) -> float:
        return self.ring + self.tube

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        left, o, d, begin, end = _within(self.bound, origin, direction, near)
        middle = -_dot(o, d)
        o, begin, end = o + middle * d, begin - middle, end - middle
        k, four = _dot(o, o) + self.ring**2 - self.tube**2, 4 * self.ring**2
        p2 = 2 * k - four * (d[0] * d[0] + d[1] * d[1])
        p1 = -2 * four * (o[0] * d[0] + o[1] * d[1])
        p0 = k * k - four * (o[0] * o[0] + o[1] * o[1])
        turns = np.clip(_cubic_roots(p2 / 2, p1 / 4), begin, end)
        knots = np.concatenate([begin[None], turns, end[None]])
        value = ((knots * knots + p2) * knots + p1) * knots + p0
        change = (value[:-1] > 0) != (value[1:] > 0)
        met = change.any(axis=0)
        first = change.argmax(axis=0)[None, met]
        low = np.take_along_axis(knots[:, met], first, axis=0)[0]
        high = np.take_along_axis(knots[:, met], first + 1, axis=0)[0]
        outside = np.take_along_axis(value[:, met], first, axis=0)[0] > 0
        p2, p1, p0 = p2[met], p1[met], p0[met]
        for _ in range(BISECTIONS):
            s = 0.5 * (low + high)
            before = ((((s * s + p2) * s + p1) * s + p0) > 0) == outside
            low, high = np.where(before, s, low), np.where(before, high, s)
        out = np.full(direction.shape[1], np.inf)
        out[left[met]] = 0.5 * (low + high) + middle[met]
        return out / np.sqrt(_dot(direction, direction))

    def normal(self, point: np.ndarray) -> np.ndarray:
        across = np.maximum(np.hypot(point[0], point[1]), 1e-30)
        shrink = 1 - self.ring / across
        return np.stack([point[0] * shrink, point[1] * shrink, point[2]])


class Convex(ABC):
    """Base of convex shapes with a known signed distance, intersected by Newton's method along the ray.

    Along a ray the distance is a convex function. From outside, a Newton step therefore never passes the surface, and a
    ray whose distance stops decreasing has missed. Rays that start inside are traced back from their far end.
    """

    @property
    @abstractmethod
    def bound(self) -> float:
        """Radius of a bounding sphere around the origin."""

    @abstractmethod
    def distance(self, point: np.ndarray) -> np.ndarray:
        """Signed distance of points [3, R] to the surface, negative inside; [R]."""

    @abstractmethod
    def normal(self, point: np.ndarray) -> np.ndarray:
        """The gradient of the distance at points outside or on the surface [3, R], of any length; [3, R]."""

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        left, o, d, begin, end = _within(self.bound, origin, direction, near)
        out = np.full(direction.shape[1], np.inf)
        inside = self.distance(o + begin * d) <= 0
        s, sign = np.where(inside, end, begin), np.where(inside, -1.0, 1.0)
        for _ in range(NEWTON_STEPS):
            point = o + s * d
            distance = self.distance(point)
            met = distance < HIT_DISTANCE
            out[left[met]] = s[met]
            gradient = self.normal(point)
            slope = sign * _dot(gradient, d) / np.sqrt(_dot(gradient, gradient))
            keep = ~met & (slope < 0)
            s = s - sign * distance / np.where(keep, slope, 1)
            left, o, d, s, sign = left[keep], o[:, keep], d[:, keep], s[keep], sign[keep]
            if not len(left):
                break
        return out / np.sqrt(_dot(direction, direction))


@dataclass(frozen=True)
class Capsule(Convex):
    """All points within ``radius`` of the segment |z| <= half: a cylinder with round ends."""

    radius: float
    half: float

    @property
    def bound(self) -> float:
        return self.half + self.radius

    def _from_axis(self, point: np.ndarray) -> np.ndarray:
        return np.stack([point[0], point[1], point[2] - np.clip(point[2], -self.half, self.half)])

    def distance(self, point: np.ndarray) -> np.ndarray:
        away = self._from_axis(point)
        return np.sqrt(_dot(away, away)) - self.radius

    def normal(self, point: np.ndarray) -> np.ndarray:
        return self._from_axis(point)


@dataclass(frozen=True)
class RoundedBox(Convex):
    """All points within ``radius`` of a box; ``half`` are the half edge lengths including the rounding."""

    half: tuple[float, float, float]
    radius: float

    @property
    def bound(self) -> float:
        return float(np.linalg.norm(np.array(self.half) - self.radius)) + self.radius

    def distance(self, point: np.ndarray) -> np.ndarray:
        beyond = np.abs(point) - (np.array(self.half) - self.radius)[:, None]
        outside = np.maximum(beyond, 0)
        return np.sqrt(_dot(outside, outside)) + np.minimum(beyond.max(axis=0), 0) - self.radius

    def normal(self, point: np.ndarray) -> np.ndarray:
        core = (np.array(self.half) - self.radius)[:, None]
        return point - np.clip(point, -core, core)
