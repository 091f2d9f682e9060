"""Controls of Camera path and Time in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_controls import Controls
from page_driver import at_rest, ball, ring, screenshot, until
from shown import StaticSession, ViewerApp

from luxel.render.primitives import Gaussians4d
from luxel.scenes.paths import load_path
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.camera_path import CameraPathPanel


@pytest.mark.slow
def test_every_control_of_a_camera_path(open_page: Callable[..., Any], tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="video test not run: no PyAV")
    torch.set_num_threads(1)
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app:
        page = open_page(app, width=1100, height=1000)
        controls = Controls(page, app)
        panel, client = controls.panel(CameraPathPanel), controls.client
        controls.unfold("Show", "Camera", "Camera path")

        def look_from(view: int) -> None:
            there = at(ring()[view].camera.position)
            for _ in range(6):  # a busy page may still report where it was before
                controls.opened.page.place(Pose.of_camera(ring()[view].camera))
                until(there, "the page did not follow")
                at_rest(app, client)
                page.wait_for_timeout(500)
                if there():
                    return
            raise AssertionError("the page does not stay")

        def at(position: Any) -> Callable[[], bool]:
            return lambda: bool(np.allclose(Pose.of_client(client.camera).position, position, atol=0.02))

        def order() -> list[int]:
            """Number of the view at which each keyframe stands."""
            views = np.stack([view.camera.position.numpy() for view in ring()])
            frames = [keyframe.camera.position.numpy() for keyframe in panel._keyframes]
            return [int(np.linalg.norm(views - frame, axis=1).argmin()) for frame in frames]

        for view in (0, 1, 2):
            look_from(view)
            controls.press("Camera path/Add keyframe")
            until(lambda view=view: order() == list(range(view + 1)), "no keyframe")
        controls.set("Camera path/Keyframe", "1")
        controls.press("Camera path/Go to")
        until(at(ring()[0].camera.position), "the button does not go to the keyframe")
        look_from(3)
        controls.press("Camera path/Replace")
        until(lambda: order() == [3, 1, 2], "the keyframe is not replaced")
        controls.press("Camera path/Later")
        until(lambda: order() == [1, 3, 2], "the keyframe is not moved")
        until(lambda: panel._chosen.value == "2", "the keyframe is not chosen where it is now")
        controls.press("Camera path/Earlier")
        until(lambda: order() == [3, 1, 2], "the keyframe is not moved back")
        controls.press("Camera path/Undo")
        until(lambda: order() == [1, 3, 2], "nothing is undone")
        controls.press("Camera path/Redo")
        until(lambda: order() == [3, 1, 2], "nothing is made again")
        controls.set("Camera path/Keyframe", "1")

        controls.set("Camera path/Duration", 2)
        until(lambda: len(panel.path().cameras) == 60, "the duration is another one")
        first, last = (panel.path().cameras[i].position.numpy() for i in (0, -1))
        controls.set("Camera path/Return to start", True)
        back = panel.path().cameras[-1].position.numpy()
        assert np.linalg.norm(back - first) < 0.3 * np.linalg.norm(last - first)
        controls.set("Camera path/Return to start", False)

        look_from(4)
        whole = screenshot(page)
        page.screenshot(path=str(tmp_path / "drawn.png"))
        controls.set("Camera path/Show path", False)
        until(lambda: not panel._lines._nodes, "the path is still there")
        until(lambda: np.abs(screenshot(page) - whole)[:, :750].max() > 60, "the page still draws the path")
        controls.set("Camera path/Show path", True)
        until(lambda: len(panel._lines._nodes) == 4, "three keyframes and a line are not drawn")

        controls.set("Camera path/Timeline", 0.5)
        cameras = panel.path().cameras
        until(at(cameras[round(0.5 * (len(cameras) - 1))].position), "the timeline shows another place")
        controls.press("Camera path/Play path")
        until(lambda: panel._play.label == "Stop", "the path is not played")
        until(lambda: panel._play.label == "Play path", "the path does not end")
        until(at(cameras[-1].position), "it does not end at the last keyframe")
        until(lambda: controls.handle("Camera path/Timeline").value == 1.0, "the timeline does not follow")

        controls.press("Camera path/Save")
        page.get_by_text("Saved. Render it with").wait_for(timeout=60_000)
        assert len(load_path(tmp_path / "path.json").cameras) == 60
        with page.expect_download(timeout=60_000) as download:
            controls.press("Camera path/Download")
        assert Path(download.value.path()).read_bytes() == (tmp_path / "path.json").read_bytes()
        controls.set("Camera path/Duration", 0.5)
        controls.press("Camera path/Film …")
        menu = page.get_by_role("dialog", name="Share")
        menu.get_by_label("Size").select_option("720p")
        menu.get_by_label("Frames a second").select_option("24")
        menu.get_by_role("button", name="Make film").click()
        with page.expect_download(timeout=120_000):
            menu.get_by_role("button", name="Download: film.mp4").click(timeout=120_000)
        menu.get_by_role("button", name="Close").click()
        with av.open(str(tmp_path / "film.mp4")) as film:
            stream = film.streams.video[0]
            assert (stream.width, stream.height, float(stream.average_rate)) == (1280, 720, 24)
            assert len(list(film.decode(stream))) == 12

        for left in (2, 1, 0):
            controls.press("Camera path/Delete")
            until(lambda left=left: len(order()) == left, "the keyframe is not deleted")
        controls.set("Camera path/Open path", tmp_path / "path.json")
        page.get_by_text("Opened: ").wait_for(timeout=60_000)
        assert order()[0] == 3 and order()[-1] == 2 and panel._seconds.value == 2.0
        page.screenshot(path=str(tmp_path / "opened.png"))


@pytest.mark.slow
def test_time_is_set_slowed_and_ended(
    open_page: Callable[..., Any], carousel: Callable[..., Gaussians4d], draw_any: Callable[..., Any]
) -> None:
    with ViewerApp(StaticSession(carousel(), ring(), "carousel"), port=0, render=draw_any) as app:
        page = open_page(app)
        controls = Controls(page, app)
        stream = controls.opened.page.stream

        def colour_of(strongest: int) -> Callable[[], bool]:
            return lambda: int(screenshot(page)[:, :560].reshape(-1, 3).sum(0).argmax()) == strongest

        controls.set("Time/Time", 0.5)
        until(lambda: stream.playback.time == pytest.approx(0.5, abs=1e-3), "the slider sought nothing")
        until(colour_of(1), "the balls of the middle are green")
        controls.set("Time/Speed", 3.5)
        until(lambda: stream.playback.speed == pytest.approx(3.5), "the speed did not arrive")
        controls.set("Time/Loop", False)
        until(lambda: not stream.playback.loop, "the switch did not arrive")
        controls.press("Time/Play")
        until(lambda: not stream.playing and controls.handle("Time/Time").value == 1.0, "it does not end")
        until(colour_of(2), "the last balls are blue")
        controls.set("Time/Loop", True)
        controls.press("Time/Play")
        until(
            lambda: stream.playing and 0 < controls.handle("Time/Time").value < 0.9, "it does not begin again"
        )
