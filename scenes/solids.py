"""Solids whose rays are met exactly: ellipsoids, boxes and cylinders in closed form, the others by sphere tracing.

Every shape lies around the origin of its own space. Vectors hold their components first, [3, R], so that sums over
them run along memory. A ray is o + t d with d of any length: t means the same in every space that an affine map
reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

TRACE_STEPS = 160
TRACE_TOLERANCE = 1e-10  # distance to the surface at which a ray has met it, object units
GRAZING = 1e-6  # rays still this near after all steps count as met


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


class Traced:
    """What shapes with an exact signed distance share: sphere tracing (Hart 1996) from their bounding sphere."""

    @property
    def bound(self) -> float:
        raise NotImplementedError

    def distance(self, point: np.ndarray) -> np.ndarray:
        """Signed distance of points [3, R] to the surface, negative inside; [R]."""
        raise NotImplementedError

    def hit(self, origin: np.ndarray, direction: np.ndarray, near: float) -> np.ndarray:
        length = np.sqrt(_dot(direction, direction))
        d = direction / length
        o = np.broadcast_to(origin, d.shape)
        out = np.full(d.shape[1], np.inf)
        b = _dot(o, d)
        with np.errstate(invalid="ignore"):
            half = np.sqrt(b * b - (_dot(o, o) - self.bound**2))
        begin = np.maximum(-b - half, near * length)
        left = np.flatnonzero(begin < half - b)  # NaN, a ray past the sphere, fails too
        o, d, s, end = o[:, left], d[:, left], begin[left], (half - b)[left]
        inside = self.distance(o + s * d) < 0  # a camera inside sees the far side
        sign = np.where(inside, -1.0, 1.0)
        for _ in range(TRACE_STEPS):
            step = sign * self.distance(o + s * d)
            met = step < TRACE_TOLERANCE
            out[left[met]] = s[met]
            s = s + step
            keep = ~met & (s < end)
            if not keep.all():
                left, o, d, s, end = left[keep], o[:, keep], d[:, keep], s[keep], end[keep]
                sign, step = sign[keep], step[keep]
            if not len(left):
                break
        else:
            grazes = step < GRAZING
            out[left[grazes]] = s[grazes]
        return out / length


@dataclass(frozen=True)
class Torus(Traced):
    """A ring around z: ``ring`` is the radius of its middle line, ``tube`` that of the tube."""

    ring: float
    tube: float

    @property
    def bound(self) -> float:
        return self.ring + self.tube

    def distance(self, point: np.ndarray) -> np.ndarray:
        across = np.sqrt(point[0] * point[0] + point[1] * point[1]) - self.ring
        return np.sqrt(across * across + point[2] * point[2]) - self.tube

    def normal(self, point: np.ndarray) -> np.ndarray:
        across = np.maximum(np.hypot(point[0], point[1]), 1e-30)
        shrink = 1 - self.ring / across
        return np.stack([point[0] * shrink, point[1] * shrink, point[2]])


@dataclass(frozen=True)
class Capsule(Traced):
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
class RoundedBox(Traced):
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
