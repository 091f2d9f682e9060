"""`luxel bench segment`: what it measures, where its clicks are, what its report says, and its comparison."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, View
from luxel.render.primitives import Gaussians
from luxel.viewer.bench.compare import compare
from luxel.viewer.bench.segment import label_maps, measure
from luxel.viewer.bench.segment import report as segment_report
from luxel.viewer.bench.segment.scenes import LabelledScene
from luxel.viewer.cli import main

SMALL = ["--quick", "--device", "cpu", "--iterations", "2"]


@pytest.fixture(scope="module")
def measured_times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small measurement of times."""
    folder = tmp_path_factory.mktemp("segment")
    words = ["--only", "times", "--sizes", "64x48", "--labels", "3", "40", "--out", str(folder)]
    assert main(["bench", "segment", *SMALL, *words]) == 0
    return folder


def in_rows(*rows: list[int]) -> torch.Tensor:
    """A label map whose rows are given."""
    return torch.tensor(rows, dtype=torch.uint8)


def scene_of(truth: dict[str, torch.Tensor], count: int) -> LabelledScene:
    """A scene without primitives and its views."""
    camera = Camera.look_at((0, 0, 3), (0, 0, 0), up=(0, 1, 0), width=12, height=12)
    views = [View(name, camera, lambda: None) for name in truth]  # type: ignore[arg-type, return-value]
    return LabelledScene("made", Gaussians.empty(0), views, [], truth, count)


def test_times_are_checked_and_compared_with_the_colour_pass(strict: Any, measured_times: Path) -> None:
    report = strict(measured_times / "segment.json")
    assert report["kind"] == "segment" and [row["labels"] for row in report["rows"]] == [3, 40]
    for row in report["rows"]:
        assert not row["failures"] and row["pairs"] > 0 and max(row["off"].values()) < 1e-4
        assert row["times"]["colour"]["to_colour"] == 1
        assert row["times"]["votes"]["to_colour"] == pytest.approx(
            row["times"]["votes"]["median"] / row["times"]["colour"]["median"]
        )


def test_page_and_text_have_the_published_figures(measured_times: Path, read_page: Any) -> None:
    tags = read_page(measured_times / "segment.html")
    assert tags.count["svg"] == 2 and tags.count["table"] == 4
    text = (measured_times / "segment.md").read_text()
    assert "| SAGOnline | 27 (first masks: 97) |" in text and "| 206 | 1466 | 7.1 |" in text
    assert "RTX 4090" in text and "| luxel, 2,000 Gaussians, 40 labels |" in text


def test_two_reports_are_compared(
    strict: Any, measured_times: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = strict(measured_times / "segment.json")
    quality = {"part": "quality", "scene": "made", "provider": "ids", "primitive": "gaussians", "views": 6}
    before["rows"].append({**quality, "vote_ms": 2.0, "miou": 0.97, "failures": {}})
    after = copy.deepcopy(before)
    after["rows"][-1]["miou"] = 0.96
    rows = compare(before, after).tables[0].rows
    assert rows[-1] == ["made", "ids", "gaussians, 6 views", "2, 2, 1.000x", "97.00, 96.00, -1.00 !"]
    path = str(measured_times / "segment.json")
    assert main(["bench", "compare", path, path]) == 0
    assert "40 labels" in capsys.readouterr().out


def test_clicks_are_in_the_view_that_shows_most_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_maps, "MIN_PIXELS", 2)
    truth = {
        "one": in_rows([1, 1, 1], [1, 1, 1], [0, 0, 3]),
        "two": in_rows([1, 1, 2], [1, 1, 2], [0, 0, 0]),
        "three": in_rows([1, 3, 3], [0, 3, 3], [0, 3, 3]),
    }
    prompts = label_maps.clicks(scene_of(truth, 5))
    assert [(prompt.label, prompt.view) for prompt in prompts] == [(1, "two"), (2, "two"), (3, "three")]
    for prompt in prompts:
        x, y, inside = prompt.points[0]
        assert inside and int(truth[prompt.view][int(y), int(x)]) == prompt.label


def test_noise_moves_borders_and_drops_masks() -> None:
    labels = torch.arange(1, 9, dtype=torch.uint8).repeat_interleave(8)[None].expand(64, 64).contiguous()
    noisy = [label_maps.with_noise(labels, seed, 9) for seed in range(30)]
    missing = sum(9 - len(given.unique()) + int((given == 0).any()) - 1 for given in noisy)
    assert 0.1 < missing / (30 * 8) < 0.3
    whole = [given[:, 16 * k] for given in noisy for k in range(4) if bool((given == 2 * k + 1).any())]
    assert len(whole) > 30  # columns at borders: some pixels have the neighbour's label
    assert any(len(column.unique()) > 1 for column in whole)


def test_a_failure_is_reported_and_the_other_parts_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strict: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise LuxelError("The weights are gone.", "Install luxel again.")

    monkeypatch.setattr(measure.network, "measure", broken)
    words = ["--only", "network", "times", "--sizes", "32x32", "--labels", "3", "--out", str(tmp_path)]
    assert main(["bench", "segment", *SMALL, *words]) == 1
    report = strict(tmp_path / "segment.json")
    assert [bool(row["failures"]) for row in report["rows"]] == [False, True]
    assert segment_report.sections(report)[-1].title == "Failures"
    assert "The weights are gone" in capsys.readouterr().err


@pytest.mark.slow
def test_quality_of_every_provider(tmp_path: Path, strict: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--only", "quality", "--providers", "ids", "noisy-ids", "--views", "4"]
    words += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path)]
    assert main(["bench", "segment", *SMALL, *words]) == 0
    report = strict(tmp_path / "segment.json")
    assert {row["primitive"] for row in report["rows"]} == {"gaussians", "gaussians4d", "convexes", "surfels"}
    for row in report["rows"]:
        assert row["views"] == 4 and 0 <= row["least_iou"] <= row["miou"] <= 1 and row["vote_ms"] > 0
        assert 0 <= row["halo"] <= row["most_halo"] <= 1
        assert ("stability" in row) == (row["provider"] == "ids")

    def never(*arguments: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr("luxel.viewer.bench.segment.scenes.Trainer", never)
    assert main(["bench", "segment", *SMALL, *words, "--primitives", "gaussians"]) == 0
