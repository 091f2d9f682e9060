"""Where a scene without cameras is densest, and from where that is best seen: at shreds from outside nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

CONTRAST = 6.0  # of the radii that hold half and a tenth of the points, above which there is a dense part
SCATTERED = 3.0  # of the radii that hold 80 % and half of them, above which the outer ones are shreds
DENSE, INNER, OUTER = 0.1, 0.5, 0.8  # fractions of the points
SHRINK = 0.93  # of the ball that moves to the densest place, at each step
MAX_POINTS = 10_000  # of which every Nth is taken
AZIMUTHS = 16
ELEVATIONS = (10.0, 25.0, 45.0)  # degrees
DISTANCES = (4.5, 3.5, 2.5)  # from a dense part, in its radii; nearer where what lies before it would hide it
INSIDE = (
    0.7,
    0.5,
    0.3,
)  # from the middle of what has no dense part, in the radius of its inner half, likewise
LOOKED_AT = 0.1  # of that radius, that is not to be hidden
CONE = 0.3  # tangent of half the angle around the line of sight within which points hide what is behind


class Standpoint(NamedTuple):
    """Where to look from.

    Args:
        centre: what is looked at, [3].
        direction: from there to the camera, unit length, [3].
        distance: of the camera.
    """

    centre: np.ndarray
    direction: np.ndarray
    distance: float


def standpoint(points: np.ndarray, up: np.ndarray) -> Standpoint | None:
    """From where a scene shows its densest part; None: it is as dense everywhere, and is seen well from outside.

    Args:
        points: finite centres of primitives, [P, 3].
        up: unit vector, [3].
    """
    points = points[:: max(1, len(points) // MAX_POINTS)]
    if len(points) < 100:  # too few to be called dense
        return None
    centre = _densest_place(points)
    dense, inner = _radii(points, centre, DENSE, INNER)
    if dense > 0 and inner > CONTRAST * dense:
        return _open_side(points, centre, dense, up, [part * dense for part in DISTANCES])
    centre = np.median(points, axis=0)
    inner, outer = _radii(points, centre, INNER, OUTER)
    if inner > 0 and outer > SCATTERED * inner:
        return _open_side(points, centre, LOOKED_AT * inner, up, [part * inner for part in INSIDE])
    return None


def _densest_place(points: np.ndarray) -> np.ndarray:
    """The mean of the points in a ball that shrinks and follows it, until the ball holds a tenth of them, [3]."""
    centre = np.median(points, axis=0)
    (radius,) = _radii(points, centre, OUTER)
    while True:
        within = np.linalg.norm(points - centre, axis=1) < radius
        if np.count_nonzero(within) <= DENSE * len(points):
            return centre
        centre, radius = points[within].mean(0), SHRINK * radius


def _radii(points: np.ndarray, centre: np.ndarray, *fractions: float) -> list[float]:
    """Radii about a centre that hold fractions of the points."""
    return np.quantile(np.linalg.norm(points - centre, axis=1), fractions).tolist()


def _open_side(
    points: np.ndarray, centre: np.ndarray, radius: float, up: np.ndarray, distances: Sequence[float]
) -> Standpoint:
    """Of cameras around a ball, that before which least lies; of equal ones the first, which is the farthest."""
    across = np.cross(up, np.eye(3)[int(np.argmin(np.abs(up)))])
    across /= np.linalg.norm(across)
    beside = np.cross(up, across)
    angles = 2 * np.pi * np.arange(AZIMUTHS) / AZIMUTHS
    best, least = None, np.inf
    for distance in distances:
        for elevation in np.radians(ELEVATIONS):
            for angle in angles:
                level = np.cos(angle) * across + np.sin(angle) * beside
                direction = np.cos(elevation) * level + np.sin(elevation) * up
                hidden = _hidden(points - centre, direction, distance, radius)
                if hidden < least - 1e-9:
                    best, least = Standpoint(centre, direction, distance), hidden
    assert best is not None
    return best


def _hidden(points: np.ndarray, direction: np.ndarray, distance: float, radius: float) -> float:
    """How much of the sight from a camera to a ball about the origin is taken by points before it."""
    away = distance - points @ direction  # from the camera, along the line of sight
    aside = np.linalg.norm(points - (points @ direction)[:, None] * direction, axis=1)
    before = (away > 0) & (away < distance - radius) & (aside < CONE * away)
    return float((1 / np.maximum(away[before] / distance, 0.05) ** 2).sum()) / len(points)
