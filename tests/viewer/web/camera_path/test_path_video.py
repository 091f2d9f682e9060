"""Camera paths on the page: keyframes edited and opened, and films of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, drag, newest_client, ring, until
from shown import StaticSession, ViewerApp, draw, scene_of, side_of, write_page_film

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.rasterize import rasterize
from luxel.scenes.paths import CameraPath, resized
from luxel.viewer.edit import operations
from luxel.viewer.web.camera_path.keyframes import MAX_OPENED, keyframes_of
from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.inspection.comparison import Comparer
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.pair.painter import PairPainter
from luxel.viewer.web.pair.session import PairSession
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.shading.film_frame import film_frame
from luxel.viewer.web.shading.shading import DisplaySettings


def cameras(count: int, width: int = 32, height: int = 24) -> list[Camera]:
    return [
        Camera.look_at((3.0, 0.1 * i - 1, 0.5), (0, 0, 0), fov_y=0.8, width=width, height=height)
        for i in range(count)
    ]


def panel_at(app: ViewerApp, poses: list[Camera]) -> tuple[Any, CameraPathPanel]:
    """An offline page whose panel has a keyframe for each camera."""
    opened = open_offline_page(app, Pose.of_camera(poses[0]), width=32, height=24)
    panel = next(panel for panel in opened.panels if isinstance(panel, CameraPathPanel))
    for camera in poses:
        opened.page.place(Pose.of_camera(camera))
        panel.add()
    return opened, panel


def heights(panel: CameraPathPanel) -> list[float]:
    return [round(float(keyframe.camera.position[1]), 3) for keyframe in panel._keyframes]


@pytest.fixture
def app(tmp_path: Path) -> Any:
    with ViewerApp(StaticSession(ball(), folder=tmp_path), port=0) as app:
        yield app


def test_keyframes_are_inserted_replaced_and_moved(app: ViewerApp) -> None:
    opened, panel = panel_at(app, cameras(3))
    assert heights(panel) == [-1.0, -0.9, -0.8]
    panel._move(-1)
    assert heights(panel) == [-1.0, -0.8, -0.9] and panel._chosen.value == "2"
    panel._move(-1)
    panel._move(-1)
    assert heights(panel) == [-0.8, -1.0, -0.9] and panel._chosen.value == "1", "it was the first already"
    opened.page.place(Pose.of_camera(cameras(9)[8]))
    panel._edit("Replace")
    assert heights(panel) == [-0.2, -1.0, -0.9]
    panel.add()
    assert heights(panel) == [-0.2, -0.2, -1.0, -0.9] and panel._chosen.value == "2"
    panel._place.value = 1.0
    panel._scrub()
    assert opened.page.client.camera.position[1] == pytest.approx(-0.9, abs=1e-5)
    panel._choose(2)
    assert panel._chosen.value == "3" and len(panel._lines._nodes) == 5, "four frustums and a line"
    panel._show_path.value = False
    panel._draw()
    assert not panel._lines._nodes


def test_a_saved_path_is_opened_again(app: ViewerApp) -> None:
    _, panel = panel_at(app, cameras(3))
    panel._seconds.value = 2.0
    content = panel.save().read_bytes()
    for _ in range(3):
        panel._edit("Delete")
    panel.open(content)
    assert len(panel._keyframes) == MAX_OPENED and panel._seconds.value == 2.0
    assert heights(panel)[0] == -1.0 and heights(panel)[-1] == -0.8
    for bad in (b"", b"{}", b"\xff", b"[" * 100_000):
        before = list(panel._keyframes)
        with pytest.raises(LuxelError):
            panel.open(bad)
        assert panel._keyframes == before
    few, seconds = keyframes_of(CameraPath(cameras(4), 2.0, [0.0, 1.0, 2.0, 3.0]))
    assert [keyframe.time for keyframe in few] == [0, 1, 2, 3] and seconds == 2.0


def test_cameras_keep_their_vertical_field_of_view_in_another_size() -> None:
    camera = cameras(1, 40, 30)[0]
    assert resized([camera]) == [camera]
    wide = resized([camera], 160, 60)[0]
    assert (wide.width, wide.height) == (160, 60)
    assert wide.intrinsics.tolist() == pytest.approx([2 * float(camera.intrinsics[1])] * 2 + [80, 30])
    assert [(c.width, c.height) for c in resized([camera], width=80)] == [(80, 60)]
    assert [(c.width, c.height) for c in resized([camera], height=60)] == [(80, 60)]


def test_a_film_shows_the_path(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="video test not run: no PyAV")
    shares: list[float] = []
    path, file = CameraPath(cameras(6), 10.0), tmp_path / "path.mp4"
    frames = write_page_film(StaticSession(ball()), rasterize, path, DisplaySettings(), file, shares.append)
    assert frames == 6 and shares == pytest.approx([i / 6 for i in range(1, 7)])
    with av.open(str(file)) as film:
        stream = film.streams.video[0]
        assert (stream.width, stream.height, float(stream.average_rate)) == (32, 24, 10.0)
        images = [frame.to_ndarray(format="rgb24").astype(float) for frame in film.decode(stream)]
    assert len(images) == 6
    for image, camera in zip(images, cameras(6), strict=True):
        expected = rasterize(ball(), camera).rgb.clamp(0, 1).numpy() * 255
        assert np.abs(image - expected).mean() < 12, "not this camera, beyond what compression changes"


def test_a_film_has_no_marks_of_tools(tmp_path: Path) -> None:
    """Neither the colour of a selection nor the preview of an edit is in it; hidden primitives are not, either."""
    session = StaticSession(ball())
    settings, camera = DisplaySettings(), cameras(1)[0]

    def filmed() -> np.ndarray:
        with session.borrow() as scene:
            return film_frame(scene, camera, settings).astype(int)

    def shown() -> np.ndarray:
        with session.borrow() as scene:
            return draw(None, scene, camera, settings)[0].numpy().astype(int)

    plain = filmed()
    assert np.array_equal(plain, shown())
    editor = SceneEditor(session, tmp_path / "edits")
    editor.run(lambda document: document.select(torch.arange(250) < 120))
    assert np.array_equal(filmed(), plain) and np.abs(shown() - plain).max() > 40
    version = editor.run(lambda document: document.version)
    editor.preview(Similarity(translation=(0.0, 0.0, 1.0)), version)
    assert np.array_equal(filmed(), plain) and np.abs(shown() - plain).max() > 40
    editor.preview_selection(torch.arange(250) >= 120, "replace")
    assert np.array_equal(filmed(), plain) and np.abs(shown() - plain).max() > 40
    editor.run(lambda document: document.apply(operations.delete(document.state)))
    rest = draw(rasterize, ball().select(torch.arange(250) >= 120), camera, settings)[0].numpy()
    assert np.abs(filmed() - rest).max() <= 1


def test_a_film_of_a_page_with_a_selection_shows_the_scene(tmp_path: Path) -> None:
    """Each frame of the film is nearer to the scene than to the image of the page."""
    av = pytest.importorskip("av", reason="video test not run: no PyAV")
    session = StaticSession(ball())
    SceneEditor(session, tmp_path / "edits").run(lambda document: document.select(torch.arange(250) < 250))
    path = CameraPath(cameras(3), 10.0)
    write_page_film(session, None, path, DisplaySettings(), tmp_path / "path.mp4")
    with av.open(str(tmp_path / "path.mp4")) as film:
        frames = [frame.to_ndarray(format="rgb24").astype(float) for frame in film.decode(video=0)]
    for frame, camera in zip(frames, cameras(3), strict=True):
        expected = rasterize(ball(), camera).rgb.clamp(0, 1).numpy() * 255
        assert np.abs(frame - expected).mean() < 12


def test_a_film_has_neither_photographs_of_compare_nor_notices(tmp_path: Path) -> None:
    views, away = ring(), Camera.look_at((30.0, 0, 0), (60.0, 0, 0), width=80, height=60)
    session = StaticSession(ball(), views)
    comparer = Comparer(session, 3.5, lambda: None)
    settings = DisplaySettings(painter=comparer)
    with session.borrow() as scene:
        until(lambda: comparer.paint(scene, views[1].camera, settings) is not None, "not read")
        plain, _ = draw(None, scene, views[1].camera, DisplaySettings())
        assert np.array_equal(film_frame(scene, views[1].camera, settings), plain.numpy())
        assert film_frame(scene, away, settings).max() == 0, "nothing is there, and nothing is written"
        assert draw(None, scene, away, settings)[0].max() > 200


def test_a_film_of_two_scenes_shows_both_and_has_no_alpha() -> None:
    red = ball().with_base_colours(torch.tensor([[1.0, 0.0, 0.0]]).expand(250, 3))
    session = PairSession(side_of("A", StaticSession(ball())), side_of("B", StaticSession(red)))
    settings = DisplaySettings(painter=PairPainter(session))
    with session.borrow() as scene:
        image = film_frame(scene, cameras(1, 64, 48)[0], settings)
        assert image[10:38, 34:].astype(int).sum((0, 1)).argmax() == 0
        with pytest.raises(LuxelError, match="an image of two scenes has no alpha"):
            film_frame(scene, cameras(1)[0], settings, transparent=True)


def test_a_scene_without_alpha_has_no_transparent_image() -> None:
    scene = scene_of(ball())
    scene = replace(scene, about=replace(scene.about, layers=("colour",)))
    with pytest.raises(LuxelError, match="this scene of Gaussians has no alpha"):
        film_frame(scene, cameras(1)[0], DisplaySettings(), transparent=True)


def test_a_cancelled_or_failed_film_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    session, path, file = StaticSession(ball()), CameraPath(cameras(50), 10.0), tmp_path / "path.mp4"
    shares: list[float] = []

    def cancelled(share: float) -> None:
        shares.append(share)
        raise KeyError("cancelled")

    with pytest.raises(KeyError):
        write_page_film(session, rasterize, path, DisplaySettings(), file, cancelled)
    assert shares == [1 / 50]

    def broken(*_: Any, **__: Any) -> Any:
        raise LuxelError("the kernel tripped.")

    with pytest.raises(LuxelError, match="tripped"):
        write_page_film(session, broken, path, DisplaySettings(), file)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_path_takes_no_name_of_a_link(app: ViewerApp, tmp_path: Path) -> None:
    _, panel = panel_at(app, cameras(3))
    (tmp_path / "path.json").symlink_to(tmp_path / "missing.json")
    assert panel.save() == tmp_path / "path-2.json" and panel.save() == tmp_path / "path-3.json"
    assert (tmp_path / "path.json").is_symlink() and not (tmp_path / "missing.json").exists()


@pytest.mark.slow
def test_a_path_is_drawn_and_its_film_arrives_on_the_page(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("av", reason="video test not run: no PyAV")
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        page = open_page(app, width=1280, height=800)
        client = newest_client(app)
        at_rest(app, client)
        panels = app._pages[client.client_id].panels
        panel = next(panel for panel in panels if isinstance(panel, CameraPathPanel))
        page.get_by_text("Camera path", exact=True).click()
        for by in ((0, 0), (140, 30), (140, -60)):
            if by != (0, 0):
                drag(page, client, by)
                at_rest(app, client)
            count = len(panel._keyframes)
            page.get_by_role("button", name="Add keyframe").click()
            until(lambda count=count: len(panel._keyframes) == count + 1, "no keyframe")
        panel._seconds.value = 0.2
        client.camera.position = 2.2 * np.asarray(client.camera.position)
        at_rest(app, client)
        page.mouse.move(1100, 600)
        page.mouse.wheel(0, 2000)
        page.screenshot(path=tmp_path / "path.png")
        with page.expect_download(timeout=60_000) as download:
            page.get_by_role("button", name="Film …").click()
            menu = page.get_by_role("dialog", name="Share")
            menu.get_by_role("button", name="Make film").click()
            menu.get_by_role("button", name="Download: film.mp4").click(timeout=60_000)
        assert download.value.suggested_filename == "film.mp4"
        assert Path(download.value.path()).stat().st_size > 1000
