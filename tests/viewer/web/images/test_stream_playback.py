"""The loop behind one page that plays a scene in motion, without a browser."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from shown import StaticSession, TrainingSession, outputs_of
from stream_sink import Frame, Sink, pose

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians4d, Parameters
from luxel.render.runs.fair_lock import FairLock
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.shading.shading import OUTPUTS


class Clock:
    """Stands still unless the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def still(times: tuple[float, float] = (0.0, 10.0)) -> StaticSession:
    """A session of a scene that moves; what it holds does not matter to `by_time`."""
    return StaticSession(Gaussians4d.empty(0), times=times)


def by_time(scene: Parameters, camera: Camera, *, time: float, **_: Any) -> Frame:
    """An image as grey as its time is late: 10 is white."""
    return Frame(camera, time / 10)


def grey(sink: Sink) -> int:
    return int(sink.images[-1][0, 0, 0]) if sink.images else -1


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Waits for what a busy machine may take long to do."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_static_scenes_are_drawn_without_a_time_and_do_not_play(streams: Any) -> None:
    given: list[dict[str, Any]] = []

    def render(scene: Parameters, camera: Camera, **options: Any) -> Frame:
        given.append(options)
        return Frame(camera, 0.5)

    stream, sink, reports = streams(render)
    stream.move(pose())
    assert sink.until(lambda: len(sink.images) == 1)
    for act in (stream.play, stream.pause, lambda: stream.seek(3.0), lambda: stream.set_speed(2.0)):
        act()
    assert stream.playback is None and not stream.playing
    assert until(lambda: len(reports) > 2)
    assert all("time" not in options for options in given) and reports[-1].time is None
    assert len(sink.images) == 1


def test_images_show_the_time_of_a_clock(streams: Any) -> None:
    clock = Clock()
    stream, sink, reports = streams(by_time, still(), clock=clock)
    stream.move(pose())
    assert sink.until(lambda: grey(sink) == 0)
    stream.play()
    assert stream.playing
    for later, value in ((2.5, 64), (5.0, 128), (7.5, 191)):
        clock.now = 1000.0 + later
        assert sink.until(lambda value=value: grey(sink) == value), grey(sink)
    assert until(lambda: reports[-1].playing and reports[-1].time == pytest.approx(7.5))
    clock.now = 1012.0  # a loop: 10 s are one turn
    assert sink.until(lambda: grey(sink) == 51)
    stream.pause()
    clock.now = 1015.0
    assert until(lambda: not reports[-1].playing)
    count = len(sink.images)
    time.sleep(0.4)
    assert len(sink.images) <= count + 1 and grey(sink) == 51, "at rest nothing is drawn"
    assert reports[-1].time == pytest.approx(2.0)


def test_speed_and_end_are_obeyed(streams: Any) -> None:
    clock = Clock()
    stream, sink, reports = streams(by_time, still(), clock=clock)
    stream.set_speed(2.0)
    stream.set_loop(False)
    stream.play()
    stream.move(pose())
    clock.now += 2.5
    assert sink.until(lambda: grey(sink) == 128)
    clock.now += 100.0
    assert sink.until(lambda: grey(sink) == 255 and sink.qualities[-1] == 90)
    assert until(lambda: not reports[-1].playing and reports[-1].time == 10.0)
    count = len(sink.images)
    time.sleep(0.4)
    assert len(sink.images) <= count + 1, "it rests at the end"
    stream.play()
    clock.now += 1.0
    assert sink.until(lambda: grey(sink) == 51), "and begins anew when asked"


def test_seeking_stops_and_shows_the_moment(streams: Any) -> None:
    clock = Clock()
    stream, sink, reports = streams(by_time, still(), clock=clock)
    stream.move(pose())
    stream.play()
    clock.now += 1.0
    assert sink.until(lambda: grey(sink) == 26)
    for time_, value in ((8.0, 204), (99.0, 255), (-1.0, 0)):
        stream.seek(time_)
        assert sink.until(lambda value=value: grey(sink) == value)
        assert not stream.playing
    assert until(lambda: reports[-1].time == 0.0)


