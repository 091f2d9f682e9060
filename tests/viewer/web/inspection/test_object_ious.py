"""IoU of objects with true solids in the page: of the compared view while labels change, and of the held-out views."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_controls import Controls
from page_driver import ball, ring, until
from PIL import Image
from shown import StaticSession, ViewerApp

from luxel.render.geometry.camera import View
from luxel.render.segment.label_map import label_map
from luxel.render.segment.objects import Objects, save_objects, scene_digest
from luxel.viewer.edit import Document
from luxel.viewer.edit import object_edits as edits
from luxel.viewer.segmenting import segmentation_scores
from luxel.viewer.web.editing import SceneEditor
from luxel.viewer.web.inspection.comparison import Comparer
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.panels.objects import MEASURE, ObjectsPanel
from luxel.viewer.web.shading.shading import DisplaySettings


def upper_half() -> Objects:
    """The upper half of the ball as an object."""
    scene = ball()
    objects = Objects(scene_digest(scene), (scene.centres[:, 2] > 0).to(torch.uint8))
    objects.add("upper")
    return objects


def with_ids(folder: Path) -> list[View]:
    """Views of the ball with true ids: what the labels of `upper_half` show, and solid 2 below."""
    views, frames = [], []
    for number, view in enumerate(ring()):
        seen = label_map(ball(), view.camera, upper_half().labels, 2)
        below = label_map(ball(), view.camera, 1 - upper_half().labels, 2) == 1
        Image.fromarray(torch.where(below, 2, seen).to(torch.uint8).numpy()).save(
            folder / f"{number}_ids.png"
        )
        Image.new("RGB", (80, 80)).save(folder / f"{number}.png")
        frames.append({"file_path": f"./{number}", "ids_path": f"./{number}_ids.png"})
        views.append(replace(view, path=folder / f"{number}.png"))
    (folder / "transforms_train.json").write_text(json.dumps({"frames": frames}))
    return views


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StaticSession:
    """The ball with its objects; two of the five views are held out."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "capture").mkdir()
    save_objects(tmp_path, upper_half())
    return StaticSession(ball(), with_ids(tmp_path / "capture"), folder=tmp_path, trained_on=3)


def test_the_compared_view_has_the_mean_iou_of_the_present_labels(session: StaticSession) -> None:
    editor, view = SceneEditor.of(session), session.views[0]
    comparer = Comparer(session, 1.0, lambda: None)
    settings = DisplaySettings(painter=comparer, objects=editor)

    def caption() -> str:
        with session.borrow() as scene:
            painted = comparer.paint(scene, view.camera, settings)
        return "" if painted is None else painted[1]

    until(lambda: "mean IoU 100.0 %" in caption(), "labels that are the true ones have an IoU below 1")
    editor.run(lambda d: d.select(torch.arange(250) % 3 == 0))
    editor.run(lambda d: d.apply(edits.exclude_selection(d.state, 1)))
    score = float(caption().partition("mean IoU ")[2].removesuffix(" %"))
    assert 30 < score < 99, "the score does not follow the labels"
    alone = segmentation_scores(session.folder or Path(), ball(), [view])
    assert alone is not None and score == pytest.approx(100 * alone["mean"], abs=0.05), (
        "not that of luxel eval"
    )
    editor.run(lambda d: d.apply(edits.remove_object(d.state, 1, voted=False)))
    assert "IoU" not in caption()


def test_held_out_views_are_measured_as_luxel_eval_does(session: StaticSession) -> None:
    with ViewerApp(session, port=0, panels=(ObjectsPanel,)) as app:
        opened = open_offline_page(app, Pose.of_camera(session.views[0].camera))
        panel: Any = opened.panels[0]
        assert panel._measure.visible and len(panel._views) == 2
        panel.editor.run(lambda d: d.select(torch.arange(250) % 5 == 0))
        panel.act(lambda d, o: d.apply(edits.exclude_selection(d.state, o)))
        expected = segmentation_scores(session.folder or Path(), ball(), session.views[3:])
        panel._start_measuring()
        assert expected is not None
        until(
            lambda: panel._ious == expected and panel._measure.label == MEASURE,
            "not the figures of luxel eval",
        )
        assert f"mean IoU {100 * expected['mean']:.1f}" in panel._list.content and expected["mean"] < 0.99
        panel.editor.run(Document.undo)
        assert "IoU" not in panel._list.content, "old figures stay beside new labels"


def test_views_without_true_ids_offer_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ViewerApp(StaticSession(ball(), ring(), folder=tmp_path), port=0, panels=(ObjectsPanel,)) as app:
        panel: Any = open_offline_page(app, Pose.of_camera(ring()[0].camera)).panels[0]
        assert not panel._measure.visible
        assert np.isnan(float(panel._ious.get("mean", "nan")))


@pytest.mark.slow
def test_objects_are_measured_on_the_page(session: StaticSession, open_page: Callable[..., Any]) -> None:
    with ViewerApp(session, port=0) as app:
        page = open_page(app, width=1100, height=1000)
        controls = Controls(page, app)
        controls.unfold("Show", "Camera", "Objects")
        panel = controls.panel(ObjectsPanel)
        panel.editor.run(lambda d: d.select(torch.arange(250) % 5 == 0))
        panel.act(lambda d, o: d.apply(edits.exclude_selection(d.state, o)))
        expected = segmentation_scores(session.folder or Path(), ball(), session.views[3:])
        assert expected is not None
        controls.press("Objects/Measure IoU")
        page.get_by_text(f"mean IoU {100 * expected['mean']:.1f}").first.wait_for(timeout=60_000)
        until(lambda: panel._measure.label == MEASURE, "the button does not come back")
