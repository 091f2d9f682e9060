"""The toolbar and the line between compared images, without a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from page_driver import ball, ring, until
from shown import StaticSession, ViewerApp

from luxel.render.geometry.camera import Camera
from luxel.viewer.edit import operations
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.divider import Divider
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.compare import PATIENCE, ComparePanel
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.inspect import InspectPanel
from luxel.viewer.web.shell.messages import DivideMessage, PressMessage, ToolMessage
from luxel.viewer.web.shell.page_shell import PageShell
from luxel.viewer.web.toolbar import Toolbar, ToolbarAction, ToolbarTool

POSE = Pose.of_camera(Camera.look_at((3.5, 0, 0), (0, 0, 0), fov_y=0.9))


def bar_of(*names: str, beside: str = "") -> Toolbar:
    """A toolbar whose tools do nothing; the one ``beside`` may be active with others."""
    bar = Toolbar()
    for name in names:
        start, stop = (lambda n=name: bar.entered(n)), (lambda n=name: bar.left(n))
        bar.add_tool(
            ToolbarTool(name, name, "click", name[0], f"do {name}", start, stop, alone=name != beside)
        )
    return bar


def test_one_tool_is_active_and_one_may_be_beside_it() -> None:
    bar = bar_of("lasso", "brush", "compare", beside="compare")
    bar.choose("lasso")
    bar.choose("brush")
    assert bar.active == ("brush",)
    bar.choose("compare")
    bar.choose("lasso")
    assert set(bar.active) == {"compare", "lasso"} and bar.active[-1] == "lasso"
    bar.choose("")
    assert bar.active == ("compare",), "an empty name leaves the last one"
    bar.choose("compare")
    assert bar.active == ()
    bar.choose("")
    bar.choose("no such tool")
    bar.left("lasso")
    assert bar.active == ()


def test_actions_run_only_while_what_they_need_is_there() -> None:
    bar, done = Toolbar(), list[str]()
    bar.add_action(ToolbarAction("Delete", "Delete", "Delete", lambda: done.append("delete"), "selected"))
    bar.add_action(ToolbarAction("Help", "Help", "", lambda: done.append("help")))
    bar.run("Delete")
    bar.run("Help")
    bar.run("no such action")
    assert done == ["help"] and bar.state()["enabled"] == ["Help"]
    bar.update(selected=3)
    bar.run("Delete")
    assert done == ["help", "delete"] and bar.state()["selected"] == 3


def test_pages_are_told_of_changes_alone_and_a_new_tool_ends_what_was_said() -> None:
    bar, states = bar_of("lasso", "brush"), list[dict[str, Any]]()
    bar.on_change(lambda: states.append(json.loads(json.dumps(bar.state()))))
    bar.say("no", "error")
    bar.say("no", "error")
    bar.update(selected=1)
    bar.update(selected=1)
    assert [state["kind"] for state in states] == ["error", "error"]
    bar.choose("brush")
    assert states[-1]["message"] == "" and states[-1]["active"] == ["brush"]
    bar.on_change(lambda: 1 / 0)  # a page that is gone
    bar.say("yes")
    assert bar.state()["message"] == "yes"


def test_the_line_belongs_to_the_panel_that_showed_it_last() -> None:
    divider, sent, moved = Divider(), list[dict[str, Any]](), list[float]()
    divider.on_change(lambda: sent.append(divider.state()))
    divider.show("first", moved.append, value=0.5, left="a", right="b", span=(0.25, 0.75))
    divider.show("first", moved.append, value=0.5, left="a", right="b", span=(0.25, 0.75))
    assert sent == [{"shown": True, "value": 0.5, "left": "a", "right": "b", "span": [0.25, 0.75]}]
    divider.move(0.3)
    assert moved == [0.3] and len(sent) == 2, "a move is answered where nothing changes, too"
    divider.show("second", lambda value: None, value=0.5, left="c", right="d")
    divider.hide("first")
    assert divider.state()["shown"]
    divider.hide("second")
    assert sent[-1] == {"shown": False}


@pytest.fixture
def opened(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPage]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ViewerApp(StaticSession(ball(), ring(), "ball", folder=tmp_path), port=0) as app:
        yield open_offline_page(app, POSE)


def test_tools_of_panels_exclude_each_other_and_the_panels_follow(opened: OpenPage) -> None:
    shell, page = PageShell(opened.page, opened.panels), opened.page
    edit = next(panel for panel in opened.panels if isinstance(panel, EditPanel))
    inspect = next(panel for panel in opened.panels if isinstance(panel, InspectPanel))
    shell.receive(ToolMessage("Click"))
    assert edit._chosen.value == "Click" and page.toolbar.active == ("Click",)
    shell.receive(ToolMessage("Inspect"))
    assert inspect._switch.value and edit._chosen.value == "off" and edit._tool is None
    edit._chosen.value = "Rectangle"  # as if it were chosen in the panel
    assert page.toolbar.active == ("Rectangle",) and not inspect._switch.value
    shell.receive(ToolMessage(""))
    assert page.toolbar.active == () and edit._chosen.value == "off" and not page.clickable


def test_selection_is_counted_on_the_image_and_acted_on(opened: OpenPage) -> None:
    shell, page, sent = PageShell(opened.page, opened.panels), opened.page, list[dict[str, Any]]()
    shell.connect(sent.append)
    assert [m["type"] for m in sent[:3]] == ["hello", "toolbar", "divider"]
    tools = {tool["name"]: tool for tool in sent[0]["toolbar"]["tools"]}
    keys = [tool["key"] for tool in tools.values()]
    assert {"Lasso", "Object", "Compare", "Inspect"} <= set(tools) and len(set(keys)) == len(keys)
    assert not set(keys) & set("wasdqefhu"), "these keys move the camera, or are the page's"
    actions = {action["name"]: action for action in sent[0]["toolbar"]["actions"]}
    assert tools["Lasso"]["key"] == "l" and actions["Hide"]["key"] == "Shift+H"
    edit = next(panel for panel in opened.panels if isinstance(panel, EditPanel))
    shell.receive(PressMessage("Delete"))
    assert edit.editor.run(lambda document: document.numbers)["kept"] == 250, "nothing was selected"
    edit.run(lambda document: document.select(ball().means[:, 2] > 0, "replace", "Select"))
    count = int((ball().means[:, 2] > 0).sum())
    toolbar = [m for m in sent if m["type"] == "toolbar"][-1]
    assert toolbar["selected"] == count and toolbar["noun"] == "Gaussians" and toolbar["undo"] == "Select"
    shell.receive(PressMessage("Export"))
    assert page.client.downloads[-1][0] == "selection.ply"
    assert page.toolbar.state()["message"] == "Downloaded selection.ply"
    shell.receive(PressMessage("Solo"))
    assert edit.editor.run(lambda document: document.numbers) == {
        "kept": 250,
        "hidden": 250 - count,
        "selected": count,
    }
    shell.receive(PressMessage("Show all"))
    shell.receive(PressMessage("Delete"))
    assert edit.editor.run(lambda document: document.numbers)["kept"] == 250 - count
    shell.receive(PressMessage("Undo"))
    assert edit.editor.run(lambda document: document.numbers)["kept"] == 250
    edit.run(lambda document: document.select_none())
    edit.run(lambda document: document.apply(operations.delete(document.state)))
    assert page.toolbar.state()["kind"] == "error" and "selected" in page.toolbar.state()["message"]


def test_a_region_is_selected_and_cropped_from_the_line_on_the_image(opened: OpenPage) -> None:
    shell, page = PageShell(opened.page, opened.panels), opened.page
    edit = next(panel for panel in opened.panels if isinstance(panel, EditPanel))
    folders = {tool["name"]: tool["folder"] for tool in page.toolbar.describe()["tools"]}
    assert folders["Box"] == "Edit" and folders["Compare"] == "Compare" and folders["Inspect"] == ""
    shell.receive(ToolMessage("Lasso"))
    assert "Select" not in page.toolbar.state()["enabled"], "a lasso selects by itself"
    for name in ("Range", "Plane"):
        shell.receive(ToolMessage(name))
        if name == "Range":
            edit._tools[name]._opacity.value = (0.0, 1.0)
        shell.receive(PressMessage("Select"))
        selected = edit.editor.run(lambda document: document.numbers)["selected"]
        assert (selected == 250) if name == "Range" else (0 < selected < 250)
    shell.receive(PressMessage("Crop"))
    assert edit.editor.run(lambda document: document.numbers)["kept"] == selected
    shell.receive(ToolMessage("Plane"))
    assert "Select" not in page.toolbar.state()["enabled"]


def test_the_line_of_compare_is_moved_on_the_image(opened: OpenPage) -> None:
    shell, page = PageShell(opened.page, opened.panels), opened.page
    compare = next(panel for panel in opened.panels if isinstance(panel, ComparePanel))
    shell.receive(ToolMessage("Compare"))
    until(lambda: bool(compare._comparer.name), "the camera is at no view")
    compare.report(StreamReport(caption=f"{compare._comparer.name}: PSNR 20.00 dB"))
    line = page.divider.state()
    assert line["shown"] and line["left"] == "Photograph" and line["value"] == 0.5
    first, last = line["span"]  # a square photograph in an image of 4 to 3
    assert first == pytest.approx(0.125) and last == pytest.approx(0.875)
    assert "PSNR 20.00 dB" in page.toolbar.state()["message"]
    shell.receive(DivideMessage(0.25))
    assert compare._split.value == 25.0 and page.divider.state()["value"] == 0.25
    assert compare._split.visible and not compare._scale.visible
    compare._choose_mode("|difference|")
    assert not page.divider.state()["shown"]
    assert compare._scale.visible and not compare._split.visible, "each where it has an effect"
    compare._choose_mode("photograph | render")
    page.place(POSE)
    until(lambda: not compare._comparer.name, "the camera is still at the view")
    for _ in range(PATIENCE):
        compare.report(StreamReport())
    state = page.toolbar.state()
    assert "stands at no photograph: photo_0<b>.png is turned by" in state["message"]
    assert "To the photograph" in state["enabled"] and not page.divider.state()["shown"]
    shell.receive(PressMessage("To the photograph"))
    until(lambda: bool(compare._comparer.name), "the camera did not go back")
    shell.receive(ToolMessage("Compare"))
    assert page.toolbar.active == () and not page.divider.state()["shown"]


def test_a_page_that_was_loaded_again_has_its_tools_where_its_camera_is(opened: OpenPage) -> None:
    shell, page = PageShell(opened.page, opened.panels), opened.page
    compare = next(panel for panel in opened.panels if isinstance(panel, ComparePanel))
    away = Pose.of_camera(Camera.look_at((0.0, 0.0, 5.0), (0, 0, 0), (0, 1, 0)))
    page.place(away)
    for _ in range(2):
        shell.receive(ToolMessage("Compare", True))
    until(lambda: bool(compare._on.value), "it is not switched on")
    assert page.toolbar.active == ("Compare",)
    assert page.pose().position.tolist() == pytest.approx(away.position.tolist()), "the camera has moved"
    shell.receive(ToolMessage("Compare"))
    until(lambda: not compare._on.value, "it is not switched off")
    shell.receive(ToolMessage("Compare"))
    until(lambda: bool(compare._comparer.name) or page.pose().position[2] < 4, "by hand it goes to a view")


def test_a_tool_says_how_it_is_resumed() -> None:
    bar, done = Toolbar(), list[str]()
    for name, resume in (("a", lambda: done.append("resumed")), ("b", None)):
        tool = ToolbarTool(
            name, name, "click", name, "do", lambda: done.append("started"), list, resume=resume
        )
        bar.add_tool(tool)
        bar.resume(name)
    bar.resume("c")
    assert done == ["resumed", "started"]
