"""Samples of the parts reseal and paths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")
@pytest.mark.parametrize("count", [12, pytest.param(150, marks=pytest.mark.slow)])
def test_resealed_runs_and_devices_at_every_path(tmp_path: Path, count: int) -> None:
    command = [sys.executable, "-m", "tests.endurance", "reseal", "paths"]
    done = subprocess.run(
        [*command, "--count", str(count), "--seed", "3", "--out", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    for part in ("reseal", "paths"):
        lines = [json.loads(line) for line in (tmp_path / f"{part}.jsonl").read_text().splitlines()]
        assert len(lines) == count and all(line["ok"] for line in lines)
