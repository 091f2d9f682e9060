"""Scores of models, and the report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from luxel.scenes.captures.colmap_process.score import ModelScore, PoseReport

GOOD = ModelScore("global", 50, 50, 0.6, 900.0, 5.5, 300, 0.98)


def test_what_lowers_a_score() -> None:
    assert GOOD.value > 0.95
    worse = [
        replace(GOOD, registered=30),
        replace(GOOD, agreement=0.5),
        replace(GOOD, reprojection_error=4.0),
        replace(GOOD, points_per_image=20.0),
    ]
    assert all(score.value < 0.8 * GOOD.value for score in worse)
    assert replace(GOOD, pairs=0, agreement=0.0).value == 0


@pytest.mark.parametrize(("agreement", "sure"), [(0.98, "sure"), (0.67, "fairly sure"), (0.3, "doubtful")])
def test_headline(agreement: float, sure: str) -> None:
    report = PoseReport(replace(GOOD, agreement=agreement), [GOOD], cut=3, lens="OPENCV")
    assert report.headline.startswith(f"the poses are {sure} (score ")
    assert "50 of 50 images" in report.headline and "0.60 pixels" in report.headline
    again = PoseReport.of_json(json.loads(json.dumps(report.as_json())))
    assert again == report
