"""The Edit panel without a browser: tools, buttons, files, pages that share a document, and earlier sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import FakeTrainer, ball, until
from shown import StaticSession, TrainingSession, ViewerApp, draw

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians4d, Parameters
from luxel.scenes import load_primitives
from luxel.viewer.edit import Document, operations
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.editing import TOOLS
from luxel.viewer.web.editing.stroke_messages import MAX_RADIUS, StrokePart
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.edit import EARLIER, OTHERS, SAVED, EditPanel, _checked
from luxel.viewer.web.panels.enabling import is_disabled
from luxel.viewer.web.shell.messages import SetMessage, ToolMessage
from luxel.viewer.web.shell.page_shell import PageShell

POSE = Pose.of_camera(Camera.look_at((4.0, 0.0, 0.0), (0, 0, 0), fov_y=0.8))


@pytest.fixture
def open_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OpenPage]]:
    """Opens pages of a scene at POSE; all of one app where the app is given."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    apps: list[ViewerApp] = []

    def open_at(scene: Any = None, app: ViewerApp | None = None, **options: Any) -> OpenPage:
        if app is None:
            session = StaticSession(ball() if scene is None else scene, folder=tmp_path)
            apps.append(ViewerApp(session, port=0, panels=(EditPanel,), **options))
            app = apps[-1]
            app.start()
        opened = open_offline_page(app, POSE)
        opened.app = app  # pyright: ignore[reportAttributeAccessIssue]
        return opened

    yield open_at
    for app in apps:
        app.stop()


def panel_of(opened: OpenPage) -> EditPanel:
    panel = opened.panels[0]
    assert isinstance(panel, EditPanel)
    return panel


def choose(panel: EditPanel, name: str) -> Any:
    """Starts a tool."""
    panel._choose(name)
    return panel._tool


def rectangle(panel: EditPanel, box: tuple[float, float, float, float], modifier: str | None = None) -> None:
    """Drags a rectangle, in shares of the image."""
    event = SimpleNamespace(screen_min=box[:2], screen_max=box[2:], modifier=modifier)
    choose(panel, "Rectangle")._selected(event)


def selected(panel: EditPanel) -> torch.Tensor:
    return panel.editor.run(lambda document: document.selected)


def test_panel_is_for_finished_scenes_of_primitives() -> None:
    assert EditPanel.available(StaticSession(ball()))
    assert not EditPanel.available(TrainingSession(FakeTrainer()))


def test_rectangle_selects_what_is_seen_or_all_through(open_at: Callable[..., OpenPage]) -> None:
    panel = panel_of(open_at())
    means = ball().means
    rectangle(panel, (0.0, 0.0, 1.0, 1.0))
    front = selected(panel)
    assert 0 < int(front.sum()) < 250 and float(means[front, 0].mean()) > 0.3, "the side of the camera"
    panel._through.value = True
    rectangle(panel, (0.0, 0.0, 1.0, 1.0))
    assert bool(selected(panel).all())
    rectangle(panel, (0.0, 0.0, 1.0, 0.5), "cmd/ctrl")
    upper = means[:, 2] > 0
    assert float((selected(panel) == ~upper).float().mean()) > 0.99
    rectangle(panel, (0.0, 0.0, 1.0, 0.5), "shift")
    assert bool(selected(panel).all())


def test_delete_undo_and_save_change_all_pages_and_no_other_bit(
    open_at: Callable[..., OpenPage], tmp_path: Path
) -> None:
    first = open_at()
    second = open_at(app=first.app)  # pyright: ignore[reportAttributeAccessIssue]
    panel, session = panel_of(first), first.page.session
    rectangle(panel, (0.0, 0.0, 1.0, 1.0))
    mask, version = selected(panel), session.version
    for each in (panel, panel_of(second)):
        assert f"{int(mask.sum())} Gaussians" in each._numbers.content
        assert each._undo.label == "Undo: Select rectangle" and not each._undo.disabled
    panel.run(lambda document: document.apply(operations.delete(document.state)))
    assert session.version == version + 1
    assert session.status()["count"] == int((~mask).sum())
    with session.borrow() as shown:
        scene = shown.parts[Parameters]
        assert float(scene.opacities[mask].max()) < 1e-9
        assert torch.equal(scene.opacities[~mask], ball().opacities[~mask])
    path = panel.save("edited.ply")
    for name, tensor in load_primitives(path).tensors().items():
        assert torch.equal(tensor, ball().tensors()[name][~mask]), name
    assert panel.save("edited.ply") == tmp_path / "edited-2.ply", "files are not replaced"
    panel_of(second).run(Document.undo)
    assert session.status()["count"] == 250 and panel._redo.label == "Redo: Delete"
    panel.download("part.ply", selection=True)
    name, content = first.page.client.downloads[-1]
    assert (
        name == "part.ply" and content.startswith(b"ply") and f"vertex {int(mask.sum())}".encode() in content
    )