def test_slow_images_are_left_out_not_late(streams: Any) -> None:
    """The clock goes on while an image is made: the next shows the time at which it is begun."""
    clock = Clock()
    drawn: list[float] = []

    def slow(scene: Parameters, camera: Camera, *, time: float, **_: Any) -> Frame:
        drawn.append(time)
        clock.now += 2.0
        return Frame(camera, time / 10)

    stream, sink, _ = streams(slow, still((0.0, 100.0)), clock=clock)
    stream.play()
    stream.move(pose())
    assert sink.until(lambda: len(sink.images) > 5)
    stream.pause()
    assert drawn[:5] == pytest.approx([0.0, 2.0, 4.0, 6.0, 8.0])


def test_coarse_while_it_plays_and_in_full_at_rest(streams: Any) -> None:
    def slow(scene: Parameters, camera: Camera, *, time: float, **_: Any) -> Frame:
        threading.Event().wait(0.25 * camera.width * camera.height / (320 * 240))
        return Frame(camera, 0.5)

    stream, sink, _ = streams(slow, still())
    stream.move(pose(0.0, 320, 240))
    assert sink.until(lambda: len(sink.images) == 1)
    stream.play()
    assert sink.until(lambda: len(sink.images) > 5)
    assert max(h for h, _, _ in (image.shape for image in sink.images[2:])) < 160
    stream.pause()
    assert sink.until(lambda: sink.images[-1].shape == (240, 320, 3) and sink.qualities[-1] == 90)


def test_a_page_begins_at_the_time_of_its_photograph(streams: Any) -> None:
    from luxel.render.geometry.camera import Pixels, View

    camera = pose().camera(64, 48)
    views = [
        View(str(t), camera, lambda: Pixels(np.zeros((48, 64, 3), np.uint8)), time=t) for t in (4.0, 0.0, 8.0)
    ]
    session = StaticSession(Gaussians4d.empty(0), views)
    assert session.times == (0.0, 8.0)
    stream, sink, _ = streams(by_time, session)
    stream.move(pose())
    assert sink.until(lambda: grey(sink) == 102)


def test_playing_keeps_to_its_share_of_training(streams: Any) -> None:
    """What a page takes while it plays is what a moving camera takes: the bound of the session."""

    class Trainer:
        lock, scene, paused, step = FairLock(), Gaussians4d.empty(0), False, 0

        def status(self) -> dict[str, Any]:
            return {"step": self.step, "done": False}

    spans: list[tuple[float, float]] = []
    monotonic, trainer, over = time.monotonic, Trainer(), threading.Event()

    def render(scene: Parameters, camera: Camera, *, time: float, **_: Any) -> Frame:
        begun = monotonic()
        threading.Event().wait(0.02)
        spans.append((begun, monotonic()))
        return Frame(camera, 0.5)

    def train() -> None:
        while not over.is_set():
            with trainer.lock:
                threading.Event().wait(0.002)
                trainer.step += 1

    session = TrainingSession(trainer, times=(0.0, 1.0))
    session.share_of_time = 0.2
    thread = threading.Thread(target=train)
    thread.start()
    try:
        stream, sink, _ = streams(render, session)
        stream.play()
        stream.move(pose())
        assert sink.until(lambda: len(sink.images) > 8, 30.0), "it plays nevertheless"
    finally:
        over.set()
        thread.join(10)
    for (begun, ended), (following, _) in itertools.pairwise(spans[:9]):
        assert following - ended > 0.98 * 4 * (ended - begun), "four times as long is left to training"
    assert trainer.step > 8


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("scene_type", [Gaussians4d, Convexes])
def test_every_output_of_every_primitive_is_drawn(
    streams: Any,
    output: str,
    scene_type: type[Parameters],
    draw_any: Callable[..., Any],
    carousel: Callable[..., Gaussians4d],
    crystals: Callable[..., Convexes],
) -> None:
    scene = carousel() if scene_type is Gaussians4d else crystals(12)
    stream, sink, reports = streams(draw_any, StaticSession(scene))
    stream.change(output=output, splat_scale=1.2, antialiased=True)
    stream.seek(0.5)
    stream.move(Pose(np.array([1.0, 0, 0, 0]), np.array([0.0, 0, -4]), 0.9, 48, 32))
    if output not in outputs_of(scene_type):
        assert until(
            lambda: any(f"scene of {scene.noun} has no output '{output}'" in (r.error or "") for r in reports)
        )
        return
    assert sink.until(lambda: len(sink.images) > 0), [r.error for r in reports]
    assert sink.images[-1].shape == (32, 48, 3) and sink.images[-1].std() > 4, "not an empty image"
