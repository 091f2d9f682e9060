"""`--backend` on the command line: without gsplat one message and its remedy; with a stand-in it is what draws."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from luxel.render.rasterize import rasterize
from luxel.render.train.run_folder import RunFolder
from luxel.viewer.cli import main

QUICK = ["--device", "cpu", "--no-lpips", "--steps", "4"]


@pytest.fixture(scope="module")
def run(toy_capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps."""
    folder = tmp_path_factory.mktemp("backend") / "run"
    assert main(["train", str(toy_capture), "--run", str(folder), *QUICK]) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["train", "CAPTURE", "--run", "NEW", *QUICK],
        ["view", "RUN", "--device", "cpu"],
        ["eval", "RUN", "--device", "cpu"],
        ["render", "RUN", "--device", "cpu"],
    ],
    ids=lambda words: words[0],
)
def test_without_gsplat_every_command_says_how_to_get_it(
    command: list[str],
    toy_capture: Path,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    absent = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gsplat" else absent(name))
    places = {"CAPTURE": str(toy_capture), "RUN": str(run), "NEW": str(tmp_path / "new")}
    assert main([places.get(word, word) for word in command] + ["--backend", "gsplat"]) == 2
    error = capsys.readouterr().err
    assert error.count("luxel: ") == 1 and "pip install 'luxel[gsplat]'" in error and "Traceback" not in error
    assert not (tmp_path / "new").exists()


def test_the_backend_of_a_run_draws_it_and_is_kept(
    toy_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training, its measurement, resuming and `luxel eval` all draw with the backend in config.json."""
    from luxel.render.backends import gsplat

    drawn: list[bool] = []

    def draw(*arguments: Any, **options: Any) -> Any:
        drawn.append(options.get("statistics") is not None)
        return rasterize(*arguments, **options)

    monkeypatch.setattr(gsplat, "require", lambda device=None: None)
    monkeypatch.setattr(gsplat, "rasterize", draw)
    folder = tmp_path / "run"
    assert main(["train", str(toy_capture), "--run", str(folder), *QUICK, "--backend", "gsplat"]) == 0
    trained = len(drawn)
    held_out = sum(1 for line in (folder / "renders").iterdir())
    assert trained >= 4 + held_out
    assert RunFolder.read_config(folder)[0].backend == "gsplat"
    assert main(["train", "--resume", str(folder), "--steps", "6", "--device", "cpu"]) == 0
    resumed = len(drawn)
    assert resumed - trained >= 2 + held_out
    capsys.readouterr()
    assert main(["eval", str(folder), "--device", "cpu", "--no-lpips", "--json"]) == 0
    assert len(drawn) - resumed == len(json.loads(capsys.readouterr().out)["views"])
    assert main(["eval", str(folder), "--device", "cpu", "--no-lpips", "--backend", "luxel"]) == 0
    assert len(drawn) - resumed == held_out


def test_a_run_cannot_be_deterministic_with_gsplat(
    toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(toy_capture), "--run", str(tmp_path / "run"), *QUICK, "--deterministic"]
    assert main([*words, "--backend", "gsplat"]) == 2
    assert "deterministic is not to be had from the gsplat backend" in capsys.readouterr().err