def test_click_and_polygon(open_at: Callable[..., OpenPage]) -> None:
    opened = open_at()
    panel, page = panel_of(opened), opened.page
    choose(panel, "Click")
    page.click(0.4, 0.5)
    assert int(selected(panel).sum()) == 1 and float(ball().means[selected(panel)][0, 0]) > 0.5
    page.click(0.01, 0.01)
    assert "under the cursor" in panel._message.content and int(selected(panel).sum()) == 1
    choose(panel, "Click")._radius.value = 10.0
    page.click(0.5, 0.5)
    assert int(selected(panel).sum()) > 1 and not panel._message.visible
    panel._through.value = True
    polygon = choose(panel, "Polygon")
    corners = ((0.0, 0.0), (1.0, 0.0), (1.0, 0.5), (0.0, 0.5))
    polygon.receive(StrokePart(1, corners, 0.0, None, True))
    upper = ball().means[:, 2] > 0
    assert float((selected(panel) == upper).float().mean()) > 0.99
    assert panel._undo.label == "Undo: Select polygon"
    polygon.receive(StrokePart(2, corners[:2], 0.0, None, True))
    assert "outline is too short" in panel._message.content
    choose(panel, "off")
    page.click(0.5, 0.5)
    assert not page._clicks


def test_every_tool_starts_and_stops_on_every_primitive(
    open_at: Callable[..., OpenPage], any_scene: Parameters, draw_any: Callable[..., Any]
) -> None:
    panel = panel_of(open_at(any_scene, render=draw_any))
    for tool in TOOLS:
        started = choose(panel, tool.name)
        assert started is not None and not panel._message.visible, panel._message.content
    for name in ("Sphere", "Box", "Plane"):
        panel.run(Document.select_none)
        tool = choose(panel, name)
        tool._gizmo.position = (2.0, 2.0, 2.0)
        tool.select()
        assert 0 < int(selected(panel).sum()) < any_scene.count, name
    tool = choose(panel, "Range")
    for kind in ("opacity", "size", "colour"):
        panel.run(Document.select_none)
        tool._property.value = kind
        tool._opacity.value, tool._distance.value = (0.5, 1.0), 1.0
        tool.workspace.select(tool._region(), kind)
        assert 0 < int(selected(panel).sum()) < any_scene.count, kind


def test_controls_are_there_where_they_have_an_effect(open_at: Callable[..., OpenPage]) -> None:
    panel = panel_of(open_at())
    for name, effect in (
        ("Rectangle", True),
        ("Brush", True),
        ("Sphere", False),
        ("Lasso", True),
        ("off", False),
    ):
        choose(panel, name)
        assert panel._through.visible == effect, name
    assert panel._needing and all(map(is_disabled, panel._needing)) and panel._show_all.disabled
    assert choose(panel, "Transform")._resize.disabled
    panel.run(Document.select_all)
    assert not any(map(is_disabled, panel._needing)) and not panel._tool._resize.disabled
    panel.run(lambda document: document.apply(operations.hide(document.state)))
    assert not panel._show_all.disabled
    panel.run(lambda document: document.apply(operations.show_all(document.state)))
    assert panel._show_all.disabled


