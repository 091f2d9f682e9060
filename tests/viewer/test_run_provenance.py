"""A run of someone else does not choose which files of this user are opened; runs of one's own go on as they are."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.runs.folder.provenance import ENTRY, UntrustedRunError
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.strict_json import DIGEST, sealed
from luxel.render.storage.user_key import user_key
from luxel.viewer.cli import main
from luxel.viewer.scene_loading.capture_options import load_origin
from luxel.viewer.scene_loading.field_data import FieldOrigin
from luxel.viewer.web.opening import open_session

SHORT = ("--device", "cpu", "--no-lpips", "--max-gaussians", "200", "--eval-every", "0")


@pytest.fixture(scope="module")
def own_run(toy_capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "run"
    assert main(["train", str(toy_capture), "--run", str(folder), "--steps", "4", *SHORT]) == 0
    return folder


@pytest.fixture
def private(toy_capture: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(toy_capture, tmp_path / "private"))


def change(run: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Changes config.json of a run and seals it again, as anybody can."""
    body = json.loads((run / "config.json").read_text())
    edit(body)
    del body[DIGEST]
    (run / "config.json").write_text(json.dumps(sealed(body)))


@pytest.fixture
def strangers(own_run: Path, private: Path, tmp_path: Path) -> Path:
    """A run that names a private capture."""
    user_key()
    run = Path(shutil.copytree(own_run, tmp_path / "strangers"))
    change(run, lambda body: body["capture"].update(path=str(private), masks="none"))
    unpacked(run)
    return run


def unpacked(run: Path) -> None:
    """Gives the files of a run times of an hour ago, as an archive brings them."""
    for path in run.rglob("*"):
        os.utime(path, (time.time() - 3600, time.time() - 3600))


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


