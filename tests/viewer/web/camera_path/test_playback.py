"""The time of a page, by a clock that the test turns."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.primitives.time_range import time_range
from luxel.viewer.web.playback import Playback, play_seconds, slider_step


def views(*times: float) -> list[View]:
    camera = Camera.look_at((3, 0, 0), (0, 0, 0))
    return [
        View(f"{i}", camera, lambda: Pixels(np.zeros((480, 640, 3), np.uint8)), time=t)
        for i, t in enumerate(times)
    ]


def test_static_scenes_have_no_times() -> None:
    assert time_range(Gaussians.empty(), views(0.0, 1.0)) is None
    assert time_range(Convexes.empty()) is None


def test_times_are_those_of_the_views_where_they_differ(carousel: Callable[..., Gaussians4d]) -> None:
    scene = carousel()
    assert time_range(scene, views(0.5, -1.0, 7.25)) == (-1.0, 7.25)
    for alike in ((), (0.0,), (0.0, 0.0), (math.nan, 1.0)):
        times = time_range(scene, views(*alike))
        assert times == pytest.approx((0.0, 1.0), abs=0.02), "those of the scene itself"


def test_times_of_the_scene_leave_outliers_out() -> None:
    scene = Gaussians4d.uniform(2000, times=(3.0, 5.0))
    scene.times[:5] = torch.tensor([-1e6, 1e6, math.nan, math.inf, -math.inf])
    low, high = time_range(scene) or (0, 0)
    assert 3.0 <= low < 3.1 and 4.9 < high <= 5.0


@pytest.mark.parametrize("time", [0.0, 0.5, -3.0])
def test_a_scene_of_one_time_still_has_a_range(time: float) -> None:
    scene = Gaussians4d.from_gaussians(Gaussians.empty(), time=time)
    low, high = time_range(scene) or (0, 0)
    assert low < high
    one = scene.map(lambda t: torch.zeros(1, *t.shape[1:]))
    one.times[:] = time
    assert time_range(one) == (time - 0.5, time + 0.5)


def test_normalised_times_play_in_four_seconds_and_others_in_their_own_length() -> None:
    assert play_seconds((0.0, 1.0)) == play_seconds((0.1, 0.6)) == 4.0
    assert play_seconds((0.0, 12.5)) == 12.5 and play_seconds((-1.0, 1.0)) == 2.0


@pytest.mark.parametrize("times", [(0.0, 1.0), (0.033, 0.98), (0.0, 300.0), (1e5, 1e5 + 10), (0.0, 1e-3)])
def test_slider_has_fine_round_steps(times: tuple[float, float]) -> None:
    step = slider_step(times)
    assert 999 < (times[1] - times[0]) / step < 10_001
    assert math.log10(step) == pytest.approx(round(math.log10(step)))


def test_it_plays_from_where_it_is_and_pauses_where_it_stops() -> None:
    rest = Playback.over((2.0, 12.0), 3.0)
    assert rest.at(0.0) == rest.at(1e9) == 3.0 and not rest.runs(5.0)
    runs = rest.play(100.0)
    assert runs.runs(100.0) and runs.at(100.0) == 3.0 and runs.at(104.5) == pytest.approx(7.5)
    assert runs.at(99.0) == 3.0, "a clock that goes back does not"
    stopped = runs.pause(104.5)
    assert stopped.at(1e9) == pytest.approx(7.5) and not stopped.runs(1e9)
    assert stopped.pause(7.0) == stopped


def test_it_starts_again_or_stops_at_the_end() -> None:
    runs = Playback.over((0.0, 10.0), 8.0).play(0.0)
    assert runs.at(2.0) == pytest.approx(10.0) and runs.at(5.0) == pytest.approx(3.0)
    assert runs.at(35.0) == pytest.approx(3.0) and runs.runs(1e6)
    once = runs.with_loop(False, 1.0)
    assert once.at(2.5) == 10.0 and not once.runs(2.1) and once.runs(1.9)
    assert once.pause(50.0).time == 10.0
    assert once.pause(50.0).play(60.0).at(61.0) == pytest.approx(1.0), "play at the end starts again"


def test_speed_changes_where_it_is() -> None:
    runs = Playback.over((0.0, 1.0)).play(0.0)
    assert runs.at(2.0) == pytest.approx(0.5)
    fast = runs.with_speed(2.0, 2.0)
    assert fast.at(2.0) == pytest.approx(0.5) and fast.at(2.5) == pytest.approx(0.75)
    assert not Playback.over((0.0, 1.0)).with_speed(4.0, 1.0).runs(2.0), "another speed starts nothing"


def test_seeking_stops_within_the_range() -> None:
    runs = Playback.over((0.0, 1.0)).play(0.0)
    for time, expected in ((0.25, 0.25), (-7.0, 0.0), (7.0, 1.0), (math.nan, 0.0)):
        there = runs.seek(time)
        assert there.at(9.0) == expected and not there.runs(9.0)
    assert Playback.over((1.0, 2.0), 0.0).time == 1.0 and Playback.over((1.0, 2.0)).time == 1.0
