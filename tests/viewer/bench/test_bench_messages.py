"""Messages of the benchmarks that no wrong option reaches: damaged files, peers that fail, a GPU that is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives import Convexes, Gaussians
from luxel.scenes import save_primitive_ply
from luxel.viewer.bench.compare import compare
from luxel.viewer.bench.raster import variants
from luxel.viewer.bench.record import run
from luxel.viewer.bench.train.gsplat_settings import GSPLAT_TRAININGS, parse_settings
from luxel.viewer.bench.view import client
from luxel.viewer.bench.view.browser import open_browser
from luxel.viewer.cli import main


def test_reports_without_a_common_row(strict: Any, measured: Path) -> None:
    before = strict(measured / "raster.json")
    other = [{**row, "scene": "elsewhere"} for row in before["rows"]]
    with pytest.raises(LuxelError, match="no row in common"):
        compare(before, {**before, "rows": other}, force=True)


def test_a_scene_file_without_primitives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_primitive_ply(tmp_path / "none.ply", Gaussians.empty())
    words = ["bench", "raster", "--scene", str(tmp_path / "none.ply"), "--out", str(tmp_path / "out")]
    assert main([*words, "--device", "cpu"]) == 2
    assert f"{tmp_path / 'none.ply'}: the scene holds no Gaussians" in capsys.readouterr().err


def test_a_peer_of_other_primitives() -> None:
    with pytest.raises(LuxelError, match=r"gsplat draws no convexes.*Leave --against out"):
        variants.draw_with("gsplat", Convexes.empty(), SimpleNamespace(camera=None), 0.99)  # type: ignore[arg-type]


def test_a_gpu_that_a_part_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(device: torch.device) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")

    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    part: Any = SimpleNamespace(name="raster")
    run.require_working(torch.device("cpu"), part)
    with pytest.raises(
        LuxelError, match=r"after raster: CUDA error: an illegal memory access was encountered\. What"
    ):
        run.require_working(torch.device("cuda"), part)


def test_results_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "record", "--out", str(tmp_path), "--device", "cpu"]) == 2
    assert f"{tmp_path}: Is a directory" in capsys.readouterr().err


def test_trainings_of_gsplat_by_name() -> None:
    with pytest.raises(LuxelError, match="there is no training 'gsplat-slow'") as refused:
        parse_settings("gsplat-slow:steps=3")
    for name in GSPLAT_TRAININGS:
        assert name in refused.value.remedy and parse_settings(name) == GSPLAT_TRAININGS[name]


def test_one_preset_of_a_variant(toy_capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "train", str(toy_capture), "--device", "cpu"]
    assert main([*words, "--against", "luxel:preset=fast,preset=best"]) == 2
    assert "preset=fast and best: only one can be the preset" in capsys.readouterr().err


def test_a_browser_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "chromium").write_text("#!/bin/sh\nexit 3\n")
    os.chmod(tmp_path / "chromium", 0o755)
    with (
        pytest.raises(LuxelError, match=r"chromium did not start as a headless browser.*--browser PATH"),
        open_browser(str(tmp_path / "chromium"), 64, 48),
    ):
        pass


def test_clients_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    load = client.Load("127.0.0.1:1", ["key"], [{}], 60.0, 0.0, 0.1)
    for stderr, message in (("Trace\nOSError: refused\n", "failed: OSError: refused"), ("", "no message")):
        done = subprocess.CompletedProcess([], 1, "", stderr)
        monkeypatch.setattr(client.subprocess, "run", lambda *a, done=done, **o: done)
        with pytest.raises(LuxelError, match=message) as failed:
            client.run_clients(load)
        assert "--clients" in failed.value.remedy
    with pytest.raises(LuxelError, match=r"No client received an image.*--seconds"):
        client.summarize([{"latencies": [], "images": 0}], 1.0)
