"""Keyframes that outlast their page: their file, undo, other pages and other programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_driver import FakeTrainerRunning, ball, ring
from shown import StaticSession, TrainingSession, ViewerApp, side_of

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.runs.strict_json import sealed
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.web.camera_path import keyframes as limits
from luxel.viewer.web.camera_path import path_file, shared_path
from luxel.viewer.web.camera_path.keyframes import Keyframe, KeyframePath
from luxel.viewer.web.camera_path.path_file import FILE, PathFile
from luxel.viewer.web.camera_path.shared_path import SharedPath
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.panels import camera_path as camera_path_panel
from luxel.viewer.web.panels.camera_path import CameraPathPanel

SHIFT = (500_000.0, 5_000_000.0, 200.0)
EYES = ((3.0, 0.0, 0.5), (0.0, 3.0, 0.5), (-3.0, 0.0, 0.5))


def looking_from(eye: tuple[float, float, float]) -> Camera:
    return Camera.look_at(eye, (0, 0, 0), fov_y=0.8, width=64, height=48)


PATH = KeyframePath(tuple(Keyframe(looking_from(eye), float(i)) for i, eye in enumerate(EYES)), 7.5, True)


def assert_same(a: KeyframePath, b: KeyframePath) -> None:
    assert (a.seconds, a.loop, len(a.keyframes)) == (b.seconds, b.loop, len(b.keyframes))
    for one, other in zip(a.keyframes, b.keyframes, strict=True):
        assert one.time == other.time
        assert (one.camera.width, one.camera.height) == (other.camera.width, other.camera.height)
        np.testing.assert_allclose(one.camera.world_to_cam, other.camera.world_to_cam, atol=1e-5)
        np.testing.assert_array_equal(one.camera.intrinsics, other.camera.intrinsics)


def test_what_is_written_is_read_again_in_coordinates_of_the_capture(tmp_path: Path) -> None:
    file = PathFile.of_run(tmp_path, SHIFT)
    assert file.read() == KeyframePath() and not file.path.exists()
    file.write(PATH)
    assert_same(PathFile.of_run(tmp_path, SHIFT).read(), PATH)
    position = json.loads(file.path.read_text())["keyframes"][0]["position"]
    np.testing.assert_allclose(position, np.add(EYES[0], SHIFT), rtol=0, atol=1e-5)


def _spoilt(**entries: Any) -> Callable[[dict], object]:
    return lambda body: body["keyframes"][1].update(entries)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body: body.update(format=9), "format 9 is of a newer version"),
        (lambda body: body.update(of="0" * 32), "they are of another run or scene"),
        (lambda body: body.update(seconds=0.0), "seconds"),
        (lambda body: body.update(seconds=1e9), "seconds"),
        (lambda body: body.update(keyframes=body["keyframes"] * 400), "length"),
        (lambda body: body.update(loop="yes"), "loop"),
        (_spoilt(wxyz=[0, 0, 0, 0]), "keyframe 2: the rotation"),
        (_spoilt(position=[0, 0, 1e200]), "position"),
        (_spoilt(focal=[0, 50]), "focal"),
        (_spoilt(size=[64, 0]), "size"),
        (_spoilt(time=None), "time"),
    ],
)
def test_what_cannot_be_read_gets_another_name_and_stays(
    tmp_path: Path, change: Callable[[dict], object], reason: str
) -> None:
    file = PathFile(tmp_path, FILE, "1" * 32, in_run=True, shift=(0, 0, 0))
    file.read()
    file.write(PATH)
    body = json.loads(file.path.read_bytes())
    change(body)
    file.path.write_text(json.dumps(sealed(body)))
    spoilt = file.path.read_bytes()
    assert file.read() == KeyframePath()
    assert file.problem is not None and reason in str(file.problem), file.problem
    file.write(PATH)
    assert file.problem is None and (tmp_path / f"{FILE}.before-1").read_bytes() == spoilt


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    file = PathFile.of_run(tmp_path)
    file.write(PATH)
    file.path.write_text(file.path.read_text().replace("7.5", "7.6"))
    assert file.read() == KeyframePath() and "does not match its checksum" in str(file.problem)


@pytest.fixture
def open_at(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens pages, each of a viewer of its own unless one is given."""
    apps: list[ViewerApp] = []

    def open_at(session: Any = None, app: ViewerApp | None = None, eye: Any = EYES[0]) -> tuple[Any, Any]:
        if app is None:
            session = session or StaticSession(ball(), ring(), folder=tmp_path)
            apps.append(app := ViewerApp(session, port=0, panels=(CameraPathPanel,)))
            app.start()
        opened = open_offline_page(app, Pose.of_camera(looking_from(eye)), width=64, height=48)
        opened.app = app  # pyright: ignore[reportAttributeAccessIssue]
        return opened, opened.panels[0]

    yield open_at
    for app in apps:
        app.stop()


