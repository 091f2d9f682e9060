"""The background of a turntable: features that stand still while others move."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.colmap_process.still_features import find_turntable

SIZE = (640, 480)
STILL, TURNING = 60, 40  # features


def capture(
    images: int, *, groups: int = 1, moving: bool = True, still: bool = True
) -> tuple[list[tuple[tuple[int, int], np.ndarray]], dict[int, np.ndarray], dict[int, tuple[int, int]]]:
    """Matches of all pairs, positions of features and sizes: the first STILL features stand still in each group."""
    random = np.random.default_rng(0)
    positions = {}
    for group in range(groups):
        background = random.uniform((0, 0), SIZE, (STILL, 2))
        first = random.uniform((250, 180), (390, 300), (TURNING, 2))
        for number in range(images):
            key = 1 + group * images + number
            shift = random.uniform(-200, 200, 2) if not still else np.zeros(2)
            turned = first + np.array([9.0 * number * moving, 0])
            noise = random.normal(0, 0.2, (STILL + TURNING, 2))
            positions[key] = np.concatenate([background + shift, turned]) + noise
    keys = sorted(positions)
    rows = np.repeat(np.arange(STILL + TURNING)[:, None], 2, axis=1)
    pairs = [((a, b), rows) for a in keys for b in keys if a < b]
    return pairs, positions, {key: SIZE for key in keys}


def test_the_background_stands_still_and_the_object_does_not() -> None:
    turntable = find_turntable(*capture(8, groups=2))
    assert turntable is not None
    assert turntable.groups == [list(range(1, 9)), list(range(9, 17))]
    assert all(rows[:STILL].all() and not rows[STILL:].any() for rows in turntable.still.values())
    assert turntable.group_of[3] == 0 and turntable.group_of[12] == 1


def test_a_camera_that_moves_is_no_turntable() -> None:
    assert find_turntable(*capture(8, still=False)) is None


def test_a_camera_before_which_nothing_moves_is_no_turntable() -> None:
    assert find_turntable(*capture(8, moving=False)) is None


def test_few_images_of_one_place_are_no_turntable() -> None:
    pairs, positions, sizes = capture(6)
    for key in range(7, 20):
        positions[key] = np.random.default_rng(key).uniform((0, 0), SIZE, (100, 2))
        sizes[key] = SIZE
    assert find_turntable(pairs, positions, sizes) is None


def test_matches_at_one_spot_do_not_make_a_background() -> None:
    pairs, positions, sizes = capture(8)
    for key in positions:
        positions[key][:STILL] = (320, 240) + positions[key][:STILL] * 0.05
    assert find_turntable(pairs, positions, sizes) is None
