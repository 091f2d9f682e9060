"""Times as loggers of phones and rigs write them: Unix times in any unit, and clocks that began long before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ray_cast_capture import ring, transforms, write_images, write_ply_points

from luxel import scenes
from luxel.scenes.captures.open_capture import Capture

STEP = 0.4  # seconds between images
COUNT = 12


def capture_of(root: Path, times: list[object], split: bool = False) -> Path:
    """A capture whose frames have these times, None: none; ``split``: every third in transforms_test.json."""
    poses = ring(len(times))
    names = [f"images/{name}" for name in write_images(root / "images", poses)]
    document = transforms(names, poses)
    for frame, time in zip(document["frames"], times, strict=True):
        if time is not None:
            frame["time"] = time
    frames = document.pop("frames")
    if split:
        parts = {"transforms_train.json": [f for i, f in enumerate(frames) if i % 3]}
        parts["transforms_test.json"] = frames[::3]
    else:
        parts = {"transforms.json": frames}
    for name, part in parts.items():
        (root / name).write_text(json.dumps({**document, "frames": part}))
    write_ply_points(root / "points3D.ply")
    return root


def times_of(capture: Capture) -> list[float]:
    """The times of all views, in the order of their names."""
    return [view.time for view in capture.views]


def shifted(capture: Capture) -> list[str]:
    return [warning for warning in capture.warnings if "counted" in warning]


UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_unix_times_are_seconds_from_the_first_image(tmp_path: Path, unit: str, split: bool) -> None:
    per_second = UNITS[unit]
    given = [1_700_000_000 * per_second + round(STEP * number * per_second) for number in range(COUNT)]
    if unit == "seconds":
        given = [1_700_000_000 + STEP * number for number in range(COUNT)]
    capture = scenes.open(capture_of(tmp_path, given, split))
    times = times_of(capture)
    assert times == pytest.approx([STEP * number for number in range(COUNT)], abs=1e-6)
    assert len(np.unique(np.float32(times))) == COUNT and min(times) == 0
    (sentence,) = shifted(capture)
    assert f"Unix times in {unit}" in sentence and "in seconds from the first one" in sentence


@pytest.mark.parametrize(
    "given",
    [
        [86_400 + STEP * number for number in range(COUNT)],
        [1e7 + 1e-3 * number for number in range(COUNT)],
        [-5e6 + number for number in range(COUNT)],
        [4.2e18 + 1e6 * number for number in range(COUNT)],
    ],
    ids=["a day", "fine", "negative", "nanoseconds of no year"],
)
def test_other_clocks_are_counted_from_the_first_image_in_their_unit(
    tmp_path: Path, given: list[float]
) -> None:
    capture = scenes.open(capture_of(tmp_path, list(given)))
    expected = np.array(given) - given[0]
    np.testing.assert_allclose(times_of(capture), expected, atol=1e-3 * expected[1])
    assert len(shifted(capture)) == 1


@pytest.mark.parametrize(
    "given",
    [
        [number / (COUNT - 1) for number in range(COUNT)],
        [STEP * number for number in range(COUNT)],
        [2.5 + STEP * number for number in range(COUNT)],
        [1e9 * number for number in range(COUNT)],
        [33_333_333 * number for number in range(COUNT)],
        [7.0] * COUNT,
        [1_700_000_000.0] * COUNT,
        [None] * COUNT,
    ],
    ids=["shares", "seconds", "later", "long", "nanoseconds from 0", "one", "one Unix time", "none"],
)
def test_times_that_float32_can_tell_apart_stay(tmp_path: Path, given: list[float | None]) -> None:
    capture = scenes.open(capture_of(tmp_path, list(given)))
    assert times_of(capture) == [time or 0.0 for time in given]
    assert shifted(capture) == []


def test_images_without_a_time_among_unix_times_stay_at_zero(tmp_path: Path) -> None:
    given = [None if number == 5 else 1_700_000_000 + STEP * number for number in range(COUNT)]
    capture = scenes.open(capture_of(tmp_path, list(given)))
    expected = [0.0 if time is None else time - 1_700_000_000 for time in given]
    assert times_of(capture) == pytest.approx(expected, abs=1e-6)
    assert len(shifted(capture)) == 1


def test_two_cameras_with_a_jitter_are_as_they_were(tmp_path: Path) -> None:
    """Distances far below those of the frames say nothing of the precision that is needed."""
    given = [0.2 + STEP * (number // 2) + 1e-9 * (number % 2) for number in range(COUNT)]
    assert times_of(scenes.open(capture_of(tmp_path, list(given)))) == given
