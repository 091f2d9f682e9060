"""The Objects panel without a browser: its list, its buttons, what is saved with the run, and exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from objects_of_balls import POSE, two_balls, with_objects
from page_driver import FakeTrainer, until
from shown import StaticSession, TrainingSession, ViewerApp

from luxel.render.segment.objects import FILE, load_objects, save_objects
from luxel.scenes import load_primitives
from luxel.viewer.edit import Document, run_objects
from luxel.viewer.edit import object_edits as edits
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.editing import editor as editing
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.edit import SAVED, EditPanel
from luxel.viewer.web.panels.enabling import is_disabled
from luxel.viewer.web.panels.objects import NONE, ObjectsPanel


@pytest.fixture
def open_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OpenPage]]:
    """Opens pages of the two balls, whose run has objects by these names; all of one app."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    apps: list[ViewerApp] = []

    def open_run(*names: str) -> OpenPage:
        if names:
            with_objects(tmp_path, None, *names)
        if not apps:
            session = StaticSession(two_balls(), folder=tmp_path)
            apps.append(ViewerApp(session, port=0, panels=(EditPanel, ObjectsPanel)))
            apps[-1].start()
        return open_offline_page(apps[-1], POSE)

    yield open_run
    for app in apps:
        app.stop()


def panel_of(opened: OpenPage) -> ObjectsPanel:
    return next(panel for panel in opened.panels if isinstance(panel, ObjectsPanel))


def left_ball(document: Document) -> bool:
    return document.select(torch.arange(400) < 200)


def test_the_panel_is_for_finished_scenes_of_primitives() -> None:
    assert ObjectsPanel.available(StaticSession(two_balls()))
    assert not ObjectsPanel.available(TrainingSession(FakeTrainer()))


def test_objects_are_listed_hidden_deleted_and_selected(open_run: Callable[..., OpenPage]) -> None:
    opened = open_run("green <b>", "red")
    panel, session = panel_of(opened), opened.page.session
    assert panel._chosen.options == ("green <b>", "red") and panel._chosen.value == "green <b>"
    text = panel._list.content
    assert "green &lt;b&gt;" in text and text.count("50.0 %") == 2 and "rgb(" in text
    panel.act(lambda d, o: d.apply(edits.delete_object(d.state, o)))
    assert session.status()["count"] == 200 and "deleted" in panel._list.content
    assert "100.0 %" in panel._list.content, "the share of what is left"
    panel.editor.run(Document.undo)
    panel.choose("red")
    panel.act(lambda d, o: d.apply(edits.solo_object(d.state, o)))
    assert panel.editor.run(lambda d: d.shown.nonzero()[:, 0].tolist()) == list(range(200))
    assert "hidden" in panel._list.content
    panel.act(lambda d, o: d.apply(edits.delete_object(d.state, 9)))
    assert "there is no such object" in panel.message.line.content
    edit = next(panel for panel in opened.panels if isinstance(panel, EditPanel))
    edit._mode.value = "add"
    panel.editor.run(Document.undo)
    panel.editor.run(lambda d: d.select(torch.arange(400) >= 390))
    panel.act(lambda d, o: edits.select_object(d, o, panel.page.selection_mode))
    assert panel.editor.run(lambda d: d.numbers["selected"]) == 210, "it joins the selection as the mode says"
    assert not panel.message.line.visible, "a success clears the message"


def test_buttons_that_have_nothing_to_act_on_are_disabled(open_run: Callable[..., OpenPage]) -> None:
    panel = panel_of(open_run())
    every = [*panel._need_object, *panel._need_selection, *panel._need_both, panel._everything]
    assert all(map(is_disabled, every))
    panel.editor.run(left_ball)
    assert [c for c in every if not is_disabled(c)] == panel._need_selection
    panel._add()
    assert [c for c in every if is_disabled(c)] == [panel._everything]
    panel.act(lambda d, o: d.apply(edits.hide_object(d.state, o)))
    assert not is_disabled(panel._everything)
    panel.editor.run(Document.select_none)
    assert all(map(is_disabled, panel._need_selection + panel._need_both))


def test_the_selection_becomes_an_object_of_the_run(
    open_run: Callable[..., OpenPage], tmp_path: Path
) -> None:
    first = open_run()
    second = open_run()
    panel, other = panel_of(first), panel_of(second)
    assert panel._chosen.options == (NONE,) and panel._chosen.disabled
    assert "No objects yet" in panel._list.content
    panel._add()
    assert "nothing is selected" in panel.message.line.content and not (tmp_path / FILE).exists()
    panel.editor.run(left_ball)
    panel._new.value = "red"
    panel._add()
    assert panel._chosen.options == other._chosen.options == ("red",), "all pages list it"
    assert (panel._name.value, panel._new.value) == ("red", "") and not panel.message.line.visible
    panel._name.value, panel._colour.value = "cherry", (200, 10, 30)
    other._name.value = "half typed"
    panel.act(lambda d, o: d.apply(edits.change_object(d.state, o, panel._name.value, panel._colour.value)))
    saved = load_objects(tmp_path)
    assert saved.fits(two_balls()) and saved.labels.tolist() == [1] * 200 + [0] * 200
    assert [(entry.name, entry.colour) for entry in saved.objects] == [("cherry", (200, 10, 30))]
    assert panel._chosen.value == other._chosen.value == "cherry"
    panel.editor.run(Document.undo)
    panel.editor.run(Document.undo)
    assert load_objects(tmp_path).objects == [] and panel._chosen.options == (NONE,)
    panel.editor.run(Document.redo)
    assert load_objects(tmp_path).labels.tolist() == [1] * 200 + [0] * 200


