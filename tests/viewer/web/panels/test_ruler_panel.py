"""The panel Ruler and the level of the panel Camera, on pages without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_client import PageClient, until
from page_driver import FakeTrainerRunning, ball, ring
from shown import StaticSession, TrainingSession, ViewerApp

from luxel.render.geometry.camera import Camera
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.measuring.measurements_file import FILE
from luxel.viewer.edit import Document
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.page import Click
from luxel.viewer.web.panels.camera import CameraPanel
from luxel.viewer.web.panels.inspect import InspectPanel
from luxel.viewer.web.panels.ruler import LEVEL, NEW, START, RulerPanel
from luxel.viewer.web.shading.shading import Sample

FRONT = Pose.of_camera(Camera.look_at((0.0, -4.0, 0.0), (0, 0, 0)))
TILTED = np.array([0.6, 0.0, -0.8])


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ViewerApp]]:
    """Starts viewers of a ball, whose run is in tmp_path, and stops them."""
    apps: list[ViewerApp] = []

    def start(session: Any = None) -> ViewerApp:
        session = session or StaticSession(ball(), ring(), "ball", folder=tmp_path)
        apps.append(ViewerApp(session, port=0))
        apps[-1].start()
        return apps[-1]

    yield start
    for app in apps:
        app.stop()


def panel_of(opened: OpenPage, kind: type[Any]) -> Any:
    return next(panel for panel in opened.panels if isinstance(panel, kind))


def at(point: Any, normal: Any = None) -> Click:
    """A click on a point of the visible surface, or beside it (None)."""
    sample = Sample((0, 0, 0), 1.0, 4.0)
    sample = sample._replace(normal=normal) if hasattr(sample, "_replace") else _with_normal(sample, normal)
    place = None if point is None else np.array(point, float)
    return Click((1.0, 1.0), np.array([0.0, -4.0, 0.0]), np.array([0.0, 1.0, 0.0]), sample, place)


def _with_normal(sample: Sample, normal: Any) -> Sample:
    from dataclasses import replace

    return replace(sample, normal=normal)


def draw_ruler(panel: RulerPanel, start: Any, end: Any) -> None:
    panel.begin(NEW)
    panel.on_click(at(start))
    panel.on_click(at(end))


def test_two_clicks_on_the_image_make_a_ruler_on_all_pages(
    serve: Callable[..., ViewerApp], tmp_path: Path
) -> None:
    app = serve()
    first, second = (open_offline_page(app, FRONT, 64, 48) for _ in range(2))
    panel, other = panel_of(first, RulerPanel), panel_of(second, RulerPanel)
    panel.begin(NEW)
    assert first.page.clickable and not second.page.clickable
    first.page.click(0.5, 0.5)
    assert panel._new.label == "Click the second point …"
    first.page.click(0.56, 0.5)
    ruler = other.shared.present.rulers[0]
    np.testing.assert_allclose(ruler.start, (0, -1, 0), atol=0.15)
    assert 0.05 < ruler.length < 1.0 and not first.page.clickable
    assert other._chosen.options == ("ruler-1",) and other._length.value.endswith(" units")
    assert (tmp_path / FILE).exists()
    draw_ruler(panel, (0, 0, 0), (0, 0, 2))
    assert panel._length.value == "2.000 units" and other._chosen.options == ("ruler-1", "ruler-2")
    panel.shared.undo()
    assert other._chosen.options == ("ruler-1",)


def test_a_ruler_is_moved_renamed_deleted_and_saved(serve: Callable[..., ViewerApp]) -> None:
    opened = open_offline_page(serve(), FRONT)
    panel = panel_of(opened, RulerPanel)
    panel.begin(START)
    assert "there is no ruler" in panel._said.line.content and not opened.page.clickable
    draw_ruler(panel, (0, 0, 0), (0, 0, 2))
    panel.begin(START)
    panel.on_click(at(None))
    assert "There is no surface" in panel._said.line.content
    panel.on_click(at((0, 3, -2)))
    assert panel._length.value == "5.000 units"
    panel._move("end", np.array([0.0, 3.0, 0.0]))
    assert panel._length.value == "2.000 units"
    assert panel._new_name.value == "ruler-1"
    panel._new_name.value = "door"
    panel.rename()
    assert panel._chosen.options == ("door",) and "door" in panel._list.content
    panel.copy()
    assert panel._said.line.content == "Copied 2.000 units"
    panel.download(True)
    panel.download(False)
    names = [name for name, _ in opened.page.client.downloads]
    assert names == ["ball-rulers.csv", "ball-rulers.json"]
    panel._handles.value = True
    assert set(panel._lines._handles) == {"start", "end"} and len(panel._lines._labels) == 1
    panel.delete()
    assert panel._chosen.disabled and panel._length.value == "" and not panel._lines._handles
    assert panel.shared.undo_titles[-1] == "Delete"


def test_a_known_length_sets_the_scale_of_all_panels(serve: Callable[..., ViewerApp], tmp_path: Path) -> None:
    app = serve()
    opened = open_offline_page(app, FRONT)
    panel = panel_of(opened, RulerPanel)
    draw_ruler(panel, (0, 0, 0), (0, 0, 2))
    panel._known.value, panel._unit.value = 0.0, "cm"
    panel._said.guard(panel.set_scale)
    assert "0 cm cannot be the length" in panel._said.line.content.replace("\\", "")
    panel._known.value = 84.0
    panel._said.guard(panel.set_scale)
    assert panel._length.value == "84.00 cm" and "42.0000 cm" in panel._list.content
    inspect = panel_of(opened, InspectPanel)
    inspect.on_click(at((0, -1, 0)))
    assert "4 (1.680 m)" in inspect._numbers.content
    scene = tmp_path / "edited.ply"
    SceneEditor.of(app.session).run(lambda document: Document.save(document, scene))
    assert load_facts(scene).metres == pytest.approx(0.42)
    panel.clear_scale()
    assert panel._length.value == "2.000 units" and load_facts(scene).metres is not None


def test_three_points_level_all_pages_and_the_scene_returns(serve: Callable[..., ViewerApp]) -> None:
    app = serve()
    opened, other = (open_offline_page(app, FRONT) for _ in range(2))
    panel, camera = panel_of(opened, RulerPanel), panel_of(other, CameraPanel)
    before = other.page.extent.up
    across = np.cross(TILTED, (0, 1, 0))
    panel.begin(LEVEL)
    for point in (np.zeros(3), across, np.array([0.3, -3.0, 0.2])):
        panel.on_click(at(point - 0.2 * TILTED * (TILTED @ point)))
    assert panel.shared.present.up is not None
    for page in (opened.page, other.page):
        np.testing.assert_allclose(page.up, panel.shared.present.up)
    assert camera._up.options[:2] == ("level", "scene") and camera._up.value == "level"
    camera._set_up("scene")
    np.testing.assert_array_equal(other.page.up, before)
    other.page.reset()
    np.testing.assert_array_equal(other.page.up, before)
    assert panel.shared.present.up is not None, "one page alone"
    panel.shared.undo()
    np.testing.assert_array_equal(opened.page.up, before)
    assert camera._up.options[0] == "scene"


def test_this_is_down_can_be_undone_and_holds_on_new_pages(serve: Callable[..., ViewerApp]) -> None:
    app = serve()
    first = open_offline_page(app, FRONT)
    panel, original = panel_of(first, CameraPanel), first.page.extent.up
    panel.on_click(at((0, 0, 0), tuple(TILTED)))
    later = open_offline_page(app, FRONT)
    np.testing.assert_allclose(later.page.up, TILTED)
    np.testing.assert_allclose(later.page.client.camera.up_direction, TILTED)
    restarted = open_offline_page(serve(), FRONT)
    np.testing.assert_allclose(restarted.page.extent.up, TILTED)
    np.testing.assert_array_equal(restarted.page.scene_up, original)
    panel._set_up("+z")
    panel.on_click(at((0, 0, 0), tuple(TILTED)))
    np.testing.assert_allclose(first.page.up, TILTED)
    panel_of(first, RulerPanel).clear_level()
    np.testing.assert_array_equal(first.page.up, original)
    assert first.page.bars.has("levelled", "Undo") and panel._up.value == "scene"
    panel.on_click(at((0, 0, 0), tuple(TILTED)))
    assert panel._up.value == "level"
    first.page.bars.press("levelled", 0, "Undo")
    assert panel._up.value == "scene" and not first.page.bars.has("levelled", "Undo")
    np.testing.assert_array_equal(first.page.up, original)
    panel._undo_level()
    assert panel_of(first, RulerPanel).shared.undo_titles[-1] != "Level", "the change before is not undone"
    first.page.reset()
    np.testing.assert_array_equal(first.page.up, original)


def test_up_says_the_scene_again_after_a_reset(serve: Callable[..., ViewerApp]) -> None:
    opened = open_offline_page(serve(), FRONT)
    panel, original = panel_of(opened, CameraPanel), opened.page.extent.up
    panel._up.value = "+x"
    until(lambda: np.array_equal(opened.page.up, (1, 0, 0)), "the axis is not up")
    panel._say_up()
    assert panel._up.value == "+x", "nothing has ended the choice"
    opened.page.reset()
    panel._say_up()
    assert panel._up.value == "scene"
    np.testing.assert_array_equal(opened.page.up, original)
    panel._up.value = "-y"
    until(lambda: np.array_equal(opened.page.up, (0, -1, 0)), "the list is dead after a reset")
    panel.on_click(at((0, 0, 0), tuple(TILTED)))
    assert panel._up.value == "level"
    panel._up.value = "+x"
    opened.page.reset()
    panel._say_up()
    assert panel._up.value == "level"
    np.testing.assert_allclose(opened.page.up, TILTED)


def test_rulers_of_a_training_belong_to_its_run(serve: Callable[..., ViewerApp], tmp_path: Path) -> None:
    with FakeTrainerRunning() as trainer:
        app = serve(TrainingSession(trainer, ring(), folder=tmp_path))
        panel = panel_of(open_offline_page(app, FRONT), RulerPanel)
        draw_ruler(panel, (0, 0, 0), (0, 0, 2))
        panel._known.value = 1.0
        panel.set_scale()
    finished = panel_of(open_offline_page(serve(), FRONT), RulerPanel)
    assert finished.shared.present == panel.shared.present and finished.shared.metres == 0.5


def test_a_page_of_a_browser_has_the_panel(serve: Callable[..., ViewerApp]) -> None:
    app = serve()
    with PageClient(app) as client:
        opened = app._pages[client.id]
        panel = panel_of(opened, RulerPanel)
        draw_ruler(panel, (0, 0, 0), (0, 0, 2))
        client.set(client.control("This is"), 3.0)
        client.synchronize()
        panel.set_scale()
        assert panel._length.value == "3.000 m"
        client.set(client.control("Handles"), True)
        client.synchronize()
        until(lambda: set(panel._lines._handles) == {"start", "end"}, "there are no handles")
        assert app.guard is not None and not app.guard.messages.dropped
