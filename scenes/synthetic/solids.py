"""Solids that meet rays exactly: in closed form, or by iterations that cannot miss.

Every shape lies around the origin of its own space. Vectors hold their components first, [3, R], so that sums over
them run along memory. A ray is o + t d with d of any length: t means the same in every space that an affine map
reaches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

NEWTON_STEPS = 60  # a ray that all but grazes comes nearer by half in each
MET = 1e-12  # distance to the surface at which a ray has met it, object units
HALVINGS = 45


class Shape(Protocol):
    """A closed surface around the origin."""

    @property
    def bound(self) -> float:
        """Radius of a sphere around the origin that holds the surface."""
        ...

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        """The least t > near at which each ray meets the surface, inf where none does, [R].

        Args:
            origin: [3, R], or [3, 1] for rays from one point.
            direction: of any length but zero, [3, R].
            near: t.
        """
        ...

    def normal(self, point: np.ndarray) -> np.ndarray:
        """Outward normals, of any length, at points of the surface [3, R]; [3, R]."""
        ...


def _first(near: float, *candidates: np.ndarray) -> np.ndarray:
    """The least candidate beyond near; inf where there is none (NaN is none)."""
    out = np.full_like(candidates[0], np.inf)
    for t in candidates:
        np.minimum(out, np.where(t > near, t, np.inf), out=out)
    return out


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _roots(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both roots of a t^2 + 2 b t + c without cancellation; NaN where there are none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        q = -(b + np.copysign(np.sqrt(b * b - a * c), b))
        return q / a, c / q


def _within(bound: float, origin: np.ndarray, direction: np.ndarray, near: float) -> tuple[np.ndarray, ...]:
    """The rays that pass a sphere of radius ``bound`` beyond near, at unit speed.

    Returns:
        Their numbers [Q], origins and unit directions [3, Q], and where they enter and leave the sphere [Q].
    """
    length = np.sqrt(_dot(direction, direction))
    d = direction / length
    o = np.broadcast_to(origin, d.shape)
    b = _dot(o, d)
    with np.errstate(invalid="ignore"):
        half = np.sqrt(b * b - _dot(o, o) + (bound * (1 + 1e-6)) ** 2)
    begin, end = np.maximum(-b - half, near * length), half - b
    left = np.flatnonzero(begin < end)  # NaN, a ray past the sphere, fails too
    return left, o[:, left], d[:, left], begin[left], end[left]


def _cubic_roots(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Real roots of s^3 + p s + q in ascending order, [3, R]; a single root stands three times."""
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
    """A box with sharp edges; ``half`` are half its edges."""

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
    """A ring around z: ``ring`` is the radius of its middle line, ``tube`` that of the tube, below it.

    On a ray measured from its point nearest to the centre the torus is a quartic without a cubic term. Between the
    roots of its derivative it is monotone, so that halving finds its first change of sign.
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
        for _ in range(HALVINGS):
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
    """What convex shapes with a known signed distance share: Newton's method along the ray.

    Along a ray the distance is a convex function. From outside a step of Newton therefore never passes the surface,
    and a ray that no longer comes nearer has missed. Rays that start inside are followed back from their far end.
    """

    @property
    @abstractmethod
    def bound(self) -> float:
        """As of every `Shape`."""

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
        s, way = np.where(inside, end, begin), np.where(inside, -1.0, 1.0)
        for _ in range(NEWTON_STEPS):
            point = o + s * d
            distance = self.distance(point)
            met = distance < MET
            out[left[met]] = s[met]
            gradient = self.normal(point)
            slope = way * _dot(gradient, d) / np.sqrt(_dot(gradient, gradient))
            keep = ~met & (slope < 0)
            s = s - way * distance / np.where(keep, slope, 1)
            left, o, d, s, way = left[keep], o[:, keep], d[:, keep], s[keep], way[keep]
            if not len(left):
                break
        return out / np.sqrt(_dot(direction, direction))


@dataclass(frozen=True)
class Capsule(Convex):
    """All within ``radius`` of the segment |z| <= half: a cylinder with round ends."""

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
    """All within ``radius`` of a box; ``half`` are half its edges with the rounding."""

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
