"""`luxel bench train --seeds`: the order of the runs, means and spread, failures of single seeds, peers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.train.config import TrainConfig
from luxel.scenes import Capture
from luxel.scenes import open as open_capture
from luxel.viewer.bench.compare import compare
from luxel.viewer.bench.train import curves, measure, variants
from luxel.viewer.bench.train import report as train_report
from luxel.viewer.bench.train.gsplat_settings import parse_settings
from luxel.viewer.bench.train.seeds import half_range, mean_curve, mean_result
from luxel.viewer.bench.train.variants import GsplatVariant, TrainVariant
from luxel.viewer.cli import main

CPU = torch.device("cpu")
QUICK = ["--steps", "8", "--evaluations", "2", "--no-lpips", "--device", "cpu"]
QUICK += ["--set", "init.sh_degree=1", "init.max_points=200", "strategy.kind=fixed"]


def single(seed: int, *psnr: float, peak: int | None = None, **more: Any) -> dict[str, Any]:
    """What a run leaves that was measured every ten steps; of an odd seed it takes twice as long."""
    slow = 1 + seed % 2
    way = [{"step": 10 * k, "seconds": float(slow * k), "psnr": score} for k, score in enumerate(psnr, 1)]
    steps, seconds = way[-1]["step"], way[-1]["seconds"]
    return {
        "seed": seed,
        "psnr": psnr[-1],
        "best_psnr": max(psnr),
        "final_minus_best": psnr[-1] - max(psnr),
        "ssim": 0.9,
        "lpips": None,
        "seconds": seconds,
        "steps": steps,
        "steps_per_s": steps / seconds,
        "step_ms": curves.step_milliseconds(way, steps, seconds),
        "reason": "steps",
        "count": 100 + seed,
        "whole_seconds": 2 * seconds,
        "peak_bytes": peak,
        "curve": way,
        "views_scores": [{"name": "a.png", "psnr": psnr[-1], "ssim": 0.9, "lpips": None}],
        **more,
    }


class Fake(TrainVariant):
    """A variant whose results depend on its seed; some of its seeds fail."""

    runs: list[tuple[str, str, int, int | None]]
    fails: tuple[int, ...] = ()

    def train(
        self, capture: Capture, device: torch.device, first: dict[str, Any] | None, keep: Any
    ) -> dict[str, Any]:
        seed = self.config.seed
        self.runs.append((capture.name, self.name, seed, None if first is None else first["count"]))
        if seed in self.fails:
            raise LuxelError(f"seed {seed} is bad.", "Take another.")
        result = single(seed, 20.0, 30.0 + 0.1 * seed)
        del result["seed"]
        return result


def fakes(*names: str, seed: int = 0, **fails: tuple[int, ...]) -> list[Any]:
    """Fake variants by name, with the seeds of each that fail, and one list of all their runs."""
    runs: list[Any] = []
    return [
        type("Fake", (Fake,), {"runs": runs, "fails": fails.get(name, ())})(name, TrainConfig(seed=seed))
        for name in names
    ]


@pytest.fixture(scope="module")
def capture(toy_capture: Path) -> Capture:
    return open_capture(toy_capture)


def cells(report: dict[str, Any], title: str) -> list[str]:
    """The cells of the first table under a title."""
    table = train_report.sections(report)[0].tables[0]
    return [row[list(table.head).index(title)] for row in table.rows]


def test_results_are_means_over_seeds() -> None:
    runs = [single(4, 20.0, 31.0, 30.0, peak=7), single(5, 22.0, 29.0, 30.5, peak=9)]
    mean = mean_result(runs)
    assert set(mean) == {*runs[0], "seeds"} - {"seed"}
    assert mean["psnr"] == 30.25 and mean["seconds"] == 4.5 and mean["whole_seconds"] == 9.0
    assert mean["steps"] == 30 and mean["count"] == 104 and mean["peak_bytes"] == 9
    assert mean["steps_per_s"] == 7.5 and mean["step_ms"] == {
        "mean": 150.0,
        "low": 150.0,
        "high": 150.0,
        "samples": 3,
    }
    assert [point["psnr"] for point in mean["curve"]] == [21.0, 30.0, 30.25]
    assert [point["seconds"] for point in mean["curve"]] == [1.5, 3.0, 4.5]
    # of the mean curve: the mean of the seeds' own best, 30.75, is above all of it
    assert mean["best_psnr"] == 30.25 and mean["final_minus_best"] == 0.0
    assert [run["seed"] for run in mean["seeds"]] == [4, 5] and mean["seeds"][0]["psnr"] == 30.0
    assert all("views_scores" not in run and run["curve"] for run in mean["seeds"])
    assert mean["views_scores"] == [{"name": "a.png", "psnr": 30.25, "ssim": 0.9, "lpips": None}]
    assert half_range(mean, "psnr") == 0.25 and half_range(mean, "final_minus_best") == 0.5


def test_what_is_missing_stays_missing() -> None:
    runs = [single(0, 20.0, math.nan), single(2, 20.0, 30.0, reason="target_psnr", gpu_state={"a": "1"})]
    runs[0] |= {"gpu_state": {}}
    mean = mean_result(runs)
    assert math.isnan(mean["psnr"]) and mean["lpips"] is None and mean["peak_bytes"] is None
    assert mean["reason"] == "steps, target_psnr" and mean["gpu_state"] == {}
    assert half_range(mean, "psnr") is None and half_range(mean, "lpips") is None
    alone = mean_result(runs[1:])
    assert half_range(alone, "psnr") is None and alone["psnr"] == 30.0 and len(alone["seeds"]) == 1
    assert mean_curve([[], []]) == []


def test_runs_that_end_at_different_steps_share_a_curve() -> None:
    longer, shorter = single(0, 20.0, 25.0, 30.0)["curve"], single(2, 20.0, 27.0)["curve"]
    assert [(p["step"], p["psnr"]) for p in mean_curve([longer, shorter])] == [
        (10, 20.0),
        (20, 26.0),
        (25, 28.5),
    ]
    shorter[1]["psnr"] = None
    assert mean_curve([longer, shorter])[1] == {"step": 20, "seconds": 2.0, "psnr": None}


def test_all_variants_train_with_one_seed_before_the_next(capture: Capture) -> None:
    both, lengths = fakes("luxel", "other", seed=3), []

    def on_row(report: dict[str, Any]) -> None:
        lengths.append([len(one["seeds"]) for one in report["rows"][-1]["results"].values()])

    report = measure.run([capture], both, CPU, on_row, seeds=3)
    name = capture.name
    assert both[0].runs == [
        (name, "luxel", 3, None),
        (name, "other", 3, 103),  # it is given the result of the same seed
        (name, "luxel", 4, None),
        (name, "other", 4, 104),
        (name, "luxel", 5, None),
        (name, "other", 5, 105),
    ]
    assert lengths == [[1], [1, 1], [2, 1], [2, 2], [3, 2], [3, 3]] and report["seeds"] == 3
    ours, theirs = report["rows"][0]["results"].values()
    assert ours["psnr"] == pytest.approx(30.4) and "ahead_from" not in ours
    assert theirs["ahead_from"] == curves.ahead_from(ours["curve"], theirs["curve"])
    assert cells(report, "PSNR (dB)") == ["30.40 ± 0.10"] * 2
    assert cells(report, "final − best (dB)") == ["0.00 ± 0.00"] * 2
    assert cells(report, "best PSNR (dB)") == ["30.40"] * 2 and cells(report, "seeds") == ["3 seeds"] * 2
    text = train_report.sections(report)[0].text
    assert "with 3 seeds" in text and "± stands half of the range" in text


def test_the_other_seeds_count_where_one_fails(capture: Capture, capsys: pytest.CaptureFixture[str]) -> None:
    both = fakes("luxel", "other", luxel=(0,), other=(1, 2))
    report = measure.run([capture], both, CPU, seeds=3)
    (row,) = report["rows"]
    assert list(row["failures"]) == ["luxel, seed 0", "other, seed 1", "other, seed 2"]
    assert [run[3] for run in both[0].runs] == [None, None, None, 101, None, 102]
    assert [run["seed"] for run in row["results"]["luxel"]["seeds"]] == [1, 2]
    assert list(row["results"]) == ["luxel", "other"]  # though the other ended a run first
    assert cells(report, "seeds") == ["2 of 3 seeds", "1 of 3 seeds"]
    assert cells(report, "PSNR (dB)") == ["30.15 ± 0.05", "30.00"]
    failed = train_report.sections(report)[-1].tables[0].rows
    assert [one[1] for one in failed] == list(row["failures"]) and "seed 0 is bad" in failed[0][2]
    err = capsys.readouterr().err
    assert f"{capture.name}, luxel, seed 1: 30.10 dB in 4.0 s" in err and "luxel, seed 0: " not in err


def test_one_seed_leaves_the_report_as_it_was(capture: Capture) -> None:
    report = measure.run([capture], fakes("luxel", "other"), CPU)
    assert "seeds" not in report and not report["rows"][0]["failures"]
    assert set(report["rows"][0]["results"]["luxel"]) == {*single(0, 1.0)} - {"seed"}
    assert cells(report, "PSNR (dB)") == ["30.00"] * 2
    (section,) = train_report.sections(report)
    assert "seeds" not in section.tables[0].head and "±" not in section.text


def test_reports_with_seeds_are_compared(capture: Capture) -> None:
    before = measure.run([capture], fakes("luxel"), CPU, seeds=3)
    after = measure.run([capture], fakes("luxel", seed=5), CPU, seeds=2)
    (row,) = compare(before, after).tables[0].rows
    assert row[1:3] == ["luxel", f"{row[2].split(',')[0]}, 20 steps"] and "30.10, 30.55, +0.45" in row
    assert compare(measure.run([capture], fakes("luxel"), CPU), after).tables[0].rows


def test_seeds_of_the_command(
    strict: Any, read_page: Any, toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(toy_capture), *QUICK, "seed=3", "--seeds", "2", "--out", str(tmp_path)]
    assert main(["bench", "train", *options]) == 0
    report = strict(tmp_path / "train.json")
    measured = report["rows"][0]["results"]["luxel"]
    assert report["seeds"] == 2 and report["variants"][0]["config"]["seed"] == 3
    three, four = measured["seeds"]
    assert (three["seed"], four["seed"]) == (3, 4) and three["psnr"] != four["psnr"]
    assert measured["psnr"] == pytest.approx((three["psnr"] + four["psnr"]) / 2)
    assert [point["step"] for point in measured["curve"]] == [1, 2, 4, 8]
    assert measured["curve"][-1]["psnr"] == pytest.approx(measured["psnr"])
    half = abs(three["psnr"] - four["psnr"]) / 2
    assert f"| {measured['psnr']:.2f} ± {half:.2f} |" in capsys.readouterr().out
    assert read_page(tmp_path / "train.html").count["svg"] == 2


def test_no_seed_is_refused(toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["bench", "train", str(toy_capture), *QUICK, "--seeds", "0", "--out", str(out)]) == 2
    assert "--seeds 0: this is out of bounds" in capsys.readouterr().err and not out.exists()


def test_gsplats_trainings_take_the_seeds(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int | None]] = []

    def train(
        settings: Any, capture: Capture, config: TrainConfig, device: Any, **more: Any
    ) -> dict[str, Any]:
        taken.append((config.seed, more["bound"]))
        result = single(config.seed, 20.0, 29.0)
        del result["seed"]
        return result

    monkeypatch.setattr(variants, "train_gsplat", train)
    (luxel,) = fakes("luxel", seed=7)
    peer = GsplatVariant("mcmc", parse_settings("gsplat-mcmc:count=luxel"), luxel.config, 10)
    report = measure.run([capture], [luxel, peer], CPU, seeds=2)
    assert taken == [(7, 107), (8, 108)] and luxel.config.seed == 7
    assert [run["seed"] for run in report["rows"][0]["results"]["mcmc"]["seeds"]] == [7, 8]