def test_colours_of_the_selection_are_changed_with_any_tool(open_at: Callable[..., OpenPage]) -> None:
    panel = panel_of(open_at())
    panel.run(Document.select_all)
    gui = panel.page.client.gui
    handles = {getattr(h, "label", ""): h for h in gui._gui_input_handle_from_uuid.values()}
    handles["Brightness"].value, handles["Opacity factor"].value = 0.2, 0.5
    before = panel.editor.run(lambda document: document.state.scene)
    for button in ("Apply colour", "Apply opacity"):
        for callback in handles[button]._impl.update_cb:
            callback(SimpleNamespace(target=handles[button]))
    after = panel.editor.run(lambda document: document.state.scene)
    torch.testing.assert_close(after.base_colours, before.base_colours + 0.2)
    torch.testing.assert_close(after.opacities, 0.5 * before.opacities)


def test_gizmo_previews_and_then_moves_the_selection(open_at: Callable[..., OpenPage]) -> None:
    opened = open_at()
    panel, session = panel_of(opened), opened.page.session
    panel.run(Document.select_all)
    tool = choose(panel, "Transform")
    gizmo = tool._gizmo
    assert gizmo.visible
    np.testing.assert_allclose(gizmo.position, ball().means.median(0).values, atol=1e-6)
    gizmo.position = np.asarray(gizmo.position) + np.array([0.0, 0.5, 0.0])
    moved = ball().means + torch.tensor([0.0, 0.5, 0.0])
    for phase in ("start", "update"):
        tool._dragged(SimpleNamespace(target=gizmo, phase=phase))
    with session.borrow() as shown:
        scene = shown.parts[Parameters]
        torch.testing.assert_close(scene.means, moved)
    assert panel._undo.label == "Undo: Select all", "a preview is no edit"
    tool._dragged(SimpleNamespace(target=gizmo, phase="end"))
    assert panel._undo.label == "Undo: Move"
    torch.testing.assert_close(panel.editor.run(lambda document: document.remaining()).centres, moved)
    np.testing.assert_allclose(gizmo.position, moved.median(0).values, atol=1e-6)
    panel.run(Document.select_none)
    assert not gizmo.visible
    panel.run(lambda document: document.apply(operations.recolour(document.state, brightness=1)))
    assert "nothing is selected" in panel._message.content


def test_handle_scales_the_selection_about_its_middle(open_at: Callable[..., OpenPage]) -> None:
    opened = open_at()
    panel = panel_of(opened)
    panel.run(Document.select_all)
    tool = choose(panel, "Transform")
    handle, middle = tool._handle, np.asarray(tool._gizmo.position)
    handle.position = middle + 2 * (np.asarray(handle.position) - middle)
    tool._scaled(SimpleNamespace(target=handle, phase="update"))
    assert panel._undo.label == "Undo: Select all", "a preview is no edit"
    tool._scaled(SimpleNamespace(target=handle, phase="end"))
    assert panel._undo.label == "Undo: Scale by 2"
    kept = panel.editor.run(lambda document: document.remaining())
    middle = torch.from_numpy(middle).float()
    torch.testing.assert_close(kept.centres, middle + 2 * (ball().means - middle))
    torch.testing.assert_close(kept.sizes, 2 * ball().sizes)
    handle.position = middle.numpy() - 10
    tool._scaled(SimpleNamespace(target=handle, phase="end"))
    assert panel._undo.label == "Undo: Scale by 0.01", "never to nothing"


def test_edits_of_an_earlier_session_are_offered(open_at: Callable[..., OpenPage]) -> None:
    before = panel_of(open_at())
    before.run(Document.select_all)
    before.run(lambda document: document.apply(operations.hide(document.state)))
    before.editor._autosave.result().close()  # its process ends
    after = panel_of(open_at())
    until(lambda: after._resume.visible, "nothing is offered")
    assert after._resume.label == "Restore 2 edits"
    after.guard(after.editor.resume)
    assert "Hidden" in after._numbers.content and after._undo.label == "Undo: Hide"
    assert not after._resume.visible


def bars_of(opened: OpenPage) -> dict[str, dict[str, Any]]:
    return {bar["name"]: bar for bar in opened.page.bars.state()["bars"]}


def with_earlier_edits(open_at: Callable[..., OpenPage]) -> tuple[OpenPage, OpenPage]:
    """Two pages of a scene that an earlier session has edited twice."""
    before = panel_of(open_at())
    before.run(Document.select_all)
    before.run(lambda document: document.apply(operations.hide(document.state)))
    before.editor._autosave.result().close()
    first = open_at()
    second = open_at(app=first.app)  # pyright: ignore[reportAttributeAccessIssue]
    until(lambda: EARLIER in bars_of(first) and EARLIER in bars_of(second), "no bar")
    return first, second


