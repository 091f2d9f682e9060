"""The Object tool: objects that the run has, and those that a segmenter finds from a click."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from objects_of_balls import LEFT, OUTSIDE, POSE, RIGHT, two_balls, with_objects
from page_driver import until
from shown import StaticSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.viewer.edit import Document
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.editing import object_tool
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.edit import EditPanel


class ColourSegmenter:
    """Takes as an object what has nearly the colour of the first point."""

    def __init__(self) -> None:
        self.looked = 0

    def embed(self, image: np.ndarray) -> Any:
        self.looked += 1
        return image

    def masks(self, embedding: Any, points: Any, box: Any = None) -> Any:
        x, y, _ = points[0]
        image = embedding.astype(float)
        same = (
            np.abs(image - image[min(int(y), len(image) - 1), min(int(x), image.shape[1] - 1)]).max(-1) < 60
        )
        mask = torch.from_numpy(np.stack([same] * 3))
        return mask, torch.where(mask, 5.0, -5.0), torch.tensor([0.9, 0.8, 0.7])


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
