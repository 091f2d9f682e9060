"""The report of a run has the renders of its last evaluation, the same as if they were rendered once more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.metrics import evaluate as metrics
from luxel.render.storage.folder import OutputFolder
from luxel.viewer.cli import main
from luxel.viewer.reports.evaluation_report import Report
from luxel.viewer.reports.report_alongside import ReportAlongside

OPTIONS = ("--device", "cpu", "--steps", "2", "--max-gaussians", "300", "--no-lpips")


def files(run: Path) -> dict[str, bytes]:
    """Those of the report, without what differs between two reports of one run."""
    report = run / "eval"
    return {str(path.relative_to(report)): path.read_bytes() for path in (report / "images").iterdir()}


def test_nothing_is_rendered_twice(toy_capture: Path, tmp_path: Path, monkeypatch: Any) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("luxel.viewer.training.train_scene.score", None)
        assert main(["train", str(toy_capture), "--run", str(run), *OPTIONS]) == 0
    alongside, page = files(run), (run / "eval/index.html").read_text()
    assert len(alongside) == 6 and page.count("<section") == 2
    monkeypatch.setattr(ReportAlongside, "begin", lambda *_: None)
    again = tmp_path / "again"
    assert main(["train", str(toy_capture), "--run", str(again), *OPTIONS]) == 0
    assert files(again) == alongside
    cards = [text[text.index("<section") :] for text in (page, (again / "eval/index.html").read_text())]
    assert cards[0] == cards[1]


def test_a_report_that_cannot_be_begun_is_explained_at_the_end(
    toy_capture: Path, tmp_path: Path, monkeypatch: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    run, begin = tmp_path / "run", ReportAlongside.begin

    def foreign(self: ReportAlongside, views: Sequence[View]) -> Any:
        (run / "eval").mkdir()
        (run / "eval/index.html").write_text("mine")
        add = begin(self, views)
        assert add is None
        return add

    monkeypatch.setattr(ReportAlongside, "begin", foreign)
    assert main(["train", str(toy_capture), "--run", str(run), *OPTIONS]) == 0
    out, err = capfd.readouterr()
    assert "no report was written; the run is complete" in err and "held-out PSNR" in out
    assert (run / "eval/index.html").read_text() == "mine"


def test_an_evaluation_that_begins_again_starts_the_report_anew(
    toy_capture: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    begin, begun = ReportAlongside.begin, []

    def twice(self: ReportAlongside, views: Sequence[View]) -> Any:
        begun.append(len(views))
        add = begin(self, views)
        if len(begun) == 1 and add is not None:
            pixels = torch.zeros(48, 64, 3)
            add(views[0], metrics.ViewScore(views[0].name, 1.0, 1.0, 1.0, 64, 48), pixels, pixels)
            raise MemoryError
        return add

    monkeypatch.setattr(ReportAlongside, "begin", twice)
    monkeypatch.setattr("luxel.viewer.training.train_scene.score", None)
    run = tmp_path / "run"
    assert main(["train", str(toy_capture), "--run", str(run), *OPTIONS]) == 0
    assert begun == [2, 2] and len(files(run)) == 6


def test_a_report_that_fails_meanwhile_is_written_as_ever(
    toy_capture: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    add, failed = Report.add, []

    def fail_once(self: Report, view: Any) -> None:
        if not failed:
            failed.append(view.name)
            raise LuxelError("The disk is full.", "Free some space.")
        add(self, view)

    monkeypatch.setattr(Report, "add", fail_once)
    run = tmp_path / "run"
    assert main(["train", str(toy_capture), "--run", str(run), *OPTIONS]) == 0
    assert failed and len(files(run)) == 6
    assert not [path for path in (run / "eval/images").iterdir() if path.suffix != ".jpg"]


def test_scores_of_another_evaluation_are_not_reported(tmp_path: Path) -> None:
    with ReportAlongside(lambda: OutputFolder(tmp_path)) as begun:
        other = metrics.Evaluation([metrics.ViewScore("a", 1.0, 1.0, 1.0, 8, 8)])
        assert begun.finish(other, title="", facts={}) is None
        assert begun.begin([]) is not None
        assert begun.finish(other, title="", facts={}) is None
    assert not (tmp_path / "index.html").exists()
