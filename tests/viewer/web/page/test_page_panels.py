"""The panels of the page in a real browser: inspection, camera path, training and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_controls import Controls
from page_driver import (
    WINDOW,
    FakeTrainerRunning,
    at_rest,
    ball,
    canvas_width,
    click_until,
    cut,
    drag,
    newest_client,
    psnr,
    ring,
    screenshot,
    until,
)
from PIL import Image
from shown import StaticSession, TrainingSession, ViewerApp

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import save_primitive_ply
from luxel.scenes.paths import load_path
from luxel.viewer.cli import main
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.panels.inspect import InspectPanel


@pytest.mark.slow
def test_click_on_the_image_is_inspected(shown: ViewerApp, open_page: Callable[..., Any]) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    at_rest(shown, client)
    opened = shown._pages[client.client_id]
    panel = next(panel for panel in opened.panels if isinstance(panel, InspectPanel))
    clicks: list[Any] = []
    opened.page.listen(clicks.append, True)
    page.get_by_role("checkbox", name="Inspect").check()
    until(lambda: panel._numbers.visible, "the switch turned nothing on")
    x, y = canvas_width(page) // 2 - 20, 220  # on the front of the ball
    click_until(page, (x, y), lambda: len(clicks) > 0, "no click arrived")
    page.get_by_text("Depth", exact=True).wait_for(timeout=60_000)
    assert len(clicks) == 1
    click = clicks[0]
    camera = opened.page.pose().camera(canvas_width(page), WINDOW["height"])
    frame = rasterize(ball(), camera, depth=True)
    assert click.pixel == pytest.approx((x, y), abs=1.5)
    assert frame.median_depth is not None and frame.alpha[y, x] > 0.6, "the click must hit something"
    assert click.sample.depth == pytest.approx(float(frame.median_depth[y, x]), rel=0.05)
    np.testing.assert_allclose(click.sample.rgb, frame.rgb[y, x].numpy(), atol=0.1)
    seen = camera.world_to_cam[:3, :3].numpy() @ click.point + camera.world_to_cam[:3, 3].numpy()
    fx, fy, cx, cy = camera.intrinsics.tolist()
    assert (fx * seen[0] / seen[2] + cx, fy * seen[1] / seen[2] + cy) == pytest.approx((x, y), abs=1.5)
    assert np.linalg.norm(click.point) == pytest.approx(1, abs=0.3), "the ball has radius 1"
    drag(page, client, (80, 10))
    time.sleep(0.3)
    assert len(clicks) == 1, "a drag is no click"
    page.get_by_role("checkbox", name="Inspect").uncheck()
    page.get_by_text("Depth", exact=True).wait_for(state="hidden", timeout=60_000)


@pytest.mark.slow
def test_camera_path_is_recorded_downloaded_and_rendered(
    shown: ViewerApp, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(shown)
    client = newest_client(shown)
    at_rest(shown, client)
    page.get_by_text("Camera path", exact=True).click()
    start = Pose.of_client(client.camera)
    page.get_by_role("button", name="Add keyframe").click()
    until(lambda: len(path_panel(shown, client)._keyframes) == 1, "no keyframe")
    drag(page, client, (120, 30))
    at_rest(shown, client)
    page.get_by_role("button", name="Add keyframe").click()
    until(lambda: len(path_panel(shown, client)._keyframes) == 2, "no second keyframe")
    end = Pose.of_client(client.camera)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    file = tmp_path / "path.json"
    download.value.save_as(file)
    path = load_path(file)
    assert len(path.cameras) == 120 and path.fps == 30 and path.times == []
    for camera, pose in ((path.cameras[0], start), (path.cameras[-1], end)):
        np.testing.assert_allclose(camera.position.numpy(), pose.position, atol=1e-4)
    save_primitive_ply(tmp_path / "ball.ply", ball())
    size = ("--width", "40", "--height", "52", "--frames", "2", "--device", "cpu")
    out = tmp_path / "frames"
    assert main(["render", str(tmp_path / "ball.ply"), "--path", str(file), "--out", str(out), *size]) == 0
    last = np.asarray(Image.open(out / "00001.png"), np.float32)
    camera = Pose(end.wxyz, end.position, end.fov_y, 40, 52).camera(40, 52)
    expected = rasterize(ball(), camera).rgb.clamp(0, 1).mul(255).numpy()
    assert last.std() > 20
    assert psnr(last, expected) > 35


def path_panel(app: ViewerApp, client: Any) -> CameraPathPanel:
    """The camera path of a page."""
    panels = app._pages[client.client_id].panels
    return next(panel for panel in panels if isinstance(panel, CameraPathPanel))


@pytest.mark.slow
def test_error_in_a_render_is_shown_and_the_loop_goes_on(open_page: Callable[..., Any]) -> None:
    broken = threading.Event()

    def render(gaussians: Gaussians, camera: Camera, **options: Any) -> Any:
        if broken.is_set():
            raise RuntimeError("kernel <b>tripped</b> over x_1*y_2")
        return rasterize(gaussians, camera, **options)

    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer), port=0, render=render) as app:
        page = open_page(app)
        client = newest_client(app)
        until(lambda: app._pages[client.client_id].page.stream._rendered_version > 0, "no image")
        broken.set()
        page.get_by_text("kernel <b>tripped</b> over x_1*y_2").first.wait_for(timeout=60_000)
        step = trainer.step
        until(lambda: trainer.step > step, "training does not go on")
        broken.clear()
        page.get_by_text("kernel").first.wait_for(state="hidden", timeout=60_000)
        drawn = app._pages[client.client_id].page.stream._rendered_version
        until(
            lambda: app._pages[client.client_id].page.stream._rendered_version > drawn,
            "no image after the error",
        )


@pytest.mark.slow
def test_training_is_watched_paused_and_continued(open_page: Callable[..., Any]) -> None:
    with FakeTrainerRunning() as trainer, ViewerApp(TrainingSession(trainer, name="run-7"), port=0) as app:
        page = open_page(app)
        page.get_by_text("run-7").first.wait_for()
        page.get_by_text("21.50 dB").wait_for()
        page.get_by_role("button", name="Pause training").click()
        until(lambda: trainer.paused, "the button did not pause")
        page.get_by_role("button", name="Continue training").wait_for()
        shown = lambda: page.get_by_text(f"{trainer.step:,} of 1,000,000").count()  # noqa: E731
        until(lambda: shown() == 1, "the page does not show the last step")
        step = trainer.step
        time.sleep(0.2)
        assert trainer.step == step
        page.get_by_role("button", name="Continue training").click()
        until(lambda: trainer.step > step + 3, "the button did not continue")
        assert app.session.share_of_time == pytest.approx(0.3)
        Controls(page, app).set("Training/Share of time", 0.6)
        until(lambda: app.session.share_of_time == pytest.approx(0.6), "the share did not arrive")


def strongest(page: Any) -> int:
    """Whether a page shows most of red, green or blue: 0, 1 or 2."""
    return int(np.argmax(cut(screenshot(page)).reshape(-1, 3).sum(0)))


@pytest.mark.slow
def test_time_is_played_paused_and_sought(
    open_page: Callable[..., Any], carousel: Callable[..., Gaussians4d], draw_any: Callable[..., Any]
) -> None:
    views = ring()
    for i, view in enumerate(views):
        view.time = i / (len(views) - 1)
    with ViewerApp(StaticSession(carousel(), views, "carousel"), port=0, render=draw_any) as app:
        page = open_page(app)
        client = newest_client(app)
        stream = app._pages[client.client_id].page.stream
        slider = page.get_by_role("slider").first

        def shown() -> float:
            return float(slider.get_attribute("aria-valuenow"))

        at_rest(app, client)
        until(lambda: strongest(page) == 0, "the first balls are red")
        first = screenshot(page)
        page.get_by_role("button", name="Play", exact=True).click()
        page.get_by_role("button", name="Pause", exact=True).wait_for()
        until(lambda: psnr(cut(first), cut(screenshot(page))) < 20, "playing changed nothing")
        early = shown()
        until(lambda: shown() not in (0.0, early), "the slider does not follow")
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_role("button", name="Play", exact=True).wait_for()
        assert not stream.playing
        at_rest(app, client)
        until(lambda: abs(shown() - stream.playback.time) < 1e-3, "the slider is not where it stopped")
        before, stopped_at = screenshot(page), stream.playback.time
        time.sleep(0.6)
        assert stream.playback.time == stopped_at and psnr(cut(before), cut(screenshot(page))) > 30, (
            "it went on"
        )
        for key, colour, expected in (("End", 2, 1.0), ("Home", 0, 0.0)):
            slider.press(key)
            until(lambda expected=expected: stream.playback.time == expected, "the slider sought nothing")
            until(lambda colour=colour: strongest(page) == colour, "the page does not show what was sought")
        page.get_by_role("button", name="Play", exact=True).click()
        until(lambda: stream.playing, "the button does not play again")
        page.get_by_role("button", name="Next").click()
        until(lambda: not stream.playing and stream.playback.time == 0.25, "no jump to the image's time")
        page.get_by_role("button", name="Play", exact=True).wait_for()
        until(lambda: shown() == 0.25, "the slider is not at the photograph's time")


def draw_as_balls(scene: Convexes, camera: Camera, **options: Any) -> Any:
    """Stands in for the rasterizer of convexes, whose reference is slow at the size of a page."""
    quats = torch.tensor([1.0, 0, 0, 0]).repeat(scene.count, 1)
    scales = scene.world_scale.log()[:, None].repeat(1, 3)
    balls = Gaussians(scene.centres, quats, scales, scene.opacity_logits, scene.sh_dc, scene.sh_rest)
    return rasterize(balls, camera, **options)


@pytest.mark.slow
def test_page_of_a_static_scene_has_no_time(
    open_page: Callable[..., Any], crystals: Callable[..., Convexes]
) -> None:
    with ViewerApp(StaticSession(crystals(30), name="crystals"), port=0, render=draw_as_balls) as app:
        page = open_page(app)
        page.get_by_text("Convexes", exact=True).wait_for()
        until(lambda: cut(screenshot(page)).std() > 20, "the convexes are not shown")
        assert page.get_by_role("button", name="Play", exact=True).count() == 0
        assert page.get_by_text("Antialiased").count() == 0, "which means nothing for convexes"
        page.get_by_label("Output").click()
        page.get_by_role("option", name="depth").wait_for()
        assert page.get_by_role("option", name="normals").count() == 0
