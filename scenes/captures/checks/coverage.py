"""Sides of a subject from which no image was taken."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.checks.finding import Finding
from luxel.scenes.captures.checks.measures import Measures
from luxel.scenes.captures.open_capture import Capture

TOWARDS = 0.7  # cosine between the optical axis and the direction to the middle of a camera that looks at it
LOOKING = 0.8  # of the cameras that must look at the middle: a subject is walked around
AROUND = 200.0  # degrees that the walk must cover: it was meant to be a round
GAP = 60.0  # degrees without an image, the unit of the value


def level_axes(capture: Capture) -> np.ndarray:
    """The up direction, z where it is not known, and two directions square to it, [3, 3], right-handed."""
    up = np.array([0.0, 0.0, 1.0]) if capture.up is None else np.asarray(capture.up, float)
    up = up / np.linalg.norm(up)
    first = np.cross(up, np.eye(3)[int(np.argmin(np.abs(up)))])
    first /= np.linalg.norm(first)
    return np.stack([up, first, np.cross(up, first)])


def widest_gap(angles: np.ndarray) -> tuple[int, float]:
    """After which of sorted angles the widest gap follows, and its width, degrees."""
    widths = np.diff(np.append(angles, angles[0] + 360))
    at = int(np.argmax(widths))
    return at, float(widths[at])


def azimuths(capture: Capture, measures: Measures) -> tuple[np.ndarray, np.ndarray]:
    """Angles around the up direction at which cameras look at the middle, degrees in [0, 360), sorted, and their rows.

    Both are empty where most cameras do not look at the middle.
    """
    _, first, second = level_axes(capture)
    away = measures.poses[:, :3, 3] - capture.centre
    ahead = -(away * measures.poses[:, :3, 2]).sum(1) / np.maximum(np.linalg.norm(away, axis=1), 1e-12)
    rows = np.flatnonzero(ahead > TOWARDS)
    if len(rows) < LOOKING * len(ahead):
        return np.zeros(0), np.zeros(0, int)
    angles = np.degrees(np.arctan2(away[rows] @ second, away[rows] @ first)) % 360
    order = np.argsort(angles)
    return angles[order], rows[order]


def check_coverage(capture: Capture, measures: Measures) -> list[Finding]:
    """A gap between the directions around the up axis from which images were taken."""
    angles, rows = azimuths(capture, measures)
    if len(angles) < 4:
        return []
    at, gap = widest_gap(angles)
    if gap < GAP or 360 - gap < AROUND:
        return []
    neighbours = tuple(measures.names[rows[row % len(rows)]] for row in (at, at + 1))
    return [
        Finding(
            "coverage",
            f"Nothing shows the middle from {gap:.0f} of the 360 degrees around it: "
            f"between {neighbours[0]} and {neighbours[1]}.",
            "Take photographs from there as well; what nobody saw is guessed.",
            neighbours,
            (gap, gap),
        )
    ]
