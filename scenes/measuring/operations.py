"""What changes measurements: each function returns new ones and leaves those that it was given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from luxel.render.errors import LuxelError
from luxel.scenes.measuring.lengths import UNITS
from luxel.scenes.measuring.measurements import Measurements, Point, Ruler

Coordinates = Sequence[float] | np.ndarray  # three numbers

MAX_RULERS = 999
MAX_NAME = 80  # characters
MAX_COORDINATE = 1e12  # of a point, units of the capture
MIN_LENGTH, MAX_LENGTH = 1e-6, 1e8  # metres: of a ruler whose length is known
MIN_METRES, MAX_METRES = 1e-9, 1e9  # of a unit
MIN_SPREAD = 0.02  # of three points: the smallest height of their triangle as a share of its longest side


def add_ruler(
    measurements: Measurements, start: Coordinates, end: Coordinates, name: str = ""
) -> Measurements:
    """Adds a ruler.

    Args:
        start, end: coordinates of the capture, [3].
        name: of the ruler; empty: the first of ruler-1, ruler-2, ... that is free.

    Raises:
        LuxelError: the points are one point or too far away, the name is taken or too long, or there are too many.
    """
    if len(measurements.rulers) >= MAX_RULERS:
        raise LuxelError(f"there are {MAX_RULERS} rulers already.", "Delete some.")
    taken = {ruler.name for ruler in measurements.rulers}
    number = 1
    while not name and f"ruler-{number}" in taken:
        number += 1
    made = _ruler(_free_name(name or f"ruler-{number}", taken), start, end)
    return replace(measurements, rulers=(*measurements.rulers, made))


def move_end(measurements: Measurements, name: str, which: str, to: Coordinates) -> Measurements:
    """Moves an end of a ruler.

    Args:
        name: of the ruler.
        which: "start" or "end".
        to: coordinates of the capture, [3].

    Raises:
        LuxelError: there is no such ruler, or the point is its other end or too far away.
    """
    ruler = measurements.ruler(name)
    start, end = (to, ruler.end) if which == "start" else (ruler.start, to)
    return _with(measurements, name, _ruler(name, start, end))


def rename_ruler(measurements: Measurements, name: str, new: str) -> Measurements:
    """Gives a ruler another name.

    Raises:
        LuxelError: there is no such ruler, or the new name is empty, taken or too long.
    """
    ruler = measurements.ruler(name)
    others = {other.name for other in measurements.rulers if other.name != name}
    return _with(measurements, name, replace(ruler, name=_free_name(new, others)))


def delete_ruler(measurements: Measurements, name: str) -> Measurements:
    """Deletes a ruler.

    Raises:
        LuxelError: there is none of this name.
    """
    measurements.ruler(name)
    return replace(measurements, rulers=tuple(r for r in measurements.rulers if r.name != name))


def set_scale(measurements: Measurements, name: str, length: float, unit: str = "m") -> Measurements:
    """Sets the length of a unit by a ruler whose length is known.

    Args:
        name: of the ruler.
        length: of the ruler.
        unit: of ``length``, one of `UNITS`.

    Raises:
        LuxelError: there is no such ruler or unit, or the length cannot be that of the ruler.
    """
    if unit not in UNITS:
        raise LuxelError(f"{unit[:20]!r} is no unit.", f"Give one of {', '.join(UNITS)}.")
    ruler, known = measurements.ruler(name), length * UNITS[unit]
    if not MIN_LENGTH <= known <= MAX_LENGTH:
        raise LuxelError(
            f"{length:g} {unit} cannot be the length of a ruler.",
            f"Give a length above 0, between {MIN_LENGTH:g} m and {MAX_LENGTH:g} m.",
        )
    metres = known / ruler.length
    if not MIN_METRES <= metres <= MAX_METRES:
        raise LuxelError(
            f"{length:g} {unit} makes a unit {metres:.3g} m long, which is no scale of a scene.",
            "Move the ends of the ruler apart, or correct its length.",
        )
    return replace(measurements, metres=metres)


def remove_scale(measurements: Measurements) -> Measurements:
    """The length of a unit is that of the scene's file again, if it states one."""
    return replace(measurements, metres=None)


def set_up(measurements: Measurements, up: Coordinates | None) -> Measurements:
    """Sets the up direction, [3] of any length; None: that of the scene's file or capture again.

    Raises:
        LuxelError: it has the length 0 or a number that is not finite.
    """
    if up is None:
        return replace(measurements, up=None)
    direction = np.asarray(up, np.float64)
    length = float(np.linalg.norm(direction))
    if not 1e-9 < length < math.inf:
        raise LuxelError("there is no direction to level by.", "Click a surface that is not transparent.")
    return replace(measurements, up=_point(direction / length))


def level_by_points(
    measurements: Measurements, points: Sequence[np.ndarray], above: np.ndarray
) -> Measurements:
    """Sets the up direction by three points of the floor.

    Args:
        points: three, coordinates of the capture, [3] each.
        above: a point on the upper side of the floor, such as the camera, [3].

    Raises:
        LuxelError: the points lie nearly on a line.
    """
    a, b, c = (np.asarray(point, np.float64) for point in points)
    normal = np.cross(b - a, c - a)
    longest = max(float(np.linalg.norm(side)) for side in (b - a, c - b, a - c))
    if not np.linalg.norm(normal) > MIN_SPREAD * longest**2:
        raise LuxelError(
            "the three points lie nearly on a line.", "Click points of the floor that are far apart."
        )
    return set_up(measurements, normal if float(normal @ (np.asarray(above) - a)) >= 0 else -normal)


def _with(measurements: Measurements, name: str, changed: Ruler) -> Measurements:
    rulers = tuple(changed if ruler.name == name else ruler for ruler in measurements.rulers)
    return replace(measurements, rulers=rulers)


def _ruler(name: str, start: Coordinates, end: Coordinates) -> Ruler:
    """A ruler, checked.

    Raises:
        LuxelError: its ends are one point, or too far away.
    """
    ruler = Ruler(name, _point(start), _point(end))
    if not all(abs(x) <= MAX_COORDINATE for x in (*ruler.start, *ruler.end)):
        raise LuxelError("this point is too far away.", "Choose a point of the scene.")
    if not ruler.length > 0:
        raise LuxelError("both ends of the ruler are one point.", "Choose another point.")
    return ruler


def _free_name(name: str, taken: set[str]) -> str:
    """A name for a ruler, checked.

    Raises:
        LuxelError: it is empty, too long, not printable, or taken.
    """
    name = name.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise LuxelError(f"a ruler cannot be called {name[:80]!r}.", f"Give 1 to {MAX_NAME} characters.")
    if name in taken:
        raise LuxelError(f"there is a ruler {name!r} already.", "Give another name.")
    return name


def _point(values: Coordinates) -> Point:
    x, y, z = (float(value) + 0.0 for value in values)
    return x, y, z
