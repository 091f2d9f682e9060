"""Panels of a page without a browser: the list, clicks, inspection, camera paths, and panels that fail."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from shown import StaticSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import save_primitive_ply
from luxel.scenes.paths import load_path
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import main
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.camera_path.keyframes import Keyframe, smooth_path
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.page import make_click
from luxel.viewer.web.panels import PANELS, Panel, SharedPanel
from luxel.viewer.web.panels.camera_path import LARGEST_PATH, CameraPathPanel
from luxel.viewer.web.panels.edit_later import EditLaterPanel
from luxel.viewer.web.panels.inspect import InspectPanel
from luxel.viewer.web.shading.shading import Sample
from luxel.viewer.web.transport.keyed_server import run_script

START = Pose.of_camera(Camera.look_at((3.0, -2.0, 1.0), (0, 0, 0)))
END = Pose.of_camera(Camera.look_at((-2.0, -3.0, 1.5), (0, 0, 0)))


@pytest.fixture
def serve() -> Iterator[Callable[..., ViewerApp]]:
    """Starts viewers and stops them at the end."""
    apps: list[ViewerApp] = []

    def start(session: StaticSession | None = None, **options: Any) -> ViewerApp:
        apps.append(ViewerApp(session or StaticSession(torus_knot(200)), port=0, **options))
        apps[-1].start()
        return apps[-1]

    yield start
    for app in apps:
        app.stop()


def panel_of(opened: OpenPage, kind: type[Any]) -> Any:
    """The panel of a type."""
    return next(panel for panel in opened.panels if isinstance(panel, kind))


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Waits for a condition."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def look_from(opened: OpenPage, pose: Pose) -> None:
    """Puts the camera of a page at a pose."""
    opened.page.place(pose)


def test_every_panel_is_listed_once_and_described() -> None:
    assert len(set(PANELS)) == len(PANELS)
    for kind in PANELS:
        assert issubclass(kind, Panel | SharedPanel) and kind.__doc__
    titles = [kind.title for kind in PANELS if kind.title and kind is not EditLaterPanel]  # stands for Edit
    assert len(set(titles)) == len(titles)


def test_a_page_has_the_panels_that_its_scene_can_use(
    serve: Callable[..., ViewerApp], carousel: Callable[..., Gaussians4d], draw_any: Callable[..., Any]
) -> None:
    still = open_offline_page(serve(), START)
    names = [type(panel).__name__ for panel in still.panels]
    expected = ["NoticePanel", "ShowPanel", "CameraPanel", "CameraPathPanel"]
    expected += ["StatisticsPanel", "FramePanel", "InspectPanel", "RulerPanel", "EditPanel", "ObjectsPanel"]
    assert names == expected
    dynamic = open_offline_page(serve(StaticSession(carousel()), render=draw_any), START)
    assert "TimePanel" in [type(panel).__name__ for panel in dynamic.panels]


def test_an_offline_page_shows_what_its_camera_sees(serve: Callable[..., ViewerApp]) -> None:
    opened = open_offline_page(serve(), START, width=60, height=40)
    images = opened.page.client.images
    for pose in (START, END):
        look_from(opened, pose)
        frame = rasterize(torus_knot(200), opened.page.pose().camera(60, 40))
        expected = (frame.rgb.clamp(0, 1) * 255).numpy()
        assert expected.std() > 20

        def arrived(expected: np.ndarray = expected) -> bool:
            newest = images[-1] if images else np.zeros(0)
            return newest.shape == expected.shape and bool(np.abs(newest - expected).max() < 1)

        assert until(arrived), "the newest image is not what the camera sees"


def test_an_offline_page_runs_no_scripts(serve: Callable[..., ViewerApp]) -> None:
    client = open_offline_page(serve(), START).page.client
    assert not run_script(client, "document.title")
    with pytest.raises(TypeError, match="no page for a str"):
        client._websock_connection.queue_message("text")


class Failing(Panel):
    """Fails wherever it can."""

    title = "Failing"

    def report(self, report: Any) -> None:
        raise RuntimeError("no report")

    def on_click(self, click: Any) -> None:
        raise RuntimeError("no click")

    def detach(self) -> None:
        raise RuntimeError("no end")


class Unbuildable(Panel):
    """Cannot be built."""

    title = "Unbuildable"

    def build(self, gui: Any, order: float) -> None:
        gui.add_text("left behind", "")
        raise RuntimeError("no controls")


class Recorder(Panel):
    """Keeps what it is called with."""

    def build(self, gui: Any, order: float) -> None:
        self.reports: list[Any] = []
        self.clicks: list[Any] = []
        self.detached = False

    def report(self, report: Any) -> None:
        self.reports.append(report)

    def on_click(self, click: Any) -> None:
        self.clicks.append(click)

    def detach(self) -> None:
        self.detached = True


class Counter(SharedPanel):
    """Counts its refreshes; the first one fails."""

    refreshes = 0
    detached = False

    def refresh(self) -> None:
        Counter.refreshes += 1
        if Counter.refreshes == 1:
            raise RuntimeError("not yet")

    def detach(self) -> None:
        Counter.detached = True


def test_a_panel_that_fails_spoils_only_itself(
    serve: Callable[..., ViewerApp], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="luxel.viewer"):
        app = serve(panels=[Unbuildable, Failing, Recorder, Counter])
        opened = open_offline_page(app, START)
        assert [type(panel) for panel in opened.panels] == [Failing, Recorder]
        recorder, failing = panel_of(opened, Recorder), panel_of(opened, Failing)
        assert until(lambda: len(recorder.reports) > 2), (
            "the reports must reach the panel after the failing one"
        )
        failing.listen(True)
        opened.page.click(0.5, 0.5)
        assert opened.page.client.notifications == [("The click failed", "no click")]
        assert until(lambda: Counter.refreshes > 1), "refreshing goes on after a failure"
        app.stop()
    assert recorder.detached and Counter.detached
    messages = [record.getMessage() for record in caplog.records]
    assert sum("failed to show a report" in message for message in messages) == 1, "logged once"
    assert any("Unbuildable could not be built" in message for message in messages)


def test_clicks_are_asked_for_only_while_a_panel_listens(
    serve: Callable[..., ViewerApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_offline_page(serve(panels=[Recorder]), START)
    recorder, scene = panel_of(opened, Recorder), opened.page.client.scene
    assert not scene._scene_pointer_cb
    opened.page.click(0.5, 0.5)
    recorder.listen(True)
    recorder.listen(True)
    assert len(scene._scene_pointer_cb) == 1
    opened.page.click(0.5, 0.5)
    assert len(recorder.clicks) == 1, "each listener is called once, and only while it listens"
    recorder.listen(False)
    assert not scene._scene_pointer_cb


def test_a_click_is_a_ray_and_the_point_where_it_meets_the_scene() -> None:
    camera = Camera.look_at((3.0, -2.0, 1.0), (0.2, 0.1, 0), fov_y=0.8, width=80, height=60)
    sample = Sample((0.5, 0.5, 0.5), 1.0, 2.5)
    click = make_click(Pose.of_camera(camera), 0.3, 0.8, sample)
    assert click.pixel == pytest.approx((24, 48)) and click.point is not None
    seen = camera.world_to_cam[:3, :3].double().numpy() @ click.point + camera.world_to_cam[:3, 3].numpy()
    fx, fy, cx, cy = camera.intrinsics.tolist()
    assert seen[2] == pytest.approx(2.5, abs=1e-5)
    assert (fx * seen[0] / seen[2] + cx, fy * seen[1] / seen[2] + cy) == pytest.approx((24, 48), abs=1e-3)
    np.testing.assert_allclose(click.origin + 0.0, camera.position.numpy(), atol=1e-6)
    away = click.point - click.origin
    np.testing.assert_allclose(away / np.linalg.norm(away), click.direction, atol=1e-12)
    assert make_click(Pose.of_camera(camera), 0.3, 0.8, Sample((0, 0, 0), 0.0, None)).point is None


def test_inspection_agrees_with_the_rendered_frame(serve: Callable[..., ViewerApp]) -> None:
    opened = open_offline_page(serve(), START, width=120, height=90)
    panel = panel_of(opened, InspectPanel)
    recorder: list[Any] = []
    opened.page.click(0.5, 0.5)
    assert not panel._numbers.visible, "off by default"
    panel._set(True)
    opened.page.listen(recorder.append, True)
    frame = rasterize(torus_knot(200), opened.page.pose().camera(120, 90), depth=True)
    assert frame.median_depth is not None
    solid = torch.nonzero(frame.alpha > 0.9)
    row, column = solid[len(solid) // 2].tolist()
    opened.page.click((column + 0.5) / 120, (row + 0.5) / 90)
    assert recorder[0].sample.depth == pytest.approx(float(frame.median_depth[row, column]), rel=1e-5)
    np.testing.assert_allclose(recorder[0].sample.rgb, frame.rgb[row, column].clamp(0, 1).numpy(), atol=1e-5)
    assert "Depth" in panel._numbers.content and panel._marker.visible
    line = opened.page.toolbar.state()["message"]
    assert line.startswith("Point ") and line.endswith(f"Pixel {column}, {row}"), "on the image, too"
    np.testing.assert_allclose(panel._marker.position, recorder[0].point, atol=1e-6)
    empty = torch.nonzero(frame.alpha < 0.01)[0].tolist()
    opened.page.click((empty[1] + 0.5) / 120, (empty[0] + 0.5) / 90)
    assert recorder[1].point is None and not panel._marker.visible
    panel._set(False)
    opened.page.listen(recorder.append, False)
    assert not panel._numbers.visible and not opened.page.client.scene._scene_pointer_cb


def test_inspection_counts_pixels_of_the_screen(serve: Callable[..., ViewerApp]) -> None:
    opened = open_offline_page(serve(), START, width=90, height=60)  # as viser has it, at fewer pixels
    panel = panel_of(opened, InspectPanel)
    panel._set(True)
    assert opened.page.size == (90, 60)
    opened.page.stream.move(
        Pose(START.wxyz, START.position, START.fov_y, 120, 80)
    )  # as the page's own stream has it
    assert opened.page.size == (120, 80)
    opened.page.click(0.5, 0.25)
    assert "60, 20" in panel._numbers.content


def test_a_saved_path_is_what_luxel_render_renders(serve: Callable[..., ViewerApp], tmp_path: Path) -> None:
    scene = torus_knot(200)
    opened = open_offline_page(serve(StaticSession(scene, folder=tmp_path)), START, width=64, height=48)
    panel = panel_of(opened, CameraPathPanel)
    panel._try(panel.save)
    assert "at least two keyframes" in panel._message.content.replace("\\", "") and not any(
        tmp_path.iterdir()
    )
    panel._try(lambda: panel.open(b" " * (LARGEST_PATH + 1)))
    assert "too large for a camera path" in panel._message.content
    panel.add()
    look_from(opened, END)
    panel.add()
    panel._seconds.value = 0.1
    first, second = panel.save(), panel.save()
    assert (first.name, second.name) == ("path.json", "path-2.json"), "no file is replaced"
    assert str(first) in panel._message.content or str(second) in panel._message.content
    path = load_path(first)
    assert (len(path.cameras), path.fps, path.times) == (3, 30.0, [])
    assert (path.cameras[0].width, path.cameras[0].height) == (64, 48)
    panel.download()
    assert opened.page.client.downloads == [("path.json", first.read_bytes())]
    save_primitive_ply(tmp_path / "scene.ply", scene)
    out = tmp_path / "frames"
    arguments = ["--path", str(first), "--out", str(out), "--device", "cpu"]
    assert main(["render", str(tmp_path / "scene.ply"), *arguments]) == 0
    images = [np.asarray(Image.open(file), np.float32) for file in sorted(out.glob("*.png"))]
    assert len(images) == 3 and not np.array_equal(images[0], images[2])
    for image, pose in ((images[0], START), (images[2], END)):
        camera = Pose(pose.wxyz, pose.position, pose.fov_y, 64, 48).camera(64, 48)
        np.testing.assert_allclose(image, (rasterize(scene, camera).rgb.clamp(0, 1) * 255).numpy(), atol=1.5)


def test_keyframes_are_listed_visited_and_deleted(serve: Callable[..., ViewerApp]) -> None:
    opened = open_offline_page(serve(), START)
    panel = panel_of(opened, CameraPathPanel)
    assert panel._chosen.disabled
    for pose in (START, END):
        look_from(opened, pose)
        panel.add()
    assert panel._chosen.options == ("1", "2") and panel._chosen.value == "2" and not panel._chosen.disabled
    panel._chosen.value = "1"
    panel._edit("Go to")
    np.testing.assert_allclose(opened.page.client.camera.position, START.position, atol=1e-6)
    panel._edit("Delete")
    assert panel._chosen.options == ("1",)
    np.testing.assert_allclose(panel._keyframes[0].camera.position.numpy(), END.position, atol=1e-6)
    panel._edit("Delete")
    panel._edit("Delete")
    assert panel._chosen.disabled and not panel._keyframes


def test_a_path_is_played_to_its_end_and_can_be_stopped(serve: Callable[..., ViewerApp]) -> None:
    opened = open_offline_page(serve(), START)
    panel = panel_of(opened, CameraPathPanel)
    for pose in (START, END):
        look_from(opened, pose)
        panel.add()
    panel._seconds.value = 0.3
    look_from(opened, START)
    panel._toggle()
    assert until(lambda: np.allclose(opened.page.client.camera.position, END.position, atol=1e-5))
    assert until(lambda: panel._play.label == "Play path")
    panel._seconds.value = 60.0
    panel._toggle()
    camera = opened.page.client.camera
    assert until(lambda: np.allclose(camera.position, START.position, atol=0.3))
    panel._toggle()
    assert until(lambda: panel._play.label == "Play path"), "the button stops it"
    np.testing.assert_allclose(camera.position, START.position, atol=1.0)


def test_paths_loop_and_carry_times() -> None:
    poses = [Pose.of_camera(Camera.look_at((math.cos(a), math.sin(a), 0.3), (0, 0, 0))) for a in (0, 2, 4)]
    keyframes = [Keyframe(pose.camera(40, 30), float(i)) for i, pose in enumerate(poses)]
    once = smooth_path(keyframes, 1.0, timed=True)
    assert len(once.cameras) == len(once.times) == 30
    assert once.times[0] == 0 and once.times[-1] == 2 and np.all(np.diff(once.times) > 0)
    loop = smooth_path(keyframes, 1.0, loop=True, timed=True)
    assert loop.times[0] == 0 and loop.times[10] == pytest.approx(1) and loop.times[-1] == pytest.approx(0.2)
    np.testing.assert_allclose(loop.cameras[20].position.numpy(), poses[2].position, atol=1e-5)
    assert smooth_path(keyframes, 1.0).times == []
    with pytest.raises(LuxelError, match="at least two keyframes"):
        smooth_path(keyframes[:1], 1.0)


def test_a_path_of_a_dynamic_scene_shows_its_times(
    serve: Callable[..., ViewerApp], carousel: Callable[..., Gaussians4d], draw_any: Callable[..., Any]
) -> None:
    opened = open_offline_page(serve(StaticSession(carousel()), render=draw_any), START, width=32, height=24)
    panel, stream = panel_of(opened, CameraPathPanel), opened.page.stream
    for pose, moment in ((START, 0.25), (END, 0.75)):
        look_from(opened, pose)
        opened.page.seek(moment)
        panel.add()
    assert [keyframe.time for keyframe in panel._keyframes] == pytest.approx([0.25, 0.75])
    panel._seconds.value = 0.1
    assert panel.path().times == pytest.approx([0.25, 0.5, 0.75])
    stopped = threading.Event()
    panel._run(panel.path(), False, stopped.is_set)
    assert stream.time == pytest.approx(0.75)
