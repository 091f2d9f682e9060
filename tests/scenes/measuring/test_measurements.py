"""Rulers, the scale and the up direction as values, and what changes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from luxel.render.errors import LuxelError
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.measuring import operations
from luxel.scenes.measuring.lengths import UNITS, length_in_words
from luxel.scenes.measuring.measurements import (
    UPRIGHT,
    Measurements,
    Ruler,
    transformed_facts,
    upright_transform,
)

FAR = (500_000.0, 5_000_000.0, 200.0)
DOOR = Ruler("door", FAR, (500_000.0, 5_000_000.0, 204.2))
MEASURED = Measurements(rulers=(DOOR, Ruler("ruler-1", (0, 0, 0), (3, 4, 0))))


def test_rulers_get_the_first_free_name() -> None:
    made = operations.add_ruler(MEASURED, (0, 0, 0), (0, 0, 2))
    assert [ruler.name for ruler in made.rulers] == ["door", "ruler-1", "ruler-2"]
    assert made.ruler("ruler-2").length == 2 and len(MEASURED.rulers) == 2
    fewer = operations.delete_ruler(made, "ruler-1")
    assert operations.add_ruler(fewer, (0, 0, 0), (0, 1, 0)).rulers[-1].name == "ruler-1"


def test_an_end_is_moved_and_a_ruler_renamed() -> None:
    moved = operations.move_end(MEASURED, "ruler-1", "start", (3, 0, 0))
    assert moved.ruler("ruler-1") == Ruler("ruler-1", (3, 0, 0), (3, 4, 0))
    renamed = operations.rename_ruler(moved, "ruler-1", " window ")
    assert renamed.rulers == (DOOR, Ruler("window", (3, 0, 0), (3, 4, 0)))


@pytest.mark.parametrize("unit", list(UNITS))
def test_a_known_length_sets_the_length_of_a_unit(unit: str) -> None:
    scaled = operations.set_scale(MEASURED, "door", 2.1, unit)
    assert scaled.metres == pytest.approx(0.5 * UNITS[unit], rel=1e-9)  # 4.2 of 5e6 in double
    assert scaled.rulers == MEASURED.rulers


NAN, MANY = math.nan, replace(MEASURED, rulers=(DOOR,) * operations.MAX_RULERS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: operations.set_scale(MEASURED, "door", 0.0), "0 m cannot be the length of a ruler"),
        (lambda: operations.set_scale(MEASURED, "door", -1.0, "cm"), "-1 cm cannot be the length"),
        (lambda: operations.set_scale(MEASURED, "door", NAN), "nan m cannot be the length"),
        (lambda: operations.set_scale(MEASURED, "door", 1e9), "1e.09 m cannot be the length"),
        (lambda: operations.set_scale(MEASURED, "door", 1.0, "ell"), "'ell' is no unit"),
        (lambda: operations.set_scale(MEASURED, "wall", 1.0), "there is no ruler 'wall'"),
        (
            lambda: operations.set_scale(_tiny(), "ruler-1", 1.0, "m"),
            "1 m makes a unit 1e.20 m long",
        ),
        (lambda: operations.rename_ruler(MEASURED, "door", "ruler-1"), "there is a ruler 'ruler-1' already"),
        (lambda: operations.rename_ruler(MEASURED, "door", "  "), "a ruler cannot be called ''"),
        (lambda: operations.rename_ruler(MEASURED, "door", "a\x1b"), "a ruler cannot be called"),
        (lambda: operations.add_ruler(MEASURED, FAR, FAR), "both ends of the ruler are one point"),
        (lambda: operations.add_ruler(MEASURED, FAR, (NAN, 0, 0)), "this point is too far away"),
        (lambda: operations.add_ruler(MANY, FAR, (0, 0, 0)), "there are 999 rulers already"),
        (lambda: operations.set_up(MEASURED, (0, 0, 0)), "there is no direction to level by"),
        (
            lambda: operations.level_by_points(MEASURED, _points((0, 0, 0), (1, 1, 0), (2, 2.05, 0)), FAR),
            "the three points lie nearly on a line",
        ),
    ],
)
def test_what_cannot_be_is_refused(change: Callable[[], object], message: str) -> None:
    with pytest.raises(LuxelError, match=message):
        change()


def _tiny() -> Measurements:
    return operations.add_ruler(Measurements(), (0, 0, 0), (1e-20, 0, 0))


def _points(*points: tuple[float, float, float]) -> list[np.ndarray]:
    return [np.array(point) for point in points]


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_three_points_of_the_floor_level_the_scene(side: float) -> None:
    tilt = np.array([0.2, -0.9, 0.1])
    tilt /= np.linalg.norm(tilt)
    across = np.cross(tilt, [0, 0, 1])
    along = np.cross(tilt, across)
    base = np.array(FAR)
    points = [base, base + 3 * across, base + 2 * along]
    levelled = operations.level_by_points(MEASURED, points, base + side * 5 * tilt)
    np.testing.assert_allclose(levelled.up, side * tilt, atol=1e-8)  # of points at 5e6 in double
    assert operations.set_up(levelled, None).up is None


def test_what_was_measured_stands_over_what_a_file_says() -> None:
    facts = SceneFacts(True, (0, 0, 1), 0.3, FAR)
    assert Measurements().over(facts) == facts
    assert Measurements((1, 0, 0), 2.0).over(facts) == SceneFacts(True, (1, 0, 0), 2.0, FAR)


def test_the_transform_of_a_scene_turns_up_and_scales() -> None:
    facts = SceneFacts(up=(0.6, 0.0, 0.8), metres=2.5, shift=FAR)
    both = upright_transform(facts, upright=True, metric=True)
    np.testing.assert_allclose(both.turned(np.array(facts.up)), UPRIGHT, rtol=0, atol=1e-15)
    assert both.scale == 2.5 and both.translation == (0, 0, 0)
    assert upright_transform(facts, upright=False, metric=True).turns is False
    assert upright_transform(facts, upright=True, metric=False).scale == 1
    assert transformed_facts(facts, upright=True, metric=True) == SceneFacts(up=UPRIGHT, metres=1.0)
    assert transformed_facts(facts, upright=False, metric=False) == facts


@pytest.mark.parametrize(("upright", "message"), [(True, "up direction"), (False, "length of a unit")])
def test_what_is_not_known_has_no_transform(upright: bool, message: str) -> None:
    with pytest.raises(LuxelError, match=f"the {message} of this scene is not known"):
        upright_transform(SceneFacts(), upright=upright, metric=not upright)


@pytest.mark.parametrize(
    ("length", "metres", "words"),
    [
        (1.23456, None, "1.235 units"),
        (0.0, None, "0 units"),
        (1e-9, None, "1.000e-09 units"),
        (2.0, 0.42, "84.00 cm"),
        (1.0, 1.0, "1.000 m"),
        (0.99999, 1.0, "1.000 m"),
        (12.3456, 1.0, "12.35 m"),
        (0.0123456, 1.0, "1.235 cm"),
        (0.00123456, 1.0, "1.235 mm"),
        (12345.6, 1.0, "12.35 km"),
        (1234567.0, None, "1,234,567 units"),
        (math.nan, 1.0, "–"),
    ],
)
def test_lengths_are_written_with_four_digits(length: float, metres: float | None, words: str) -> None:
    assert length_in_words(length, metres) == words
