"""Motions of solids: affine maps from object space to the world as functions of time in [0, 1].

A motion is called with a time and returns [4, 4]. Most are rigid; `Bounce`, `Breathe` and `Visit` also scale. Where the
determinant is 0 the solid is absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Motion = Callable[[float], np.ndarray]
Vector = tuple[float, float, float]
UP: Vector = (0.0, 0.0, 1.0)


def rotation(axis: Sequence[float], angle: float) -> np.ndarray:
    """Rotation by ``angle`` radians about ``axis`` (any length but zero), [3, 3]."""
    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def affine(position: Sequence[float] | np.ndarray, linear: np.ndarray | None = None) -> np.ndarray:
    """x -> linear x + place, [4, 4]."""
    out = np.eye(4)
    out[:3, 3] = position
    if linear is not None:
        out[:3, :3] = linear
    return out


@dataclass(frozen=True)
class Still:
    """Static at ``position``, rotated by ``angle`` radians about ``axis``."""

    position: Vector
    axis: Vector = UP
    angle: float = 0.0

    def __call__(self, time: float) -> np.ndarray:
        return affine(self.position, rotation(self.axis, self.angle))


@dataclass(frozen=True)
class Spin:
    """Rotates about ``axis`` through its centre, ``turns`` times from time 0 to 1, after a tilt of ``tilt`` radians."""

    position: Vector
    axis: Vector
    turns: float
    tilt: float = 0.0
    phase: float = 0.0

    def __call__(self, time: float) -> np.ndarray:
        turn = rotation(self.axis, 2 * math.pi * self.turns * time + self.phase)
        return affine(self.position, turn @ rotation((1, 0, 0), self.tilt))


@dataclass(frozen=True)
class Orbit:
    """Moves ``turns`` times around a horizontal circle, and rotates ``spins`` times about ``axis``."""

    centre: Vector
    radius: float
    turns: float
    axis: Vector = UP
    spins: float = 0.0
    phase: float = 0.0

    def __call__(self, time: float) -> np.ndarray:
        angle = 2 * math.pi * self.turns * time + self.phase
        position = np.array(self.centre) + self.radius * np.array([math.cos(angle), math.sin(angle), 0])
        return affine(position, rotation(self.axis, 2 * math.pi * self.spins * time))


@dataclass(frozen=True)
class Bounce:
    """A bouncing ball: parabolas of ``height``; near the floor it is flattened by up to ``squash`` at equal volume.

    Args:
        floor: the point of the floor below the ball.
        radius: of the ball.
        height: maximum height of its lowest point above the floor.
        bounces: parabolas from time 0 to 1.
        squash: fraction of its height lost on the floor, in [0, 1).
        spins: rotations about the vertical.
        phase: parabolas before time 0.
    """

    floor: Vector
    radius: float
    height: float
    bounces: float
    squash: float = 0.25
    spins: float = 0.0
    phase: float = 0.0

    def __call__(self, time: float) -> np.ndarray:
        u = (self.bounces * time + self.phase) % 1.0
        rise = 4 * self.height * u * (1 - u)
        tall = 1 - self.squash * max(0.0, 1 - rise / (0.6 * self.radius)) ** 2
        position = (*self.floor[:2], self.floor[2] + rise + self.radius * tall)
        stretch = np.diag([tall**-0.5, tall**-0.5, tall])
        return affine(position, stretch @ rotation(UP, 2 * math.pi * self.spins * time))


@dataclass(frozen=True)
class Swing:
    """A pendulum ``length`` below ``pivot`` that swings about the horizontal ``axis`` by ``amplitude`` radians."""

    pivot: Vector
    length: float
    axis: Vector
    amplitude: float
    cycles: float
    phase: float = 0.0

    def __call__(self, time: float) -> np.ndarray:
        angle = self.amplitude * math.sin(2 * math.pi * self.cycles * time + self.phase)
        turn = rotation(self.axis, angle)
        return affine(np.array(self.pivot) - self.length * turn[:, 2], turn)


@dataclass(frozen=True)
class Breathe:
    """Static, scaled along its axes by 1 + amounts sin(...), with phases a third of a cycle apart.

    Args:
        position: centre.
        amounts: along x, y, z, below 1.
        cycles: from time 0 to 1.
        turns: rotations about the vertical, from time 0 to 1.
        phase: radians.
    """

    position: Vector
    amounts: Vector
    cycles: float
    turns: float = 0.0
    phase: float = 0.0

    def __call__(self, time: float) -> np.ndarray:
        angle = 2 * math.pi * (self.cycles * time + np.arange(3) / 3) + self.phase
        stretch = np.diag(1 + np.array(self.amounts) * np.sin(angle))
        return affine(self.position, rotation(UP, 2 * math.pi * self.turns * time) @ stretch)


@dataclass(frozen=True)
class Slowed:
    """Another motion at ``pace`` times its speed, with the same start."""

    motion: Motion
    pace: float

    def __call__(self, time: float) -> np.ndarray:
        return self.motion(self.pace * time)


@dataclass(frozen=True)
class Visit:
    """Present from ``start`` to ``end`` only: grows from a point during ``ramp``, rotates, and shrinks back."""

    position: Vector
    start: float
    end: float
    ramp: float = 0.1
    axis: Vector = UP
    turns: float = 0.0

    def __call__(self, time: float) -> np.ndarray:
        u = min(max(min(time - self.start, self.end - time) / self.ramp, 0.0), 1.0)
        size = u * u * (3 - 2 * u)
        return affine(self.position, size * rotation(self.axis, 2 * math.pi * self.turns * time))