def test_a_bar_on_the_image_restores_earlier_edits(open_at: Callable[..., OpenPage]) -> None:
    first, second = with_earlier_edits(open_at)
    bar = bars_of(first)[EARLIER]
    assert bar["text"].startswith("2 edits of today, ") and bar["buttons"] == ["Restore", "Discard"]
    first.page.bars.press(EARLIER, 0, "Restore")
    assert panel_of(second)._undo.label == "Undo: Hide"
    assert EARLIER not in bars_of(first) and EARLIER not in bars_of(second)
    second.page.bars.press(EARLIER, 0, "Restore")
    panel_of(second).restore()
    assert "has edits already" in panel_of(second)._message.content and len(history(second)) == 2


def history(opened: OpenPage) -> list[str]:
    return panel_of(opened).editor.run(lambda document: list(document.history.undo_titles))


def test_discarding_earlier_edits_asks_once_and_is_taken_back(open_at: Callable[..., OpenPage]) -> None:
    first, second = with_earlier_edits(open_at)
    first.page.bars.press(EARLIER, 1, "Discard")
    bar = bars_of(first)[EARLIER]
    assert bar["text"].startswith("Discard these 2 edits?") and bar["buttons"] == [
        "Discard them",
        "Keep them",
    ]
    first.page.bars.press(EARLIER, 1, "Keep them")
    assert bars_of(first)[EARLIER]["buttons"] == ["Restore", "Discard"]
    first.page.bars.press(EARLIER, 1, "Discard")
    first.page.bars.press(EARLIER, 0, "Discard them")
    assert EARLIER not in bars_of(second) and not history(first)
    assert panel_of(second)._resume.label == "Restore 2 discarded edits" and panel_of(second)._resume.visible
    third = open_at(app=first.app)  # pyright: ignore[reportAttributeAccessIssue]
    until(lambda: panel_of(third)._resume.visible, "the panel does not offer them")
    assert EARLIER not in bars_of(third), "they are not offered on the image again"
    assert bars_of(first)[EARLIER]["buttons"] == ["Bring back"]
    first.page.bars.press(EARLIER, 0, "Bring back")
    assert history(second) == ["Select all", "Hide"] and EARLIER not in bars_of(first)


def test_an_edit_ends_the_offer_and_loses_nothing(open_at: Callable[..., OpenPage], tmp_path: Path) -> None:
    first, second = with_earlier_edits(open_at)
    panel_of(first).run(Document.select_all)
    assert EARLIER not in bars_of(first) and EARLIER not in bars_of(second)
    panel_of(first).editor._autosave.result().flush()
    assert len(list((tmp_path / "cache").rglob("*.previous/edits.json"))) == 1


def test_a_page_says_that_another_one_edits_and_shows_its_selection_in_another_colour(
    open_at: Callable[..., OpenPage],
) -> None:
    first = open_at()
    panel_of(first).run(Document.select_all)
    second = open_at(app=first.app)  # pyright: ignore[reportAttributeAccessIssue]
    assert "Another page is editing this scene" in bars_of(second)[OTHERS]["text"]
    assert OTHERS not in bars_of(first)
    shell = PageShell(second.page, second.panels)
    assert shell._page.toolbar.state()["beside"] and not first.page.toolbar.state()["beside"]
    assert first.page.stream.settings.foreign_marks is False

    def colour(opened: OpenPage) -> np.ndarray:
        with opened.page.session.borrow() as scene:
            image, _ = draw(None, scene, POSE.camera(64, 48), opened.page.stream.settings)
        return image.numpy().astype(float).mean((0, 1))

    red, _, blue = colour(first)
    other_red, _, other_blue = colour(second)
    assert red > blue + 20 and other_blue > other_red + 20
    panel_of(second).run(Document.invert)
    panel_of(second).run(Document.invert)
    assert not second.page.toolbar.state()["beside"] and first.page.toolbar.state()["beside"]
    assert OTHERS in bars_of(first)
    first.page.bars.press(OTHERS, "close")
    panel_of(second).run(Document.undo)
    assert OTHERS not in bars_of(first), "it is said once"
    first.app._close(second.page.client)  # pyright: ignore[reportAttributeAccessIssue]
    assert not first.page.toolbar.state()["beside"], "a page that is gone is no other page"


