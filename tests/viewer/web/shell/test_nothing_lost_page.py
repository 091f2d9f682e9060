"""What outlasts a reload in a real browser: keyframes, tools and their options, edits of an earlier session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from page_driver import at_rest, ball, cut, newest_client, ring, screenshot, until
from shown import StaticSession, ViewerApp

from luxel.viewer.edit import Document, operations
from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.camera_path import CameraPathPanel
from luxel.viewer.web.panels.edit import EditPanel


def panel_of(app: ViewerApp, kind: Any) -> Any:
    return next(p for p in app._pages[newest_client(app).client_id].panels if isinstance(p, kind))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    return tmp_path


@pytest.mark.slow
def test_a_reload_keeps_keyframes_tool_and_options(open_page: Callable[..., Any], folder: Path) -> None:
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=folder), port=0) as app:
        page = open_page(app, width=1100, height=700)
        client, bar = newest_client(app), page.get_by_role("toolbar", name="Tools")
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        at_rest(app, client)
        path, edit = panel_of(app, CameraPathPanel), panel_of(app, EditPanel)
        for view in ring()[:2]:
            path.page.place(Pose.of_camera(view.camera))
            path.add()
        path._seconds.value, path._loop.value = 6.5, True
        path._set_path()
        page.keyboard.press("b")
        until(lambda: edit._tool is edit._tools["Brush"], "the key chose no tool")
        edit._tools["Brush"]._radius.value = 77
        edit._mode.value, edit._through.value = "add", True
        edit._tools["Range"]._property.value = "size"
        edit._tools["Range"]._size.value = (20, 40)
        stored = "JSON.stringify({...sessionStorage})"
        until(lambda: "[20,40]" in page.evaluate(stored) and "Brush" in page.evaluate(stored), "not stored")
        page.reload()
        page.locator("#luxel-strokes").wait_for(timeout=60_000)
        until(lambda: app.pages == 1 and newest_client(app) is not client, "the page did not come back")
        path, edit = panel_of(app, CameraPathPanel), panel_of(app, EditPanel)
        assert len(path._keyframes) == 2 and path._seconds.value == 6.5 and path._loop.value
        until(lambda: edit._tool is edit._tools["Brush"], "the tool was lost")
        assert bar.get_by_role("button", name="Brush (B)").get_attribute("aria-pressed") == "true"
        until(lambda: edit._tools["Brush"]._radius.value == 77, "the radius was lost")
        until(lambda: edit._mode.value == "add" and edit._through.value, "how to select was lost")
        assert edit.page.selection_mode == "add"
        assert tuple(edit._tools["Range"]._size.value) == (20, 40)
        page.keyboard.press("Escape")
        until(lambda: edit._tool is None, "the tool stays")
        until(lambda: 'tools\\":[]' in page.evaluate(stored), "a tool that was left is still stored")
        page.screenshot(path=folder / "kept.png")
        assert not errors


def edited_before(folder: Path) -> None:
    """An earlier session that has edited the ball twice."""
    session = StaticSession(ball(), ring(), "ball", folder=folder)  # which the editor does not keep
    editor = SceneEditor(session)
    editor.run(Document.select_all)
    editor.run(lambda document: document.apply(operations.hide(document.state)))
    editor._autosave.result().close()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_a_bar_on_the_image_restores_the_edits_of_before(
    open_page: Callable[..., Any], folder: Path, size: tuple[int, int]
) -> None:
    edited_before(folder)
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=folder), port=0) as app:
        page = open_page(app, width=size[0], height=size[1])
        bar = page.get_by_role("region", name="Notices on the image")
        bar.get_by_text("2 edits of today").wait_for(timeout=60_000)
        at_rest(app, newest_client(app))
        page.screenshot(path=folder / "offered.png")
        box, tools = bar.bounding_box(), page.locator(".luxel-toolbar").bounding_box()
        below = page.locator(".luxel-buttons").bounding_box()
        assert (
            box["x"] >= 0 and box["x"] + box["width"] <= size[0] and box["y"] >= below["y"] + below["height"]
        )
        apart = box["x"] >= tools["x"] + tools["width"] or box["y"] + box["height"] <= tools["y"]
        assert apart, "it covers the tools"
        if size[0] < 576:
            for button in bar.get_by_role("button").all():
                assert min(button.bounding_box()["height"], button.bounding_box()["width"]) >= 40
        bar.get_by_role("button", name="Discard", exact=True).click()
        bar.get_by_text("Discard these 2 edits?").wait_for()
        bar.get_by_role("button", name="Discard them").press("Enter")
        bar.get_by_text("2 edits discarded.").wait_for()
        bar.get_by_role("button", name="Bring back").press("Enter")
        panel = panel_of(app, EditPanel)
        until(lambda: panel._undo.label == "Undo: Hide", "the edits are not restored")
        bar.wait_for(state="hidden")


@pytest.mark.slow
def test_another_page_is_named_until_it_is_closed(open_page: Callable[..., Any], folder: Path) -> None:
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=folder), port=0) as app:
        first = open_page(app, width=900, height=600)
        at_rest(app, newest_client(app))
        second = open_page(app, width=900, height=600)
        at_rest(app, newest_client(app))
        second.keyboard.press("Control+a")
        bar = first.get_by_role("region", name="Notices on the image")
        bar.get_by_text("Another page is editing this scene").wait_for()
        first.get_by_text("250 Gaussians selected by another page").wait_for()
        tools, box = first.locator(".luxel-toolbar").bounding_box(), bar.bounding_box()
        assert box["x"] >= tools["x"] + tools["width"], "it covers the second column of the tools"

        def blueness(page: Any) -> float:
            red, _, blue = cut(screenshot(page)).mean((0, 1))
            return float(blue - red)

        until(lambda: blueness(first) > blueness(second) + 60, "both pages show the selection in one colour")
        first.screenshot(path=folder / "beside.png")
        second.screenshot(path=folder / "own.png")
        assert second.get_by_text("Another page").count() == 0
        second.close()
        bar.wait_for(state="hidden")
        first.get_by_text("250 Gaussians selected", exact=True).wait_for()
