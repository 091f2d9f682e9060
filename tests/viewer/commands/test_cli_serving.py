"""Commands that serve: the demo, and the viewer of a scene, each in a process of its own as a person starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from luxel.scenes import save_primitive_ply
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.cli import main

Start = Callable[..., "Running"]


class Running:
    """A luxel command that runs, and the lines that it has printed so far."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "luxel.viewer.console", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        self.text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, pattern: str, seconds: float = 90) -> re.Match[str]:
        """The first match in what was printed; fails when it does not come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if match := re.search(pattern, self.text, re.MULTILINE):
                return match
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.05)
        pytest.fail(f"{pattern!r} was not printed:\n{self.text}")

    def end(self, number: int = signal.SIGINT, seconds: float = 60) -> int:
        """Sends a signal and returns the exit status."""
        self.process.send_signal(number)
        status = self.process.wait(seconds)
        self._reader.join(5)
        return status


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts commands and ends those that are still running."""
    running: list[Running] = []

    def begin(*arguments: str, **environment: str) -> Running:
        running.append(Running(*arguments, **environment))
        return running[-1]

    yield begin
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.status == 200
        return answer.read().decode()


@pytest.mark.slow
def test_the_demo_writes_its_report_and_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenth of a minute's tenth: what is proved is the way, not the quality."""
    monkeypatch.setenv("LUXEL_DEMO_EXIT", "1")
    folder = tmp_path / "demo"
    assert main(["demo", "--run", str(folder), "--minutes", "0.02", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    line = re.search(r"^held-out PSNR: (\d+\.\d\d) dB$", printed, re.MULTILINE)
    assert line and float(line[1]) > 8
    assert "viewer:" not in printed and "CC BY 4.0" in printed
    record = json.loads((folder / "eval" / "report.json").read_text())
    assert len(record["views"]) == 9 and record["facts"]["background"] == "white"
    assert record["mean"]["psnr"] == pytest.approx(float(line[1]), abs=0.006)
    assert 0 < record["mean"]["lpips"] < 1.5
    assert main(["demo", "--run", str(folder), "--minutes", "0.001", "--device", "cpu"]) == 0, (
        "a demo can be repeated"
    )


@pytest.mark.slow
def test_the_demo_serves_while_it_trains_and_afterwards(tmp_path: Path, start: Start) -> None:
    arguments = ("--run", str(tmp_path / "demo"), "--minutes", "0.02", "--device", "cpu", "--port", "0")
    demo = start("demo", *arguments, LUXEL_DEMO_EXIT="0")
    url = demo.wait_for(r"viewer: (http://127\.0\.0\.1:\d+/)")[1]
    assert "held-out PSNR" not in demo.text, "the address must be printed before training"
    assert "<html" in page(url).lower()
    demo.wait_for(r"^held-out PSNR: \d+\.\d\d dB$")
    demo.wait_for(r"Ctrl-C ends the viewer")
    assert "<html" in page(url).lower()
    assert demo.end() == 0, demo.text
    assert "Traceback" not in demo.text


def test_view_serves_a_scene_until_ctrl_c(tmp_path: Path, start: Start) -> None:
    save_primitive_ply(tmp_path / "scene.ply", torus_knot(50))
    view = start("view", str(tmp_path / "scene.ply"), "--port", "0", "--device", "cpu")
    url = view.wait_for(r"viewer: (\S+)")[1]
    assert "<html" in page(url).lower()
    assert "50 Gaussians" in view.text
    view.wait_for("Ctrl-C ends the viewer")
    assert view.end() == 0 and "Traceback" not in view.text