def test_a_second_save_says_the_name_it_got(open_at: Callable[..., OpenPage], tmp_path: Path) -> None:
    opened = open_at()
    panel = panel_of(opened)
    panel.save("edited.ply")
    assert bars_of(opened)[SAVED]["text"] == f"Saved 250 Gaussians in {tmp_path / 'edited.ply'}"
    panel.save("edited.ply")
    text = bars_of(opened)[SAVED]["text"]
    assert text == f"Saved 250 Gaussians in {tmp_path / 'edited-2.ply'}, as edited.ply exists already"
    assert "edited" in panel._filed.content and panel._filed.visible, "beside the button, too"


def test_tools_keep_their_radii_and_ranges(open_at: Callable[..., OpenPage]) -> None:
    opened = open_at()
    panel, shell = panel_of(opened), PageShell(opened.page, opened.panels)
    values = shell.values()
    assert {
        *("Edit/Selection", "Edit/Through", "Edit/Click/Radius", "Edit/Brush/Brush radius"),
        *("Edit/Sphere/Radius", "Edit/Box/Size", "Edit/Range/Property", "Edit/Range/Opacity"),
        *("Edit/Range/Size", "Edit/Range/Colour", "Edit/Range/Distance", "Edit/File name", "Edit/Format"),
    } <= set(values)
    for name, value in (
        ("Edit/Click/Radius", 7.5),
        ("Edit/Brush/Brush radius", 1e9),
        ("Edit/Range/Property", "size"),
        ("Edit/Range/Size", [10, 20]),
        ("Edit/Box/Size", [1.0, 2.0, "x"]),
        ("Edit/Selection", "add"),
    ):
        shell.receive(SetMessage(name, value))
    after = shell.values()
    assert after["Edit/Click/Radius"] == 7.5 and after["Edit/Brush/Brush radius"] == MAX_RADIUS
    assert after["Edit/Range/Size"] == [10, 20] and after["Edit/Box/Size"] == values["Edit/Box/Size"]
    until(lambda: opened.page.selection_mode == "add", "the mode is not that of the page")
    controls = panel._tools["Range"].controls
    assert not any(control.visible for control in controls), "controls of a tool that is not active"
    shell.receive(ToolMessage("Range", True))
    until(lambda: panel._tool is panel._tools["Range"], "the tool did not start")
    assert panel._tools["Range"]._size.visible and not panel._tools["Range"]._opacity.visible
    shell.receive(ToolMessage("Range", True))
    shell.receive(ToolMessage("no such tool", True))
    assert opened.page.toolbar.active == ("Range",), "it stays where it is active"


def test_a_scene_that_is_replaced_begins_a_new_document(open_at: Callable[..., OpenPage]) -> None:
    opened = open_at()
    panel = panel_of(opened)
    panel.run(Document.select_all)
    session = opened.page.session
    assert isinstance(session, StaticSession)
    session.show(ball(40))
    panel.refresh()
    assert "40" in panel._numbers.content and panel._undo.disabled
    assert session.status()["count"] == 40


def test_screen_selection_of_a_dynamic_scene_is_of_the_time_shown(
    open_at: Callable[..., OpenPage], carousel: Callable[..., Gaussians4d], draw_any: Callable[..., Any]
) -> None:
    opened = open_at(carousel(), render=draw_any)
    panel = panel_of(opened)
    panel._through.value = True
    masks = []
    for time in (0.0, 1.0):
        opened.page.seek(time)
        rectangle(panel, (0.0, 0.0, 1.0, 1.0))
        masks.append(selected(panel))
    assert bool(masks[0].any()) and bool(masks[1].any()) and not torch.equal(*masks)


def test_names_that_are_no_file_names_are_refused() -> None:
    assert _checked("edited-2.v1") == "edited-2.v1"
    for name in ("", "../scene", "a/b", ".hidden", "a" * 101, "a\nb"):
        with pytest.raises(Exception, match="is not a name"):
            _checked(name)