def record(opened: Any, panel: CameraPathPanel) -> None:
    for eye in EYES:
        opened.page.place(Pose.of_camera(looking_from(eye)))
        panel.add()


def places(panel: CameraPathPanel) -> list[tuple[float, ...]]:
    return [tuple(round(x, 3) for x in k.camera.position.tolist()) for k in panel._keyframes]


def test_keyframes_survive_a_reload_and_a_restart(open_at: Callable[..., Any]) -> None:
    opened, panel = open_at()
    record(opened, panel)
    panel._seconds.value, panel._loop.value = 6.0, True
    panel._set_path()
    opened.app._close(opened.page.client)
    for _, again in (open_at(app=opened.app), open_at()):
        assert places(again) == list(EYES) and again._chosen.options == ("1", "2", "3")
        assert again._seconds.value == 6.0 and again._loop.value and not again._place.disabled
        assert len(again.path().cameras) == 180


def test_pages_share_keyframes_and_their_history(open_at: Callable[..., Any]) -> None:
    first, one = open_at()
    _, other = open_at(app=first.app)
    record(first, one)
    assert places(other) == list(EYES)
    for _ in EYES:
        other._edit("Delete")
    assert places(one) == [] and one._chosen.disabled
    for _ in EYES:
        one.shared.undo()
    assert places(one) == places(other) == list(EYES), "deleting all of them is taken back"
    one._move(1)
    assert places(other) == [EYES[1], EYES[0], EYES[2]] and one._chosen.value == "2"
    one.shared.undo()
    one.shared.redo()
    one.shared.undo()
    assert places(other) == list(EYES)


def test_a_path_has_a_largest_number_of_keyframes(
    open_at: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(camera_path_panel, "MAX_KEYFRAMES", 3)
    opened, panel = open_at()
    record(opened, panel)
    with pytest.raises(LuxelError, match="at most 3 keyframes"):
        panel.add()
    panel._try(panel.add)
    assert "at most 3 keyframes" in panel._message.content and places(panel) == list(EYES)
    assert limits.MAX_KEYFRAMES == 500


def test_a_damaged_file_is_named_and_stays(open_at: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    opened, panel = open_at()
    assert panel._message.visible and "cannot be used" in panel._message.content.replace("\\", "")
    record(opened, panel)
    assert not panel._message.visible and (tmp_path / f"{FILE}.before-1").read_text() == "{"
    assert places(open_at()[1]) == list(EYES)


def test_scenes_without_a_run_two_scenes_and_trainings_have_them(
    open_at: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = lambda: StaticSession(primitive_scene(torus_knot(20)))  # noqa: E731
    record(*open_at(bare()))
    assert places(open_at(bare())[1]) == list(EYES), "a scene file"
    assert places(open_at(StaticSession(ball()))[1]) == [], "another scene"
    pair = PairSession(side_of("A", StaticSession(ball())), side_of("B", StaticSession(ball())))
    opened, panel = open_at(pair)
    record(opened, panel)
    assert places(open_at(app=opened.app)[1]) == list(EYES) and not panel._message.visible, "two scenes"
    with FakeTrainerRunning() as trainer:
        record(*open_at(TrainingSession(trainer, ring(), folder=tmp_path)))
    assert places(open_at()[1]) == list(EYES), "the run of a training"
    monkeypatch.setattr(path_file, "state_folder", lambda: None)
    assert "there is no folder" in shared_path.SharedPath(StaticSession(ball(3))).problem


def test_the_keyframe_that_the_camera_stands_in_is_hidden(open_at: Callable[..., Any]) -> None:
    opened, panel = open_at()
    record(opened, panel)
    shown = lambda: [frustum.visible for _, frustum in panel._lines._frustums]  # noqa: E731
    assert shown() == [True, True, False], "the camera stands where it was recorded last"
    opened.page.place(Pose.of_camera(looking_from((0.0, 0.1, 3.0))))
    panel._lines.follow(opened.page.pose().position)
    assert shown() == [True, True, True]
    panel._show_frame(panel.path(), 0)
    assert shown() == [False, True, True], "while the path is played"


def test_each_session_has_one(tmp_path: Path) -> None:
    session = StaticSession(ball(), folder=tmp_path)
    assert SharedPath.of(session) is SharedPath.of(session)
