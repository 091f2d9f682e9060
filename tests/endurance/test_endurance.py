"""A short part of the endurance tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.endurance", *arguments, "--out", str(out)]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=170,
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="processes and full disks are those of Linux"
)
def test_a_trial_of_every_part_passes_and_is_not_repeated(tmp_path: Path) -> None:
    parts = ["kill", "disk", "damage", "pairs", "fuzz", "databases", "ends", "reseal", "paths"]
    for names in (["kill"], parts):
        done = run(tmp_path, *names, "--count", "1", "--seed", "1")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    for part in parts:
        lines = [json.loads(line) for line in (tmp_path / f"{part}.jsonl").read_text().splitlines()]
        assert [line["trial"] for line in lines] == [0] and all(line["ok"] for line in lines)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")
def test_chosen_readers_get_their_inputs(tmp_path: Path) -> None:
    names = ["mesh .stl", "depth map .png"]
    done = run(tmp_path, "fuzz", "--only", *names, "--inputs", "200", "--minutes", "1")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    lines = [json.loads(line) for line in (tmp_path / "fuzz.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and all(sum(line["counts"].values()) >= 200 for line in lines)
    assert sorted(line["sample"].partition(":")[0] for line in lines) == sorted(names)
    unknown = run(tmp_path, "fuzz", "--only", "no such sample", "--inputs", "1")
    assert unknown.returncode != 0 and "begins with no such sample" in unknown.stderr


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forked processes are those of Linux")
def test_commands_among_files_of_other_people(tmp_path: Path) -> None:
    done = run(tmp_path, "decoys", "--count", "60", "--seed", "4")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    lines = [json.loads(line) for line in (tmp_path / "decoys.jsonl").read_text().splitlines()]
    assert {line["outcome"] for line in lines} == {"written", "refused"}
