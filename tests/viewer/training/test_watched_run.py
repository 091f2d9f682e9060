"""A run with its viewer: the end, and a page that trains it longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points
from luxel.render.primitives import Gaussians
from luxel.render.train import TrainConfig, TrainResult
from luxel.scenes import load_primitives
from luxel.viewer.edit import Document, operations
from luxel.viewer.options import Serve
from luxel.viewer.scene_loading.capture_options import Origin
from luxel.viewer.training import watched_run
from luxel.viewer.training.live_viewer import LiveViewer
from luxel.viewer.training.train_scene import fit
from luxel.viewer.training.watched_run import more_steps
from luxel.viewer.web.editing import SceneEditor
from luxel.viewer.web.editing.editable_training import EditableTraining
from luxel.viewer.web.session import TrainingSession


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_longer_run_has_no_limit_of_time_and_not_the_one_that_ended_it() -> None:
    result = TrainResult("target_minutes", 1792, 60.0, 10, None, None, None, None)
    demo = TrainConfig.demo()
    changes = {"steps": 2792, "target_minutes": None, "pace_by_time": False}
    assert more_steps(demo, result, 1000) == changes
    result.reason = "target_psnr"
    config = TrainConfig(target_psnr=30.0, target_gigabytes=8.0)
    assert more_steps(config, result, 8) == {"steps": 1800, "target_psnr": None}
    result.reason = "max_gaussians"
    assert more_steps(config, result, 8) == {"steps": 1800, "end_at_max_gaussians": False}


def test_a_page_trains_a_run_longer(
    toy_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    apps: list[Any] = []
    start = LiveViewer.start

    def started(self: LiveViewer, serve: Serve) -> Any:
        apps.append(start(self, serve))
        return apps[-1]

    monkeypatch.setattr(LiveViewer, "start", started)
    refusals = iter([True, False])
    resume = watched_run.Trainer.resume

    def once_refused(*arguments: Any, **options: Any) -> Any:
        if next(refusals):
            raise LuxelError("no memory.", "Free some.")
        return resume(*arguments, **options)

    monkeypatch.setattr("luxel.viewer.training.train_scene.Trainer.resume", once_refused)
    config = TrainConfig(steps=8, eval_every=0, lpips=False, max_gaussians=200, save_renders=0)
    origin = Origin(str(toy_capture), holdout_every=8)
    status: list[int] = []

    def train() -> None:
        serve = Serve(port=0)
        run = tmp_path / "run"
        status.append(
            fit(config, origin.open(), origin, run, torch.device("cpu"), serve=serve, check_capture=False)
        )

    thread = threading.Thread(target=train)
    thread.start()
    try:
        until(lambda: bool(apps) and apps[0].session.run_end is not None, "the run did not end")
        session = apps[0].session
        assert session.name == "run", "luxel view names it so"
        end = session.run_end
        assert (end.reason, end.step, end.views) == ("steps", 8, 2) and end.psnr > 5 and 0 < end.ssim < 1
        assert end.report == tmp_path / "run" / "eval" / "index.html" and end.report.is_file()
        until(lambda: session.editable is not None, "the result cannot be edited")
        session.extend(4)
        assert session.editable is None
        until(lambda: session.run_end is not None, "what failed is not said")
        assert session.run_end.problem == "no memory. Free some." and session.run_end.step == 8
        until(lambda: session.editable is not None, "the result cannot be edited any more")
        first = session.trainer
        session.extend(4)
        until(lambda: session.run_end is not None and session.run_end.step == 12, "it was not trained longer")
        assert session.trainer is not first and session.run_end.problem == ""
        assert session.trainer.config.steps == 12
    finally:
        for app in apps:
            app.stop()
        thread.join(60)
    assert status == [0] and not thread.is_alive()


def test_edits_of_a_pause_are_saved_when_the_viewer_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    points = torch.rand(20, 3)
    scene = Gaussians.from_points(Points(points.numpy(), np.full((20, 3), 128, np.uint8)), sh_degree=0)
    trainer = SimpleNamespace(
        scene=scene, lock=threading.RLock(), paused=True, status=lambda: {"step": 7, "count": 20}
    )
    session = TrainingSession(trainer, name="run", folder=tmp_path)
    live = LiveViewer(lambda: session)
    try:
        live.start(Serve(port=0))
        for full in (True, False):
            EditableTraining.of(session).open()
            assert session.editable is not None
            editor = SceneEditor.of(session.editable)
            editor.run(lambda d: d.select(points[:, 0] > 0.5))
            editor.run(lambda d: d.apply(operations.delete(d.state)))
            with monkeypatch.context() as patch:
                if full:
                    patch.setattr(Document, "save", no_space)
                live.save_edits()
            said = capsys.readouterr()
            if full:
                assert "could not be saved: the disk is full." in said.err and session.editable is not None
                editor.run(lambda d: d.undo())
                session.hold(None)
            else:
                assert "saved in edited-step-7.ply" in said.out and session.editable is None
        assert load_primitives(tmp_path / "edited-step-7.ply").count == int((points[:, 0] <= 0.5).sum())
    finally:
        live.stop()


def no_space(*_: Any, **__: Any) -> int:
    raise LuxelError("the disk is full.", "Free some space.")
