"""`--backend` on the command line: without a peer one message and its remedy; with a stand-in it is what computes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from tinycudann_stand_in import StandIn

from luxel.render.raster.rasterize import rasterize
from luxel.render.train.resume import read_config
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
    assert read_config(folder)[0].backend == "gsplat"
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
    assert "the gsplat backend is not deterministic" in capsys.readouterr().err


FIELD = ["--field", "image", "--device", "cpu", "--batch", "256", "--log2-entries", "10", "--width", "16"]
FIELD += ["--max-size", "24", "--backend", "tiny-cuda-nn"]


def test_without_tiny_cuda_nn_training_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tinycudann" else absent(name)
    )
    assert main(["train", "landscape", "--run", str(tmp_path / "run"), *FIELD]) == 2
    error = capsys.readouterr().err
    assert error.count("luxel: ") == 1 and "needs an NVIDIA GPU" in error and "Traceback" not in error
    assert "tiny-cuda-nn/#subdirectory=bindings/torch" in error.replace("\n", "")
    assert not (tmp_path / "run").exists()


def test_a_field_is_trained_by_tiny_cuda_nn_and_drawn_without_it(
    tmp_path: Path,
    stand_in_tinycudann: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "landscape", "--run", run, "--steps", "20", *FIELD]) == 0
    assert stand_in_tinycudann.calls >= 20
    assert json.loads((tmp_path / "run/config.json").read_text())["config"]["backend"] == "tiny-cuda-nn"
    trained = stand_in_tinycudann.calls
    assert main(["train", "--resume", run, "--steps", "30", "--device", "cpu"]) == 0
    assert stand_in_tinycudann.calls >= trained + 10
    assert main(["train", "--resume", run, "--steps", "40", "--device", "cpu", "--backend", "luxel"]) == 2
    assert "was trained with tiny-cuda-nn" in capsys.readouterr().err
    scores = []
    for options in ([], ["--backend", "luxel"]):
        called = stand_in_tinycudann.calls
        assert main(["eval", run, "--device", "cpu", "--json", *options]) == 0
        assert (stand_in_tinycudann.calls > called) == (not options)
        scores.append(json.loads(capsys.readouterr().out)["psnr"])
    assert scores[0] == pytest.approx(scores[1], abs=0.01)
    assert main(["eval", run, "--device", "cpu", "--backend", "gsplat"]) == 2
    assert "gsplat cannot draw neural fields" in capsys.readouterr().err
    monkeypatch.undo()
    called = stand_in_tinycudann.calls
    out = tmp_path / "out.png"
    assert main(["render", run, "--device", "cpu", "--out", str(out)]) == 0 and out.stat().st_size > 100
    assert main(["train", "--resume", run, "--steps", "40", "--device", "cpu"]) == 2
    assert "tiny-cuda-nn" in capsys.readouterr().err and stand_in_tinycudann.calls == called
