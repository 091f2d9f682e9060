"""Skipped steps: counted in metrics, and the error of a run in which most are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_field_training import trainer

from luxel.render.errors import LuxelError
from luxel.render.fields.training import skipped_steps
from luxel.render.fields.training.skipped_steps import WINDOW, SkippedSteps


def test_counts_of_reports_and_the_share_that_is_too_much() -> None:
    counter = SkippedSteps(100)
    assert [counter.since_last(100 + 100 * i, 49 * i) for i in range(1, 30)] == [49] * 29
    counter = SkippedSteps()
    assert counter.since_last(WINDOW - 1, WINDOW - 1) == WINDOW - 1  # too few to say
    with pytest.raises(
        LuxelError, match=f"diverged by step 600: {WINDOW - 1} of the last 600 steps were skipped"
    ):
        counter.since_last(600, WINDOW - 1)
    counter = SkippedSteps()
    counter.since_last(10_000, 0)
    assert counter.since_last(10_400, 249) == 249 and counter.since_last(10_500, 250) == 1
    with pytest.raises(LuxelError, match="301 of the last 600"):
        counter.since_last(10_600, 301)


def poisoned(run: Any, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the gradients of all steps but every Nth one of a run not finite, with a finite loss."""
    loss, count = run.application.loss, iter(range(10**6))

    def broken(batch: Any) -> torch.Tensor:
        value = loss(batch)
        bad = next(count) % every != 0
        return value + (torch.sqrt((value - value) * 0.0) if bad else 0.0)  # the derivative of the root at 0

    monkeypatch.setattr(run.application, "loss", broken)


def test_skipped_steps_are_in_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer(tmp_path / "run", steps=20, report_every=10)
    poisoned(run, 5, monkeypatch)
    run.run()
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["skipped"] for line in lines if "loss" in line] == [8, 8]


def test_a_run_that_stands_still_ends_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skipped_steps, "WINDOW", 20)
    run = trainer(tmp_path / "run", steps=40, report_every=10, batch=8)
    poisoned(run, 10**6, monkeypatch)
    with pytest.raises(LuxelError, match=r"19 of the last 20 steps were skipped.*not finite") as error:
        run.run()
    assert "--rate" in error.value.remedy and "--precise" in error.value.remedy
