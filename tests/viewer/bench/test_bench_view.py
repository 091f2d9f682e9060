"""`luxel bench view`: frames that carry their camera, the report, and a real measurement."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.viewer.bench.view import measure
from luxel.viewer.bench.view import report as view_report
from luxel.viewer.bench.view.frames import TURN, PreparedFrames, position_of, read
from luxel.viewer.cli import main


def test_frame_carries_the_position_of_its_camera() -> None:
    frames = PreparedFrames(191, 144)
    for position in (0, 1, 37, TURN - 1):
        angle = 2 * math.pi * position / TURN
        camera = Camera.look_at(
            (3 * math.cos(angle), 3 * math.sin(angle), 0.5), (0, 0, 0), width=191, height=144
        )
        assert position_of(*camera.position[:2].tolist()) == position
        frame = frames(Gaussians.empty(0), camera)
        assert frame.rgb.shape == (144, 191, 3) and frame.alpha.shape == (144, 191)
        assert read(frame.rgb) == position


def test_missing_browser_is_an_error_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "view", "--browser", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    assert "--browser PATH" in capsys.readouterr().err


def test_report_shows_both_and_what_failed() -> None:
    row = {"path": "stream", "failures": {}, "image": "956x720", "latency_ms": 18.0, "latency_p95_ms": 26.0}
    failed = {"path": "viser", "failures": {"page": "no page"}}
    latency, failures = view_report.sections(
        {"rows": [row, failed], "window": "1280x720", "seconds": 10.0, "browser": "Chromium 1"}
    )
    assert latency.tables[0].rows[0][:5] == ["luxel's stream", "956x720", "–", "18.0", "26.0"]
    assert latency.tables[0].rows[1][2] == "–"
    assert failures.tables[0].rows == [["viser's messages", "page", "no page"]]


@pytest.mark.slow
def test_both_are_measured_in_a_browser(strict: Any, tmp_path: Path) -> None:
    if shutil.which(measure.CHROMIUM) is None:
        pytest.skip(f"there is no {measure.CHROMIUM}")
    assert main(["bench", "view", "--seconds", "3", "--size", "700x500", "--out", str(tmp_path)]) == 0
    report = strict(tmp_path / "view.json")
    assert [row["path"] for row in report["rows"]] == ["stream", "viser"]
    for row in report["rows"]:
        assert row["images"] > 0 and 0 < row["latency_ms"] <= row["latency_p95_ms"]
    assert "viser's messages" in (tmp_path / "view.md").read_text()


@pytest.mark.slow
def test_a_slow_link_gets_video(strict: Any, tmp_path: Path) -> None:
    if shutil.which(measure.CHROMIUM) is None:
        pytest.skip(f"there is no {measure.CHROMIUM}")
    command = ["bench", "view", "--seconds", "3", "--warmup", "4", "--size", "700x500", "--megabits", "1.5"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    video, files, _ = strict(tmp_path / "view.json")["rows"]
    assert (video["path"], video["encoder"]) == ("stream", "H.264")
    assert (files["path"], files["encoder"]) == ("jpeg", "JPEG")
    assert 0 < video["kilobytes"] < files["kilobytes"] and video["latency_ms"] > 0
    assert "a link of 1.5 Mbit/s" in (tmp_path / "view.md").read_text()
