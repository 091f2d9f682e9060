"""The loop behind one page, without a browser: what it renders, when, and what it survives."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from shown import ClientStream, StaticSession, outputs_of
from stream_sink import Frame, Sink, flat, pose

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.images.stream import MOVING_QUALITY, StreamReport
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.shading.shading import CACHED, as_uint8


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
    assert max(sink.qualities[2:-1]) <= MOVING_QUALITY and sink.qualities[-1] == 90
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


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), "The GPU"),
        (RuntimeError("std::bad_alloc"), "This machine"),
    ],
)
def test_an_image_that_memory_is_too_small_for(streams: Any, error: Exception, where: str) -> None:
    failures = [error]

    def render(gaussians: Gaussians, camera: Camera, **_: Any) -> Frame:
        if failures:
            raise failures.pop()
        return Frame(camera, 1.0)

    stream, sink, reports = streams(render)
    stream.move(pose(0.1))
    assert sink.until(lambda: len(sink.images) > 0), "it is tried again"
    assert any(
        r.error == f"{where} has no memory left for an image of this size: lower the resolution."
        for r in reports
    )


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


@pytest.mark.parametrize("output", outputs_of(Gaussians))
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


def test_first_image_of_a_page_is_small_where_those_of_others_were_slow(streams: Any) -> None:
    session = StaticSession(Gaussians.empty(0))
    session.seconds_per_pixel = 0.5 / (64 * 48)
    stream, sink, _ = streams(session=session)
    stream.move(pose())
    assert sink.until(lambda: len(sink.images) >= 2)
    assert sink.images[0].shape[0] < 24 and sink.images[1].shape == (48, 64, 3), "then it is rendered in full"
    assert session.seconds_per_pixel < 0.5 / (64 * 48), "the cost is that of the newest image in full"
    assert not sink.until(lambda: len(sink.images) > 2, 0.4)


def test_colours_become_bytes_in_parts_as_they_would_at_once() -> None:
    wide = torch.randn(400, CACHED // 400 + 9, 3).mul_(0.6)
    for colours in (wide, wide[:, :50], wide[:1], wide[:0], wide[0, 0].expand(5, 4, 3)):
        assert torch.equal(as_uint8(colours), colours.mul(255).round().clamp(0, 255).to(torch.uint8))