COMMANDS = {
    "eval": ["eval", "RUN", "--no-lpips"],
    "train": ["train", "--resume", "RUN", "--steps", "6"],
    "segment": ["segment", "RUN", "--click", "0000", "1", "1"],
    "export --cameras": ["export", "RUN", "--out", "OUT", "--cameras"],
    "export --mesh": ["export", "RUN", "--out", "OUT.ply", "--mesh", "--resolution", "8"],
    "render --at": ["render", "RUN", "--at", "photographs", "--frames", "1", "--out", "OUT"],
}


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_private_capture_is_named_and_not_opened(
    command: str, stripped: bool, strangers: Path, private: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if stripped:
        change(strangers, lambda body: body.pop(ENTRY))
        unpacked(strangers)
    before, run_before = files_of(private), files_of(strangers / "eval")
    places = {"RUN": str(strangers), "OUT": str(strangers / "out"), "OUT.ply": str(strangers / "out.ply")}
    arguments = [places.get(word, word) for word in COMMANDS[command]]
    assert main([*arguments, "--device", "cpu"]) == 2
    message = capsys.readouterr().err
    assert f"not made by you on this machine, and names the capture {private}" in message
    assert ("luxel train CAPTURE --resume" if command == "train" else "--capture PATH") in message
    assert files_of(private) == before and files_of(strangers / "eval") == run_before
    assert not (strangers / "out").exists() and not (strangers / "out.ply").exists()


def test_what_can_do_without_the_capture_does_and_says_so(
    strangers: Path, private: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(private)
    page, frames = tmp_path / "page.html", tmp_path / "frames"
    assert main(["export", str(strangers), "--out", str(page)]) == 0 and page.exists()
    message = capsys.readouterr().err
    assert "The page frames the scene" in message and str(private) in message and "--capture PATH" in message
    render = ["render", str(strangers), "--frames", "1", "--width", "16", "--height", "16", "--device", "cpu"]
    assert main([*render, "--out", str(frames)]) == 0
    message = capsys.readouterr().err
    assert "goes around the scene" in message and "--capture PATH" in message
    session = open_session(strangers, torch.device("cpu"))
    assert not session.views
    assert f"luxel view {strangers} --capture PATH" in capsys.readouterr().err
    assert files_of(private) == before


def test_the_user_may_give_the_capture(strangers: Path, private: Path, tmp_path: Path) -> None:
    given = ["--capture", str(private)]
    assert main(["eval", str(strangers), "--no-lpips", "--device", "cpu", *given]) == 0
    assert main(["export", str(strangers), "--out", str(tmp_path / "cameras"), "--cameras", *given]) == 0
    assert main(["export", str(strangers), "--out", str(tmp_path / "page.html"), *given]) == 0
    still = ["--at", "photographs", "--frames", "1", "--out", str(tmp_path / "frames"), "--device", "cpu"]
    assert main(["render", str(strangers), *still, *given]) == 0
    assert open_session(strangers, torch.device("cpu"), capture=private).views
    with pytest.raises(UntrustedRunError):
        load_origin(strangers)
    resume = ["train", str(private), "--resume", str(strangers), "--steps", "6", "--device", "cpu"]
    assert main(resume) == 0
    assert load_origin(strangers).path == str(private), "the run is this user's from then on"


def test_a_file_of_points_is_asked_for_too(strangers: Path, private: Path, tmp_path: Path) -> None:
    points = str(tmp_path / "private.ply")
    change(strangers, lambda body: body["capture"].update(depth_points=points))
    with pytest.raises(
        UntrustedRunError, match=r"names the file of points .*private\.ply.*--depth-points FILE"
    ):
        load_origin(strangers, private, adds_depth=True)
    given = Path(points)
    assert load_origin(strangers, private, points=given, adds_depth=True).depth_points == points


def test_runs_of_earlier_versions_go_on(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(own_run, tmp_path / "run"))
    change(run, lambda body: body.pop(ENTRY))
    (run / ".luxel-manifest.jsonl").unlink()
    for file in run.glob("checkpoints/*.json"):
        body = json.loads(file.read_text())
        body["run"].pop(ENTRY, None)
        body["run"] = sealed({k: v for k, v in body["run"].items() if k != DIGEST})
        file.write_text(json.dumps(sealed({k: v for k, v in body.items() if k != DIGEST})))
    time.sleep(0.02)  # times of files are coarser than the clock
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # the key is made at first use
    assert main(["eval", str(run), "--no-lpips", "--device", "cpu"]) == 0
    assert main(["export", str(run), "--out", str(tmp_path / "cameras"), "--cameras"]) == 0
    assert main(["train", "--resume", str(run), "--steps", "6", "--device", "cpu"]) == 0
    assert json.loads((run / "config.json").read_text())[ENTRY], "the resumed run is marked"
    assert main(["eval", str(run), "--no-lpips", "--device", "cpu"]) == 0
    assert "not made by you" not in capsys.readouterr().err


def test_the_capture_of_luxel_itself_may_be_named(strangers: Path) -> None:
    from luxel.scenes import demo_path

    change(strangers, lambda body: body["capture"].update(path=str(demo_path())))
    assert load_origin(strangers).path == str(demo_path())


def test_the_data_of_a_field_are_asked_for_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_key()
    (tmp_path / "config.json").write_text("{}")
    unpacked(tmp_path)
    body: dict[str, Any] = {"config": {"field": "image"}, "data": {"path": "/private.png"}}
    monkeypatch.setattr(RunFolder, "read_body", lambda path, say=None: body)
    with pytest.raises(UntrustedRunError, match=r"names the data /private\.png"):
        FieldOrigin.of_run(tmp_path)
    assert FieldOrigin.of_run(tmp_path, Path("/mine.png")).path == "/mine.png"
    body["data"]["path"] = "landscape"
    assert FieldOrigin.of_run(tmp_path).path == "landscape"
    body["data"]["path"] = str(tmp_path / "inside.png")
    assert FieldOrigin.of_run(tmp_path).path.endswith("inside.png")
    assert os.listdir(tmp_path) == ["config.json"]
