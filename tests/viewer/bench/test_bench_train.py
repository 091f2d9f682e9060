"""`luxel bench train`: what it measures on the way, whom it ranks, and who trains with which settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.viewer.bench import train_report
from luxel.viewer.bench.train import seconds_to, step_milliseconds
from luxel.viewer.cli import main

QUICK_TRAINING = ["--steps", "24", "--evaluations", "3", "--no-lpips", "--device", "cpu"]
QUICK_TRAINING += ["--set", "init.sh_degree=1", "strategy.kind=fixed", "report_every=4"]


def test_training_gives_the_way_there(
    strict: Any,
    read_page: Any,
    toy_capture: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = [str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path)]
    assert main(["bench", "train", *options]) == 0
    (row,) = strict(tmp_path / "train.json")["rows"]
    result = row["results"]["luxel"]
    assert [point["step"] for point in result["curve"]] == [8, 16, 24]
    assert result["curve"][-1]["psnr"] == pytest.approx(result["psnr"]) and result["psnr"] > 10
    assert 0 < result["curve"][0]["seconds"] < result["curve"][-1]["seconds"] <= result["seconds"] + 1e-3
    assert result["steps"] == 24 and result["steps_per_s"] == pytest.approx(24 / result["seconds"])
    assert row["config"]["strategy"]["kind"] == "fixed" and row["held_out"] == 2
    assert result["step_ms"]["samples"] == 5
    assert read_page(tmp_path / "train.html").count["svg"] == 2
    assert f"{result['psnr']:.2f}" in capsys.readouterr().out


def test_both_train_alike(strict: Any, peer: Any, toy_capture: Path, tmp_path: Path) -> None:
    """The stand-in draws what luxel draws, but for the cap of alpha: so both end with the same scene."""
    peer()
    options = [str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path), "--against", "gsplat"]
    assert main(["bench", "train", *options]) == 0
    (row,) = strict(tmp_path / "train.json")["rows"]
    ours, theirs = row["results"]["luxel"], row["results"]["gsplat"]
    assert ours["psnr"] == pytest.approx(theirs["psnr"], abs=0.05) and ours["count"] == theirs["count"]
    assert train_report.ranked(row) == {"luxel": True, "gsplat": True}


def test_a_training_that_loses_quality_is_not_ranked() -> None:
    def result(psnr: float, seconds: float) -> dict[str, Any]:
        curve = [
            {"step": 1, "seconds": seconds / 2, "psnr": psnr - 2},
            {"step": 2, "seconds": seconds, "psnr": psnr},
        ]
        rest = {
            "ssim": 0.9,
            "lpips": None,
            "steps": 2,
            "steps_per_s": 1.0,
            "step_ms": None,
            "count": 5,
            "peak_bytes": None,
        }
        return {"psnr": psnr, "seconds": seconds, "curve": curve, **rest}

    row = {"scene": "a", "width": 4, "height": 3, "held_out": 1, "failures": {}}
    row["results"] = {"luxel": result(30.0, 4.0), "gsplat": result(29.8, 2.0)}
    assert train_report.ranked(row) == {"luxel": True, "gsplat": False}
    (section,) = train_report.sections({"rows": [row], "backends": ["luxel", "gsplat"]})
    assert [cells[-1] for cells in section.tables[0].rows] == ["fastest", "not ranked !"]
    row["results"]["gsplat"] = result(29.95, 2.0)
    (section,) = train_report.sections({"rows": [row], "backends": ["luxel", "gsplat"]})
    # luxel passes 29.95 dB at 3.95 s of its 4 s
    assert [cells[-1] for cells in section.tables[0].rows] == ["1.97x slower", "fastest"]


def test_seconds_to_a_psnr_are_interpolated() -> None:
    curve = [{"seconds": 1.0, "psnr": 20.0}, {"seconds": 3.0, "psnr": 24.0}, {"seconds": 5.0, "psnr": None}]
    assert seconds_to(curve, 22.0) == 2.0 and seconds_to(curve, 19.0) == 1.0
    assert np.isnan(seconds_to(curve, 25.0)) and np.isnan(seconds_to([], 1.0))


def test_milliseconds_per_step_come_from_readings() -> None:
    log = [{"step": 10, "seconds": 1.0, "loss": 1}, {"step": 15, "seconds": 1.1, "count": 3}]
    log += [{"step": 20, "seconds": 1.2, "loss": 1}, {"step": 30, "seconds": 1.6, "loss": 1}]
    found = step_milliseconds(log)
    assert found is not None and found["median"] == pytest.approx(30) and found["samples"] == 2
    assert step_milliseconds(log[:2]) is None


def test_presets_are_taken(toy_capture: Path) -> None:
    from luxel.render.train.presets import fast
    from luxel.viewer.commands.bench import TrainBench

    config = TrainBench(captures=(toy_capture,), preset="fast").configuration(torch.device("cpu"))
    assert config.steps == fast().steps and config.strategy == fast().strategy
    config = TrainBench(captures=(toy_capture,), preset="fast", steps=70).configuration(torch.device("cpu"))
    assert (config.steps, config.eval_every, config.loss) == (70, 7, fast().loss)
