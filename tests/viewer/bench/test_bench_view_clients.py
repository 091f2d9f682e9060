"""`luxel bench view --client python`: the clients, their link, the report and the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luxel.viewer.bench.compare import compare
from luxel.viewer.bench.view import report as view_report
from luxel.viewer.bench.view.client import orbit, summarize
from luxel.viewer.bench.view.frames import TURN, position_of
from luxel.viewer.bench.view.slow_link import TokenBucket
from luxel.viewer.cli import main


def test_link_passes_as_many_bytes_as_its_speed_allows() -> None:
    link = TokenBucket(1e6, burst=1500)
    assert link.delay(1500, 10.0) == 0, "a burst passes at once"
    assert link.delay(100_000, 10.0) == pytest.approx(0.1)
    assert link.delay(100_000, 10.05) == pytest.approx(0.15), "the first is still under way"
    assert link.delay(1000, 20.0) == 0, "after a pause only the burst is free"
    assert link.delay(1500, 20.0) == pytest.approx(0.001)


def test_cameras_circle_the_scene() -> None:
    first = np.concatenate([np.eye(3), [[3.0], [1.0], [0.5]]], axis=1).tolist()
    cameras = np.array(orbit(first, [1.0, 1.0, 0.0], [0.0, 0.0, 2.0], TURN)).reshape(TURN, 3, 4)
    assert np.allclose(cameras[:, :3, :3].transpose(0, 2, 1) @ cameras[:, :3, :3], np.eye(3))
    assert np.allclose(np.linalg.norm(cameras[:, :2, 3] - 1, axis=1), 2)
    assert [position_of(*(camera[:2, 3] - 1)) for camera in cameras] == list(range(TURN))


def test_summary_is_over_all_images_and_names_the_slowest() -> None:
    def client(latencies: list[float]) -> dict[str, Any]:
        costs = {"render_ms": [2.0] * len(latencies), "encode_ms": [1.0] * len(latencies)}
        return {"latencies": latencies, "images": len(latencies), "bytes": 1000 * len(latencies), **costs}

    row = summarize([client([10.0] * 19), client([30.0])], seconds=2.0)
    assert (row["latency_ms"], row["latency_p95_ms"], row["images"]) == (10.0, 10.0, 20)
    assert (row["fps"], row["slowest_fps"], row["kilobytes"]) == (5.0, 0.5, 1.0)


@pytest.mark.slow
def test_several_clients_are_measured_without_a_browser(strict: Any, tmp_path: Path) -> None:
    command = [
        "bench",
        "view",
        "--client",
        "python",
        "--seconds",
        "1",
        "--warmup",
        "0.5",
        "--size",
        "160x120",
    ]
    assert main([*command, "--clients", "1", "2", "--megabits", "50", "--out", str(tmp_path)]) == 0
    report = strict(tmp_path / "view.json")
    assert [row["clients"] for row in report["rows"]] == [1, 2]
    for row in report["rows"]:
        assert row["image"] == "160x120" and row["encoder"] and not row["failures"]
        assert row["images"] > 0 and row["slowest_fps"] > 0 and 0 < row["latency_ms"] <= row["latency_p95_ms"]
    assert "50 Mbit/s" in (tmp_path / "view.md").read_text()
    assert view_report.sections(report)[0].tables[0].rows[1][0] == "2"
    compared = compare(report, report).tables[0].rows
    assert len(compared) == 2 and "1.000x" in compared[0][3]


def test_options_that_a_browser_does_not_take_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "view", "--clients", "4", "--out", str(tmp_path)]) == 2
    assert "--client python" in capsys.readouterr().err
    assert main(["bench", "view", "--client", "python", "--clients", "0", "--out", str(tmp_path)]) == 2
