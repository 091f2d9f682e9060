"""A run that trains without a viewer is attached to, changed, and ends like the same changes on the command line."""

from __future__ import annotations

import json
import shutil
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from test_cli_serving import Running

from luxel.render.runs.checkpoints.checkpoint import load_newest
from luxel.viewer.attach import RunConnection, connect
from luxel.viewer.cli import main

STEPS = 400
OPTIONS = ("--device", "cpu", "--no-lpips", "--max-gaussians", "300", "--eval-every", "0")


def attached(folder: Path) -> RunConnection:
    deadline = time.monotonic() + 60
    while (connection := connect(folder)) is None:
        assert time.monotonic() < deadline, "the run does not listen"
        time.sleep(0.02)
    return connection


@pytest.mark.slow
def test_steered_from_outside_it_ends_like_on_the_command_line(toy_capture: Path, tmp_path: Path) -> None:
    folder, twin = tmp_path / "run", tmp_path / "twin"
    training = Running("train", str(toy_capture), "--run", str(folder), "--steps", str(STEPS), *OPTIONS)
    try:
        connection = attached(folder)
        connection.request("pause")
        view = Running("view", str(folder), "--port", "0", "--device", "cpu")
        url = view.wait_for(r"viewer: (\S+)")[1]
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert b"<html" in answer.read().lower()
        view.wait_for("is training")
        step = connection.request("status")["step"]
        assert step < STEPS, "the run was over before it was paused"
        assert f"step-{step:08d}" in connection.request("save")
        shutil.copytree(folder, twin)
        changes: dict[str, Any] = {"steps": STEPS + 500, "rates.means": 3e-4}
        connection.request("set", options=changes)
        assert view.end(signal.SIGINT) == 0 and training.process.poll() is None, (
            "Ctrl-C ended the training too"
        )
        connection.request("continue")
        assert training.process.wait(150) == 0, training.text
    finally:
        training.process.kill()
    assert json.loads((folder / "config.json").read_text())["changes"] == [{"step": step, "options": changes}]
    assert connect(folder) is None
    resume = ["--steps", str(STEPS + 500), "--rates.means", "3e-4", "--device", "cpu"]
    assert main(["train", "--resume", str(twin), *resume]) == 0
    states = [load_newest(run / "checkpoints", lambda _: None) for run in (folder, twin)]
    assert states[0].step == states[1].step == STEPS + 500
    for name, tensor in states[0].tensors.items():
        assert tensor.equal(states[1].tensors[name]), name
    assert (folder / "scene.ply").read_bytes() == (twin / "scene.ply").read_bytes()


@pytest.mark.slow
def test_a_training_that_is_killed_before_it_saves_leaves_its_last_scene(
    toy_capture: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    training = Running("train", str(toy_capture), "--run", str(folder), "--steps", "1000000", *OPTIONS)
    view = None
    try:
        connection = attached(folder)
        view = Running("view", str(folder), "--port", "0", "--device", "cpu")
        url = view.wait_for(r"viewer: (\S+)")[1]
        view.wait_for("is training")
        time.sleep(1.5)  # for the first copy
        assert connection.request("status")["step"] > 0 and not list(folder.glob("scene.ply"))
        training.process.kill()
        training.process.wait()
        view.wait_for(r"before it saved anything. This is its scene of step [\d,]+, as it was received last")
        view.wait_for(rf"^viewer: {url}$(?s:.*)^viewer: {url}$")
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert b"<html" in answer.read().lower()
        assert "its scene stays" not in view.text and view.end(signal.SIGINT) == 0
    finally:
        for one in (training, view):
            if one is not None:
                one.process.kill()
