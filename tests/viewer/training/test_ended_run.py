"""What the files of a run say of its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.train import TrainConfig
from luxel.viewer.training.ended_run import end_of_folder


def write_run(folder: Path, config: TrainConfig, *lines: object) -> Path:
    run = RunFolder(folder, lambda message: None)
    run.write_config(config, {"extent": 1.0})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_run_that_ended_by_time_says_so(tmp_path: Path) -> None:
    lines = {"step": 20, "count": 10, "seconds": 1.0}, {"step": 1792, "seconds": 60.3, "test": {"psnr": 20}}
    folder = write_run(tmp_path / "run", TrainConfig.demo(), *lines, [1], {"step": 1792, "count": 12})
    end = end_of_folder(folder)
    assert end is not None and end.words == "Stopped after 60 s, at step 1,792"
    assert (end.count, end.noun, end.psnr, end.views, end.report) == (12, "Gaussians", None, 0, None)
    (folder / "eval").mkdir()
    record = {"mean": {"psnr": 26.9, "ssim": 0.91}, "views": [{}, {}]}
    (folder / "eval" / "report.json").write_text(json.dumps(record))
    (folder / "eval" / "index.html").write_text("<p>")
    end = end_of_folder(folder)
    assert end is not None and (end.psnr, end.ssim, end.views) == (26.9, 0.91, 2)
    assert end.report == folder / "eval" / "index.html"


@pytest.mark.parametrize(
    ("step", "reason"), [(30, "steps"), (29, "stopped")], ids=["all steps", "before the end"]
)
def test_without_a_limit_that_is_reached_it_was_stopped(tmp_path: Path, step: int, reason: str) -> None:
    folder = write_run(tmp_path / "run", TrainConfig(steps=30), {"step": step, "count": 5, "seconds": 2})
    end = end_of_folder(folder)
    assert end is not None and end.reason == reason


def test_damaged_files_say_nothing(tmp_path: Path) -> None:
    assert end_of_folder(tmp_path) is None
    folder = write_run(tmp_path / "run", TrainConfig(steps=30), {"step": None, "count": 5, "seconds": 2})
    assert end_of_folder(folder) is None
    (folder / "metrics.jsonl").write_text('{"step": 5, "count": 5, "seconds": 1e999}\n')
    assert end_of_folder(folder) is None
    (folder / "metrics.jsonl").unlink()
    assert end_of_folder(folder) is None
