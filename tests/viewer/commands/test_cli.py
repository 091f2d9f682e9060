"""The command line: help, train -> eval -> render -> resume on a small capture, in one process."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from PIL import Image

from luxel.render.primitives.gaussians.presets import PRESETS
from luxel.render.train import TrainConfig
from luxel.render.train.presets import preset
from luxel.render.train.resume import read_config
from luxel.scenes import load_gaussians
from luxel.scenes.loading.run_results import load_run_scene
from luxel.viewer.cli import COMMANDS, main
from luxel.viewer.scene_loading.capture_options import load_origin

SHORT = ["--device", "cpu", "--no-lpips", "--report-every", "1"]


@pytest.fixture(scope="module")
def capture(toy_capture: Path) -> Path:
    """The capture to train on."""
    return toy_capture


@pytest.fixture(scope="module")
def run(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 60 steps on it."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", str(capture), "--run", str(folder), "--steps", "60", *SHORT]) == 0
    return folder


PAGES = [
    *(c for c in COMMANDS if c != "bench"),
    *(f"bench {what}" for what in ("raster", "train", "compare")),
]


@pytest.mark.parametrize("command", PAGES)
def test_help_reads_like_documentation(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: luxel {command}" in text and "Examples:" in text
    described = [line for line in text.splitlines() if line.lstrip("│ ").startswith("--")]
    assert described, "no option is listed"
    assert "{fact" not in text and "dataclass" not in text


@pytest.mark.parametrize("command", ["view", "render", "export", "eval", "demo", "doctor"])
def test_help_fits_a_terminal_of_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "None" not in text, "the default of an option is said in words"


def test_overview_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 80, "one screen"
    assert all(f"  {command} " in text for command in COMMANDS)
    assert main([]) != 0
    assert main(["--version"]) == 0
    version = capsys.readouterr().out.splitlines()[-1]
    try:
        assert version == f"luxel {importlib.metadata.version('luxel')}"
    except importlib.metadata.PackageNotFoundError:  # the packages are on PYTHONPATH alone
        assert version == "luxel (not installed)"


def test_every_training_option_is_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "--help"])
    text = capsys.readouterr().out
    flat = {k for k, v in TrainConfig().to_dict().items() if not isinstance(v, dict)}
    missing = [name for name in flat if f"--{name.replace('_', '-')}" not in text]
    assert not missing
    options = text[text.index("positional arguments") :]
    assert "--split.cap-max" in options and "--rates.means" in options and "--adaptive." not in options
    main(["train", "--strategy", "adaptive", "--help"])
    options = capsys.readouterr().out.split("positional arguments")[1]
    assert "--adaptive.grow-scale3d" in options and "--split." not in options


def test_an_unknown_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert "luxel train" in capsys.readouterr().err


def test_an_unknown_option_names_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "somewhere", "--stepz", "5"]) == 2
    captured = capsys.readouterr()
    assert "--stepz" in captured.err + captured.out and "Traceback" not in captured.err


def test_train_leaves_a_whole_run(run: Path, capture: Path) -> None:
    config, body = read_config(run)
    assert config.steps == 60 and not config.lpips
    assert body["capture"]["holdout"].startswith("every 8th") and body["capture"]["name"] == "knot"
    assert load_origin(run).path == str(capture)
    assert load_gaussians(run / "scene.ply").count > 100
    assert (run / "eval" / "index.html").is_file() and any((run / "renders").iterdir())
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 60


def test_eval_agrees_with_training(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert (
        main(["eval", str(run), "--json", "--no-lpips", "--device", "cpu", "--out", str(run / "again")]) == 0
    )
    evaluated = json.loads(capsys.readouterr().out)
    trained = json.loads((run / "eval" / "report.json").read_text())
    assert [view["name"] for view in evaluated["views"]] == [view["name"] for view in trained["views"]]
    assert evaluated["mean"]["psnr"] == pytest.approx(trained["mean"]["psnr"], abs=1e-3)
    assert evaluated["mean"]["psnr"] > 15 and evaluated["mean"]["lpips"] is None
    assert Path(evaluated["report"]).is_file()


def test_eval_of_a_scene_file_needs_its_capture(
    run: Path, capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = str(run / "scene.ply")
    assert main(["eval", scene]) == 2
    assert "--capture" in capsys.readouterr().err
    out = str(run / "by-file")
    assert (
        main(["eval", scene, "--capture", str(capture), "--out", out, "--no-lpips", "--device", "cpu"]) == 0
    )
    assert "held-out PSNR: " in capsys.readouterr().out


def test_render_writes_images_of_the_scene(run: Path, tmp_path: Path) -> None:
    size = ["--width", "40", "--height", "30", "--device", "cpu"]
    out = tmp_path / "frames"
    assert main(["render", str(run), "--out", str(out), "--frames", "3", *size, "--background", "white"]) == 0
    images = [np.asarray(Image.open(path)) for path in sorted(out.glob("*.png"))]
    assert [p.name for p in sorted(out.glob("*.png"))] == ["00000.png", "00001.png", "00002.png"]
    assert all(p.shape == (30, 40, 3) for p in images)
    assert not np.array_equal(images[0], images[1]) and images[0].std() > 5
    clear = tmp_path / "clear"
    assert main(["render", str(run), "--out", str(clear), "--frames", "1", *size, "--transparent"]) == 0
    alpha = np.asarray(Image.open(clear / "00000.png"))[..., 3]
    assert alpha.min() < 30 and alpha.max() > 200


def test_render_writes_a_video(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "tour.mp4"
    scene = str(run / "scene.ply")
    size = ["--width", "47", "--height", "31"]  # odd: padded to what H.264 takes
    assert main(["render", scene, "--out", str(out), "--frames", "5", *size, "--device", "cpu"]) == 0
    video = np.asarray(imageio.imread(out))
    assert video.shape == (5, 32, 48, 3) and video.std() > 5
    assert [path.name for path in tmp_path.iterdir()] == ["tour.mp4"]


def test_render_follows_a_path(run: Path, tmp_path: Path) -> None:
    from luxel.scenes.paths import orbit, save_path

    save_path(tmp_path / "path.json", orbit((0, 0, 0), 4.0, frames=2, width=24, height=18))
    out = tmp_path / "out"
    scene, path = str(run / "scene.ply"), str(tmp_path / "path.json")
    assert main(["render", scene, "--path", path, "--out", str(out), "--device", "cpu"]) == 0
    assert [Image.open(p).size for p in sorted(out.glob("*.png"))] == [(24, 18)] * 2


def test_a_finished_run_is_extended(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(run), "--steps", "70"]) == 0
    config, _ = read_config(run)
    assert config.steps == 70
    assert config.report_every == 1 and not config.lpips, "options that were not given anew must be kept"
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 70
    assert "held-out PSNR: " in capsys.readouterr().out


def test_a_run_is_not_overwritten(run: Path, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "scene.ply").read_bytes()
    assert main(["train", str(capture), "--run", str(run), "--steps", "1"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert (run / "scene.ply").read_bytes() == before


def test_strategies_can_be_chosen(capture: Path, tmp_path: Path) -> None:
    options = ["--strategy", "mcmc", "--mcmc.cap-max", "700", "--steps", "3", *SHORT]
    assert main(["train", str(capture), "--run", str(tmp_path / "run"), *options]) == 0
    saved = read_config(tmp_path / "run")[0].to_dict()["strategy"]
    assert saved["kind"] == "mcmc" and saved["cap_max"] == 700
    assert load_run_scene(tmp_path / "run").count <= 700


def test_a_preset_is_where_options_start_from(capture: Path, tmp_path: Path) -> None:
    options = ["--preset", "fast", "--steps", "3", "--rates.means", "2e-4", *SHORT]
    assert main(["train", str(capture), "--run", str(tmp_path / "run"), *options]) == 0
    config, expected = read_config(tmp_path / "run")[0], preset("fast")
    assert config.strategy == expected.strategy and config.loss == expected.loss
    assert (config.steps, config.rates.means, config.rates.final_factor) == (
        3,
        2e-4,
        expected.rates.final_factor,
    )


@pytest.mark.parametrize("name", PRESETS)
def test_presets_make_sense(name: str) -> None:
    config = preset(name)
    config.check()
    assert preset(name) is not config and TrainConfig.from_dict(config.to_dict()) == config


def test_ctrl_c_saves_and_says_how_to_go_on(capture: Path, tmp_path: Path) -> None:
    """In a process of its own, as signals go to the main thread of one."""
    folder = tmp_path / "run"
    command = [
        "train",
        str(capture),
        "--run",
        str(folder),
        "--steps",
        "1000000",
        "--no-lpips",
        "--device",
        "cpu",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "luxel.viewer.console", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert f"--resume {folder}" in output and "Traceback" not in output
    assert list((folder / "checkpoints").glob("step-*.json"))
    assert (folder / "scene.ply").is_file()
