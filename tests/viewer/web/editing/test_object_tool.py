"""The Object tool: objects that the run has, and those that a segmenter finds from a click."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from objects_of_balls import LEFT, OUTSIDE, POSE, RIGHT, two_balls, with_objects
from page_driver import until
from segmenters import ColourSegmenter, NestedSegmenter
from shown import StaticSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.viewer.edit import Document
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.editing import object_preview, object_tool
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.shading.shading import Sample


@pytest.fixture
def opened(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Opens a page of the two balls, whose run may have objects."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    apps: list[ViewerApp] = []

    def open_page() -> OpenPage:
        app = ViewerApp(StaticSession(two_balls(), folder=tmp_path), port=0, panels=(EditPanel,))
        apps.append(app)
        app.start()
        return open_offline_page(app, POSE)

    yield open_page
    for app in apps:
        app.stop()


def tool_of(page: OpenPage) -> tuple[EditPanel, Any]:
    panel = page.panels[0]
    assert isinstance(panel, EditPanel)
    panel._choose("Object")
    return panel, panel._tool


def selection(panel: EditPanel) -> list[int]:
    """How many of the left and of the right ball are selected."""
    chosen = panel.editor.run(lambda document: document.selected.clone())
    return [int(chosen[:200].sum()), int(chosen[200:].sum())]


def test_objects_of_the_run_are_selected_by_a_click(opened: Callable[[], OpenPage], tmp_path: Any) -> None:
    with_objects(tmp_path)
    page = opened()
    panel, _ = tool_of(page)
    page.page.click(*RIGHT)
    until(lambda: selection(panel) == [0, 200], "the object under the cursor is not selected")
    panel.run(Document.invert)
    panel._mode.value = "add"
    page.page.click(*RIGHT)
    until(lambda: selection(panel) == [200, 200], "the mode of the selection is not used")


def test_a_click_finds_an_object_without_labels(
    opened: Callable[[], OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    segmenter = ColourSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    page = opened()
    panel, tool = tool_of(page)
    page.page.click(*LEFT)
    until(lambda: segmenter.looked > 2 and not tool._progress.visible, "the search does not end")
    left, right = selection(panel)
    assert left > 180 and right == 0, "not the whole ball, its far side included"
    assert panel.editor.run(lambda document: len(document.history.undo_titles)) == 1, "one edit to undo"
    panel._mode.value = "add"
    page.page.click(*RIGHT)
    until(lambda: selection(panel)[1] > 180 and not tool._progress.visible, "the second ball is not added")
    assert selection(panel)[0] == left


def test_clicks_that_find_nothing_say_so(
    opened: Callable[[], OpenPage], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened()
    panel, _ = tool_of(page)
    page.page.click(*OUTSIDE)
    until(lambda: "nothing opaque enough" in panel._message.content, "a click on nothing passes")

    def missing(device: torch.device) -> Any:
        raise LuxelError("no segmenter here.", "Get one.")

    monkeypatch.setattr(object_tool, "segmenter_for", missing)
    page.page.click(*LEFT)
    until(lambda: "no segmenter here" in panel._message.content, "a missing segmenter is not said")
    blind = ColourSegmenter()
    monkeypatch.setattr(
        blind, "masks", lambda *_: (torch.zeros(3, 240, 320, dtype=torch.bool),) * 2 + (torch.ones(3),)
    )
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: blind)
    page.page.click(*LEFT)
    until(lambda: "no object is found there" in panel._message.content, "an empty mask passes")


def test_objects_of_another_scene_are_refused(opened: Callable[[], OpenPage], tmp_path: Any) -> None:
    other = two_balls()
    other.means += 1
    with_objects(tmp_path, other)
    panel, _ = tool_of(opened())
    message = panel._message.content.replace("\\", "")
    assert "of another state of its scene" in message and "--kept" in message


def idle(page: OpenPage, tool: Any) -> bool:
    return not tool._running and page.page.marks.state()["busy"] is None


def test_other_candidates_replace_the_object(
    opened: Callable[[], OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    segmenter = NestedSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    page = opened()
    panel, tool = tool_of(page)
    bar = page.page.toolbar
    assert not {"Smaller object", "Larger object"} & set(bar.state()["enabled"])
    page.page.click(*LEFT)
    assert page.page.marks.state()["busy"] == pytest.approx(LEFT)
    until(lambda: idle(page, tool), "the search does not end")
    ball = selection(panel)[0]
    assert ball > 180 and {"Smaller object", "Larger object"} <= set(bar.state()["enabled"])
    bar.run("Smaller object")
    until(lambda: idle(page, tool), "the search does not end")
    assert 0 < selection(panel)[0] < ball and selection(panel)[1] == 0
    assert "Smaller object" not in bar.state()["enabled"]
    bar.run("Larger object")
    until(lambda: idle(page, tool), "the search does not end")
    assert selection(panel)[0] == ball
    bar.run("Larger object")
    until(lambda: idle(page, tool), "the search does not end")
    assert min(selection(panel)) > 180, "all that is shown"
    assert panel.editor.run(lambda document: document.history.undo_titles) == ["Select object"], "one edit"
    panel.run(Document.undo)
    assert selection(panel) == [0, 0] and not {"Smaller object"} & set(bar.state()["enabled"])


def test_alt_clicks_leave_out_what_is_beside_the_object(
    opened: Callable[[], OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    segmenter = NestedSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    page = opened()
    panel, tool = tool_of(page)
    page.page.click(*LEFT, alt=True)
    until(lambda: "no clicked object" in panel._message.content, "there is nothing to leave anything out of")
    page.page.click(*LEFT)
    until(lambda: idle(page, tool), "the search does not end")
    first = tool._target.search.candidates
    page.page.click(0.33, 0.5, alt=True)
    until(lambda: idle(page, tool) and tool._target is not None, "the search does not end")
    assert len(tool._target.clicked.beside) == 1 and selection(panel)[1] == 0 < selection(panel)[0]
    second = tool._target.search.candidates
    assert second.mask(second.best).sum() < first.mask(first.best).sum()
    assert panel.editor.run(lambda document: document.history.undo_titles) == ["Select object"], "one edit"
    monkeypatch.setattr(page.page.stream, "sample", lambda *_: Sample((0, 0, 0), 1.0, 0.5))
    page.page.place(Pose.of_camera(Camera.look_at((0.0, -5.0, 0.0), (0, -9, 0), fov_y=0.8)))
    page.page.click(0.5, 0.5, alt=True)
    assert "outside of the view" in panel._message.content, "behind the camera that was clicked from"
    panel._choose("off")
    page.page.click(*LEFT, alt=True)
    assert not page.page._alt_clicks


def test_what_is_huge_is_not_added_unseen(
    opened: Callable[[], OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    segmenter = ColourSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    page = opened()
    panel, tool = tool_of(page)
    bar = page.page.toolbar
    page.page.click(*LEFT)
    until(lambda: idle(page, tool), "the search does not end")
    left = selection(panel)
    panel._mode.value = "add"
    segmenter = NestedSegmenter(best=2)
    page.page.click(*RIGHT)
    until(lambda: "Add huge object" in bar.state()["enabled"], "nothing is asked")
    assert selection(panel) == left and "more than half" in bar.state()["message"]
    bar.run("Leave huge object")
    assert "Add huge object" not in bar.state()["enabled"] and bar.state()["message"] == ""
    page.page.click(*RIGHT)
    until(lambda: "Add huge object" in bar.state()["enabled"], "nothing is asked again")
    bar.run("Add huge object")
    until(lambda: idle(page, tool) and min(selection(panel)) > 180, "it is not added")


def test_a_search_that_spreads_in_other_views_is_not_added_unseen(
    opened: Callable[[], OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    segmenter = ColourSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    monkeypatch.setattr(
        object_tool.ObjectSearch, "everywhere", lambda search, current: torch.ones(400, dtype=torch.bool)
    )
    page = opened()
    panel, _ = tool_of(page)
    panel._mode.value = "add"
    page.page.click(*LEFT)
    until(lambda: "Add huge object" in page.page.toolbar.state()["enabled"], "nothing is asked")
    assert selection(panel)[0] > 0 and selection(panel)[1] == 0, "what the image shows is selected"
    panel._choose("Click")
    assert "Add huge object" not in page.page.toolbar.state()["enabled"]
    assert selection(panel)[1] == 0


def test_why_a_search_failed_stays_on_the_image(
    opened: Callable[[], OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(device: torch.device) -> Any:
        raise LuxelError("no segmenter here.", "Get one.")

    monkeypatch.setattr(object_tool, "segmenter_for", missing)
    page = opened()
    _, tool = tool_of(page)
    page.page.click(*LEFT)
    until(lambda: idle(page, tool), "the search does not end")
    state = page.page.toolbar.state()
    assert state["kind"] == "error" and "no segmenter here" in state["message"]


def test_the_cursor_is_answered_with_an_outline(
    opened: Callable[[], OpenPage], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_objects(tmp_path)  # the right ball
    segmenter = NestedSegmenter()
    monkeypatch.setattr(object_tool, "segmenter_for", lambda device: segmenter)
    page = opened()
    marks, answers = page.page.marks, list[dict[str, Any]]()
    panel, _ = tool_of(page)
    assert marks.state()["follows"]
    marks.on_change(lambda: answers.append(marks.state()))

    def outline_at(place: tuple[float, float]) -> np.ndarray:
        answers.clear()
        marks.hover(*place)
        until(lambda: len(answers) == 1, "no answer")
        return np.array(answers[0]["outline"][:1]).reshape(-1, 2)

    right, left = outline_at(RIGHT), outline_at(LEFT)
    assert right[:, 0].min() > 0.5 and np.ptp(right, axis=0).min() > 0.15, "by its label"
    assert segmenter.looked == 1
    assert left[:, 0].max() < 0.5 and np.ptp(left, axis=0).min() > 0.15, "by the segmenter"
    outline_at(LEFT)
    assert segmenter.looked == 1, "the image is looked at once"
    assert not len(outline_at(OUTSIDE))
    page.page.place(Pose.of_camera(Camera.look_at((0.0, 5.0, 0.0), (0, 0, 0), fov_y=0.8)))
    assert outline_at(LEFT)[:, 0].max() < 0.5 and segmenter.looked == 1, "the right ball, from behind"
    panel._choose("off")
    assert not marks.state()["follows"]
    marks.hover(*LEFT)
    assert marks.state()["outline"] == []


def test_outlines_are_short_and_leave_out_specks() -> None:
    mask = np.zeros((300, 400), bool)
    mask[50:250, 100:300] = True
    mask[5:8, 5:8] = True
    assert np.allclose(
        sorted(object_preview.outline(mask)[0]),
        [
            (100.5 / 400, 50.5 / 300),
            (100.5 / 400, 249.5 / 300),
            (299.5 / 400, 50.5 / 300),
            (299.5 / 400, 249.5 / 300),
        ],
    )
    ragged = np.random.default_rng(0).random((300, 400)) > 0.45
    polygons = object_preview.outline(ragged)
    assert 0 < sum(map(len, polygons)) <= object_preview.MAX_CORNERS
    assert object_preview.outline(np.zeros((4, 4), bool)) == []
