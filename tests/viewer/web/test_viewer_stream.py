"""The loop behind one page, without a browser: what it renders, when, and what it survives."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.render.rasterize import rasterize
from luxel.render.runs.fair_lock import FairLock
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.session import StaticSession, TrainingSession
from luxel.viewer.web.shading import OUTPUTS, outputs_of
from luxel.viewer.web.stream import ClientStream, StreamReport


class Sink:
    """Keeps what a page would have shown."""

    def __init__(self) -> None:
        self.images: list[np.ndarray] = []
        self.qualities: list[int] = []
        self.arrived = threading.Condition()

    def wait(self) -> None:
        pass

    def send(self, image: np.ndarray, quality: int) -> None:
        with self.arrived:
            self.images.append(image)
            self.qualities.append(quality)
            self.arrived.notify_all()

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> bool:
        with self.arrived:
            return self.arrived.wait_for(condition, seconds)


class Frame:
    def __init__(self, camera: Camera, value: float) -> None:
        self.rgb = torch.full((camera.height, camera.width, 3), value)
        self.alpha = self.rgb[..., 0]


def flat(gaussians: Gaussians, camera: Camera, **_: Any) -> Frame:
    """An image as grey as the camera is far along x."""
    return Frame(camera, float(camera.position[0]))


def pose(x: float = 0.0, width: int = 64, height: int = 48) -> Pose:
    return Pose(np.array([1.0, 0, 0, 0]), np.array([x, 0, 0]), 1.0, width, height)


@pytest.fixture
def streams() -> Any:
    started: list[ClientStream] = []

    def start(render: Callable[..., Any] = flat, session: StaticSession | None = None, **options: Any):
        sink, reports = Sink(), []
        session = session or StaticSession(Gaussians.empty(0))
        stream = ClientStream(session, render, sink, reports.append, **options)
        started.append(stream)
        stream.start()
        return stream, sink, reports

    yield start
    for stream in started:
        stream.stop(5.0)
        assert not stream._thread.is_alive()


def test_nothing_is_drawn_before_a_camera_and_once_at_rest(streams: Any) -> None:
    stream, sink, _ = streams()
    time.sleep(0.1)
    assert not sink.images
    stream.move(pose(0.5))
    assert sink.until(lambda: len(sink.images) > 0)
    stream.move(pose(0.5))
    time.sleep(0.7)
    assert len(sink.images) == 1, "a camera at rest costs nothing"
    assert sink.images[0].shape == (48, 64, 3) and sink.images[0][0, 0, 0] == 128
    assert sink.qualities == [90]


def test_newest_camera_wins(streams: Any) -> None:
    drawn: list[float] = []
    busy, go = threading.Event(), threading.Event()

    def slow(gaussians: Gaussians, camera: Camera, **_: Any) -> Frame:
        drawn.append(round(float(camera.position[0]), 3))
        busy.set()
        go.wait(5)
        return Frame(camera, 0.0)

    stream, sink, _ = streams(slow)
    stream.move(pose(0.0))
    assert busy.wait(5)
    for i in range(1, 50):
        stream.move(pose(i / 100))
    go.set()
    assert sink.until(lambda: len(sink.images) >= 2)
    assert drawn[:2] == [0.0, 0.49], "the 48 poses between are dropped"


def test_coarse_while_moving_and_in_full_at_rest(streams: Any) -> None:
    def slow(gaussians: Gaussians, camera: Camera, **_: Any) -> Frame:
        time.sleep(0.25 * camera.width * camera.height / (320 * 240))
        return Frame(camera, 0.5)

    stream, sink, reports = streams(slow)
    stream.move(pose(0.0, 320, 240))
    assert sink.until(lambda: len(sink.images) == 1)
    for i in range(12):
        stream.move(pose(i / 100 + 0.01, 320, 240))
        time.sleep(0.05)
    assert sink.until(lambda: sink.images[-1].shape == (240, 320, 3) and len(sink.images) > 3)
    sizes = [image.shape[:2] for image in sink.images]
    assert sizes[0] == (240, 320), "the first image is in full"
    assert max(h for h, _ in sizes[2:-1]) < 160, sizes
    assert all(abs(w / h - 4 / 3) < 0.02 for h, w in sizes), "the window's shape is kept"
    assert max(sink.qualities[2:-1]) <= 70 and sink.qualities[-1] == 90
    time.sleep(0.3)
    assert reports[-1].width == 320


def test_window_shape_and_resolution_are_followed(streams: Any) -> None:
    stream, sink, _ = streams()
    stream.move(pose(0.0, 100, 50))
    assert sink.until(lambda: len(sink.images) == 1 and sink.images[-1].shape == (50, 100, 3))
    stream.change(resolution=0.5)
    assert sink.until(lambda: sink.images[-1].shape == (25, 50, 3))
    stream.move(pose(0.0, 40, 80))
    assert sink.until(lambda: sink.images[-1].shape == (40, 20, 3))
    stream.move(pose(0.0, 1, 1))
    assert sink.until(lambda: sink.images[-1].shape == (1, 1, 3))


def test_failing_render_is_reported_and_tried_again(streams: Any, caplog: pytest.LogCaptureFixture) -> None:
    broken = threading.Event()
    broken.set()

    def render(gaussians: Gaussians, camera: Camera, **_: Any) -> Frame:
        if broken.is_set():
            raise ZeroDivisionError("the kernel tripped")
        return Frame(camera, 1.0)

    logged: set[str] = set()
    with caplog.at_level(logging.ERROR, logger="luxel.viewer"):
        stream, sink, reports = streams(render, logged=logged)
        other, _, _ = streams(render, logged=logged)
        for one in (stream, other):
            one.move(pose(0.1))
        time.sleep(0.2)
        for i in range(5):
            stream.move(pose(0.2 + i))
            stream.change(quality=80 + i)
            time.sleep(0.05)
    assert any("the kernel tripped" in r.error for r in reports)
    assert len([r for r in caplog.records if "kernel tripped" in r.getMessage()]) == 1, "logged once"
    broken.clear()
    assert sink.until(lambda: len(sink.images) > 0), "the loop goes on"
    time.sleep(0.4)
    assert reports[-1].error == ""


def test_report_that_fails_does_not_end_the_loop(streams: Any) -> None:
    def gone(_: StreamReport) -> None:
        raise RuntimeError("the page is gone")

    sink = Sink()
    stream = ClientStream(StaticSession(Gaussians.empty(0)), flat, sink, gone)
    stream.start()
    stream.move(pose(0.0))
    assert sink.until(lambda: len(sink.images) == 1)
    stream.move(pose(1.0))
    assert sink.until(lambda: len(sink.images) >= 2)
    stream.stop(5.0)
    assert not stream._thread.is_alive()


def test_new_scene_is_drawn_without_a_camera_move(streams: Any) -> None:
    session = StaticSession(Gaussians.empty(0))
    stream, sink, _ = streams(session=session)
    stream.move(pose(0.0))
    assert sink.until(lambda: len(sink.images) == 1)
    session.show(Gaussians.empty(0))
    assert sink.until(lambda: len(sink.images) == 2, 3.0)


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_is_drawn(
    streams: Any, output: str, device: torch.device, random_gaussians: Callable[..., Gaussians]
) -> None:
    gaussians = random_gaussians(200, device=device)
    stream, sink, reports = streams(rasterize, StaticSession(gaussians))
    stream.change(output=output, background=(0.0, 0.0, 0.0))
    stream.move(Pose(np.array([1.0, 0, 0, 0]), np.array([0.0, 0, -4]), 0.9, 96, 64))
    assert sink.until(lambda: len(sink.images) > 0), [r.error for r in reports]
    image = sink.images[-1]
    assert image.shape == (64, 96, 3) and image.dtype == np.uint8
    assert image.std() > 10, "not an empty image"
    if output == "colour":
        camera = Pose(np.array([1.0, 0, 0, 0]), np.array([0.0, 0, -4]), 0.9, 96, 64).camera(96, 64)
        expected = (
            rasterize(gaussians, camera.to(device)).rgb.clamp(0, 1).mul(255).round().byte().cpu().numpy()
        )
        assert np.abs(image.astype(int) - expected).max() <= 1


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
    from luxel.render.camera import Pixels, View

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
            lambda: any("this scene of convexes has no output 'normals'" in r.error for r in reports)
        )
        return
    assert sink.until(lambda: len(sink.images) > 0), [r.error for r in reports]
    assert sink.images[-1].shape == (32, 48, 3) and sink.images[-1].std() > 4, "not an empty image"
