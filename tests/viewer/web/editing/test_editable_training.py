"""Editing a training: while it is paused and when it has ended, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from page_driver import PausableTrainer, ball, ring, until
from shown import TrainingSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.scenes import load_primitives, save_scene
from luxel.viewer.edit import Document, operations
from luxel.viewer.edit.autosave import fingerprint
from luxel.viewer.measure.shared_measurements import SharedMeasurements
from luxel.viewer.web.app import OpenPage
from luxel.viewer.web.editing import SceneEditor
from luxel.viewer.web.editing.editable_training import EditableTraining
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.opening import open_session
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.edit_later import EditLaterPanel
from luxel.viewer.web.panels.objects import ObjectsPanel
from luxel.viewer.web.panels.show import ShowPanel
from luxel.viewer.web.run_end import RunEnd
from luxel.viewer.web.shell.messages import ActionMessage, PressMessage, ToolMessage

POSE = Pose.of_camera(Camera.look_at((3.5, 0, 0), (0, 0, 0), fov_y=0.9))
END = RunEnd("steps", 100, 100, 5.0, 250, "Gaussians")


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ViewerApp, OpenPage]]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "run").mkdir()
    session = TrainingSession(trainer := PausableTrainer(), ring(), "run", folder=tmp_path / "run")
    with trainer, ViewerApp(session, port=0) as app:
        yield app, open_offline_page(app, POSE)


def panel(opened: OpenPage, kind: type) -> Any:
    return next((each for each in opened.panels if type(each) is kind), None)


def delete_upper_half(opened: OpenPage) -> int:
    upper = ball().means[:, 2] > 0
    edit = panel(opened, EditPanel)
    edit.run(lambda document: document.select(upper, "replace", "Select"))
    edit.run(lambda document: document.apply(operations.delete(document.state)))
    return int(upper.sum())


def test_a_tool_waits_for_the_pause_that_its_button_makes(training: tuple[ViewerApp, OpenPage]) -> None:
    app, opened = training
    shell, bar = opened.shell, opened.page.toolbar
    hints = {tool["name"]: tool["hint"] for tool in bar.describe()["tools"]}
    assert hints["Lasso"] == "Pause or wait for the end to edit." and panel(opened, EditPanel) is None
    shell.receive(ToolMessage("Lasso"))
    shell.receive(ToolMessage("Brush"))
    assert bar.active == ("Brush",) and bar.state()["enabled"] == ["Pause and edit"]
    shell.receive(ToolMessage(""))
    assert bar.active == () and bar.state()["enabled"] == [], "Escape leaves it"
    shell.receive(ToolMessage("Brush"))
    shell.receive(PressMessage("Pause and edit"))
    assert app.session.paused and bar.active == ("Brush",)
    assert panel(opened, EditPanel)._chosen.value == "Brush" and panel(opened, EditLaterPanel) is None
    assert "objects" in panel(opened, ShowPanel)._output.options


def test_edits_of_a_pause_become_a_file_when_the_training_goes_on(
    training: tuple[ViewerApp, OpenPage], tmp_path: Path
) -> None:
    app, opened = training
    app.session.pause()
    opened.shell.receive(ToolMessage("Rectangle"))  # paused already: at once
    deleted, step = delete_upper_half(opened), app.session.trainer.step
    message = EditableTraining.of(app.session).message
    assert message.startswith(f"You edit a copy of step {step}. When the training goes on, it is saved")
    assert app.session.status()["count"] == 250 - deleted
    opened.shell.receive(ActionMessage("pause"))
    until(lambda: app.session.editable is None, "the training's own scene is not shown again")
    path = tmp_path / "run" / f"edited-step-{step}.ply"
    assert load_primitives(path).count == 250 - deleted
    assert EditableTraining.of(app.session).message == f"Your edits of step {step:,} are saved in {path.name}"
    assert opened.page.client.notifications[-1][0] == "Edits saved"
    assert app.session.status()["count"] == 250 and panel(opened, EditPanel) is None
    assert opened.page.toolbar.state()["selected"] == 0
    assert "objects" not in panel(opened, ShowPanel)._output.options


def test_what_was_only_selected_or_undone_becomes_no_file(
    training: tuple[ViewerApp, OpenPage], tmp_path: Path
) -> None:
    app, opened = training
    app.session.pause()
    opened.shell.receive(ToolMessage("Rectangle"))
    delete_upper_half(opened)
    opened.shell.receive(PressMessage("Undo"))
    app.session.resume()
    until(lambda: app.session.editable is None, "the training's own scene is not shown again")
    assert not list((tmp_path / "run").iterdir())


def test_edits_that_cannot_be_saved_stay_on_the_page(
    training: tuple[ViewerApp, OpenPage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, opened = training
    app.session.pause()
    opened.shell.receive(ToolMessage("Rectangle"))
    deleted = delete_upper_half(opened)

    def full(self: Document, path: Path, **_: Any) -> int:
        raise LuxelError("the disk is full.", "Free some space.")

    with monkeypatch.context() as failing:
        failing.setattr(Document, "save", full)
        app.session.resume()
        editing = EditableTraining.of(app.session)
        until(lambda: "could not be saved: the disk is full." in editing.message, "nothing is said")
        assert app.session.status()["count"] == 250 - deleted, "the edits are lost"
        with pytest.raises(LuxelError, match=r"could not be saved.*Free some space"):
            editing.close()
    editing.close()
    assert len(list((tmp_path / "run").glob("edited-step-*.ply"))) == 1 and app.session.editable is None


def test_nothing_is_edited_while_steps_are_done(
    training: tuple[ViewerApp, OpenPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, opened = training
    with pytest.raises(LuxelError, match=r"being trained.*Pause or wait"):
        EditableTraining.of(app.session).open()
    session = app.session
    with monkeypatch.context() as ending:
        status = session.trainer.status() | {"reason": "steps"}
        ending.setattr(session.trainer, "status", lambda: status)
        ending.setattr(session.trainer, "paused", True)
        with pytest.raises(LuxelError, match=r"result of the training is not there yet"):
            EditableTraining.of(session).open()
    never: Future[None] = Future()
    monkeypatch.setattr("luxel.viewer.web.editing.editable_training.PATIENCE", 0.01)
    monkeypatch.setattr(app.session.trainer, "between_steps", lambda action: never)
    app.session.pause()
    opened.shell.receive(ToolMessage("Lasso"))
    assert "step has not ended yet" in opened.page.toolbar.state()["message"]
    assert app.session.editable is None
    monkeypatch.setattr(EditableTraining, "_wait_for_the_step", lambda self: None)

    def no_memory(self: EditableTraining) -> Any:
        raise MemoryError

    monkeypatch.setattr(EditableTraining, "_copy", no_memory)
    with pytest.raises(LuxelError, match="no memory for a copy"):
        EditableTraining.of(app.session).open()


def test_the_end_makes_the_page_that_of_the_saved_scene(
    training: tuple[ViewerApp, OpenPage], tmp_path: Path
) -> None:
    app, opened = training
    session, messages = app.session, list[dict[str, Any]]()
    opened.shell.connect(messages.append)
    save_scene(tmp_path / "run" / "scene.ply", ball())
    app.session.trainer.done = True
    session.end(END)
    EditableTraining.of(session).open()
    assert {type(each) for each in opened.panels} >= {EditPanel, ObjectsPanel} and not session.trains
    offer = [m for m in messages if m["type"] == "offer"][-1]
    assert not offer["trains"] and "Undo" in [action["name"] for action in offer["toolbar"]["actions"]]
    viewed, held = open_session(tmp_path / "run", "cpu"), session.editable
    scenes = [SceneEditor.of(each).run(lambda document: document.state.scene) for each in (viewed, held)]
    assert fingerprint(scenes[0]) == fingerprint(scenes[1]), "luxel view has other edits"
    assert SharedMeasurements.of(held) is SharedMeasurements.of(session)
    deleted = delete_upper_half(opened)
    assert session.status()["count"] == 250 - deleted
    later = open_offline_page(app, POSE)
    assert panel(later, EditPanel) is not None, "a page that is opened now has not the same tools"
    EditableTraining.of(session).close()
    session.train_again(None)
    with pytest.raises(LuxelError, match="not there yet"):
        EditableTraining.of(session).open()
    assert panel(later, EditPanel) is None and panel(opened, EditPanel) is None
    assert len(list((tmp_path / "run").glob("edited-step-*.ply"))) == 1