def test_an_object_that_is_selected_in_the_image_is_chosen(open_run: Callable[..., OpenPage]) -> None:
    panel = panel_of(open_run("green", "red"))
    assert panel._chosen.value == "green"
    panel._name.value = "a name that is being typed"
    panel.editor.run(lambda d: d.select(torch.arange(400) < 10))
    assert panel._chosen.value == "green" and panel._name.value == "a name that is being typed"
    panel.editor.run(left_ball)
    assert panel._chosen.value == "red" and panel._name.value == "red"


def test_an_object_and_everything_else_are_exported(
    open_run: Callable[..., OpenPage], tmp_path: Path
) -> None:
    opened = open_run("green / ball", "red")
    panel = panel_of(opened)
    own = panel.save(".ply")
    rest = panel.save(".ply", rest=True)
    assert (own.name, rest.name) == ("green-ball.ply", "without-green-ball.ply")
    again = panel.save(".ply")
    bar = next(bar for bar in opened.page.bars.state()["bars"] if bar["name"] == SAVED)
    assert again.name == "green-ball-2.ply" and bar["text"].endswith(", as green-ball.ply exists already")
    assert "green" in panel._filed.content and panel._filed.visible, "beside the button, too"
    assert torch.equal(load_primitives(own).centres, two_balls().centres[200:])
    assert torch.equal(load_primitives(rest).centres, two_balls().centres[:200])
    panel.download(".splat")
    name, content = opened.page.client.downloads[-1]
    assert name == "green-ball.splat" and len(content) == 32 * 200
    panel.act(lambda d, o: d.apply(edits.delete_object(d.state, o)))
    panel.message.guard(lambda: panel.save(".ply"))
    assert "no primitives are left to write" in panel.message.line.content
    panel.save(".ply", rest=True)
    panel._label = 9
    panel.message.guard(lambda: panel.save(".ply"))
    assert "there is no object to be exported" in panel.message.line.content


def test_objects_that_luxel_segment_writes_meanwhile_are_listed(
    open_run: Callable[..., OpenPage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editing, "LOOK_EVERY", 0.0)
    panel = panel_of(open_run("green"))
    panel.editor.run(left_ball)
    segmented = load_objects(tmp_path)
    segmented.add("new")
    save_objects(tmp_path, segmented)
    panel._add()
    assert "another program has changed it" in panel.message.line.content.replace("\\", "")

    def listed() -> bool:
        panel.report(StreamReport())
        return panel._chosen.options == ("green", "new")

    until(listed, "the list does not follow")
    panel._add()
    assert [entry.name for entry in load_objects(tmp_path).objects] == ["green", "new", "object-3"]


def test_own_changes_are_not_taken_for_those_of_another_program(
    open_run: Callable[..., OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = panel_of(open_run("green")).editor

    def slow_save(*arguments: Any, **options: Any) -> Path:
        path = save_objects(*arguments, **options)
        editor._looked_at = 0.0
        editor.follow_objects()  # a page asks after the file was written, and before that is noted
        assert editor._looking is not None and not editor._looking.done(), "it has not noticed the file"
        return path

    monkeypatch.setattr(run_objects, "save_objects", slow_save)
    editor.run(left_ball)
    editor.run(lambda d: d.apply(edits.include_selection(d.state, 1)))
    written = editor.objects
    assert editor._looking is not None
    editor._looking.result(20)
    assert editor.objects is written, "they were read again, as if another program had changed them"


def test_objects_of_another_scene_are_named_and_not_changed(
    open_run: Callable[..., OpenPage], tmp_path: Path
) -> None:
    other = two_balls()
    other.means += 1
    with_objects(tmp_path, other)
    panel = panel_of(open_run())
    assert "another state of its scene" in panel._list.content and "--kept" in panel._list.content
    before = (tmp_path / FILE).read_bytes()
    panel.editor.run(left_ball)
    panel._add()
    assert "another state of its scene" in panel.message.line.content
    assert (tmp_path / FILE).read_bytes() == before


def test_edits_of_objects_survive_a_crash(open_run: Callable[..., OpenPage], tmp_path: Path) -> None:
    panel = panel_of(open_run())
    panel.editor.run(left_ball)
    panel._add()
    panel.act(lambda d, o: d.apply(edits.delete_object(d.state, o)))
    panel.editor._autosave.result().close()
    session = StaticSession(two_balls(), folder=tmp_path)
    later = editing.SceneEditor.of(session)
    assert later.objects.named("object-1") is not None, "objects are those of the run at once"
    assert later.resume() == 3 and session.status()["count"] == 200
    for _ in range(3):
        later.run(Document.undo)
    assert later.objects.objects == [] and load_objects(tmp_path).objects == []
    assert later.run(Document.redo) and later.run(Document.redo)
    assert load_objects(tmp_path).labels.tolist() == [1] * 200 + [0] * 200
