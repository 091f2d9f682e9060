"""`luxel bench train`: what it measures during training, what it ranks, and the settings of each variant."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.train.config import TrainConfig
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset
from luxel.scenes import open as open_capture
from luxel.viewer.bench.train import curves, measure
from luxel.viewer.bench.train import report as train_report
from luxel.viewer.bench.train.measure import early_steps
from luxel.viewer.bench.train.variants import TrainVariant, parse_variant
from luxel.viewer.cli import main
from luxel.viewer.commands.bench import TrainBench

CPU = torch.device("cpu")
QUICK_TRAINING = ["--steps", "24", "--evaluations", "3", "--no-lpips", "--device", "cpu"]
QUICK_TRAINING += [
    "--set",
    "init.sh_degree=1",
    "init.max_points=500",
    "strategy.kind=fixed",
    "report_every=4",
]


def curve(*points: tuple[float, float | None]) -> list[dict[str, Any]]:
    """Points (seconds, PSNR), one every ten steps."""
    return [{"step": 10 * k, "seconds": t, "psnr": psnr} for k, (t, psnr) in enumerate(points, start=1)]


def result(*points: tuple[float, float | None]) -> dict[str, Any]:
    """What a run leaves that went this way."""
    way = curve(*points)
    final, best = way[-1]["psnr"], curves.best_psnr(way)
    return {
        "psnr": final,
        "best_psnr": best,
        "final_minus_best": final - best,
        "ssim": 0.9,
        "lpips": None,
        "seconds": way[-1]["seconds"],
        "steps": way[-1]["step"],
        "steps_per_s": 1.0,
        "step_ms": curves.step_milliseconds(way, way[-1]["step"], way[-1]["seconds"]),
        "count": 5,
        "peak_bytes": None,
        "curve": way,
    }


def report_of(**results: dict[str, Any]) -> dict[str, Any]:
    """A report of one capture; all trained with the same settings."""
    row = {"scene": "a", "width": 4, "height": 3, "held_out": 1, "failures": {}, "results": results}
    return {
        "rows": [row],
        "variants": [{"name": name, "differences": {}} for name in results],
        "definitions": {"ahead_from": curves.AHEAD_FROM.format(first="luxel")},
    }


def column(report: dict[str, Any], title: str) -> list[str]:
    """The cells of the first table under a title."""
    table = train_report.sections(report)[0].tables[0]
    return [cells[list(table.head).index(title)] for cells in table.rows]


def test_training_gives_the_way_there(
    strict: Any, read_page: Any, toy_capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path)]
    assert main(["bench", "train", *options]) == 0
    report = strict(tmp_path / "train.json")
    (row,), (one,) = report["rows"], report["variants"]
    measured = row["results"]["luxel"]
    assert [point["step"] for point in measured["curve"]] == [1, 2, 4, 8, 16, 24]
    assert measured["curve"][-1]["psnr"] == pytest.approx(measured["psnr"]) and measured["psnr"] > 10
    seconds = [point["seconds"] for point in measured["curve"]]
    assert seconds[0] > 0 and seconds == sorted(seconds) and seconds[-1] == measured["seconds"]
    assert measured["steps"] == 24 and measured["steps_per_s"] == pytest.approx(24 / measured["seconds"])
    assert measured["best_psnr"] == max(point["psnr"] for point in measured["curve"])
    assert measured["final_minus_best"] == pytest.approx(measured["psnr"] - measured["best_psnr"])
    assert one["config"]["strategy"]["kind"] == "fixed" and row["held_out"] == 2
    assert measured["step_ms"]["samples"] == 6 and "ahead_from" not in measured
    assert measured["step_ms"]["mean"] == pytest.approx(1e3 * measured["seconds"] / 24)
    assert read_page(tmp_path / "train.html").count["svg"] == 2
    assert f"{measured['psnr']:.2f}" in capsys.readouterr().out


def test_measuring_takes_no_training_time(
    strict: Any, toy_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluation that takes a quarter of a second is no part of the seconds of training."""
    import time

    from luxel.render.train import trainer

    def slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.25)
        return measured(*arguments, **options)

    measured = trainer.measured
    monkeypatch.setattr(trainer, "measured", slowly)
    assert main(["bench", "train", str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path)]) == 0
    result = strict(tmp_path / "train.json")["rows"][0]["results"]["luxel"]
    assert len(result["curve"]) == 6 and result["whole_seconds"] > 6 * 0.25
    assert result["whole_seconds"] - result["prepare_seconds"] - result["seconds"] > 6 * 0.25


def test_both_train_alike(strict: Any, peer: Any, toy_capture: Path, tmp_path: Path) -> None:
    """The stand-in draws what luxel draws, but for the cap of alpha: so both end with the same scene."""
    peer()
    options = [str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path), "--against", "gsplat"]
    assert main(["bench", "train", *options]) == 0
    report = strict(tmp_path / "train.json")
    (row,) = report["rows"]
    ours, theirs = row["results"]["luxel"], row["results"]["gsplat"]
    assert ours["psnr"] == pytest.approx(theirs["psnr"], abs=0.05) and ours["count"] == theirs["count"]
    assert train_report.ranked(row) == {"luxel": True, "gsplat": True}
    assert [one["differences"] for one in report["variants"]] == [{}, {}]
    assert theirs["ahead_from"] == curves.ahead_from(ours["curve"], theirs["curve"])


def test_a_competitor_trains_with_settings_of_its_own(
    strict: Any,
    read_page: Any,
    peer: Any,
    toy_capture: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    peer()
    own = "gsplat:steps=40,strategy.kind=adaptive,rates.means=1e-3"
    options = [str(toy_capture), *QUICK_TRAINING, "--out", str(tmp_path)]
    options += ["--against", "gsplat", "--against", own, "--against", "gsplat"]
    assert main(["bench", "train", *options]) == 0
    report = strict(tmp_path / "train.json")
    (row,) = report["rows"]
    assert list(row["results"]) == [one["name"] for one in report["variants"]] == ["luxel", "gsplat", own]
    differences = {
        "strategy.kind": ["fixed", "adaptive"],
        "steps": [24, 40],
        "rates.means": [1.6e-4, 1e-3],
    }
    assert [one["differences"] for one in report["variants"]] == [{}, {}, differences]
    measured = row["results"][own]
    assert [point["step"] for point in measured["curve"]] == [1, 3, 6, 13, 26, 39, 40]
    assert measured["steps"] == 40 and (measured["ahead_from"] == "never" or measured["ahead_from"] > 0)
    out = capsys.readouterr().out
    assert f"| {own} |" in out and "luxel ahead from (s)" in out
    text = (tmp_path / "train.md").read_text()
    assert (
        f"| {own} | rates.means | 0.00016 | 0.001 |" in text and report["definitions"]["ahead_from"] in text
    )
    page = read_page(tmp_path / "train.html")
    assert (
        page.count["table"] == 2
        and f"<li><i class=s2></i>{own}</li>" in (tmp_path / "train.html").read_text()
    )


def test_settings_of_a_competitor_are_those_of_set() -> None:
    first = TrainBench(captures=(), preset="fast", set=("background=white", "rates.quats=5e-3"))
    base = first.configuration(torch.device("cpu"))
    same = parse_variant("gsplat", base, 10).config
    assert (same.backend, same.steps, same.rates) == ("gsplat", base.steps, base.rates)
    changed = parse_variant("luxel:strategy.growth=0.2,steps=50", base, 10)
    assert changed.config.strategy == replace(base.strategy, growth=0.2)
    assert (changed.config.steps, changed.config.eval_every) == (50, 5) and changed.config.loss == base.loss
    default = preset("default")
    named = parse_variant("gsplat:preset=default,strategy.kind=adaptive,steps=7000", base, 10).config
    assert named.strategy == AdaptiveStrategy() and named.rates == default.rates
    assert (named.steps, named.eval_every, named.background) == (7000, 700, "white")
    assert named.save_renders == base.save_renders == 0 and named.lpips == base.lpips
    assert parse_variant("gsplat:eval_every=9", base, 10).config.eval_every == 9


def test_differences_leave_out_what_another_strategy_lacks() -> None:
    config = TrainConfig.from_dict({"strategy": {"kind": "adaptive", "refine_every": 50}, "eval_every": 7})
    differences = TrainVariant("x", config).differences(preset("fast"))
    assert differences["strategy.kind"] == ("split", "adaptive") and differences["strategy.refine_every"] == (
        None,
        50,
    )
    assert differences["steps"] == (3600, 30_000) and differences["resolution.halvings"] == (2, 0)
    assert "eval_every" not in differences and "strategy.growth" not in differences
    assert TrainVariant("x", preset("fast")).differences(preset("fast")) == {}


def test_the_first_interval_is_halved() -> None:
    assert early_steps(TrainConfig(steps=7000, eval_every=700)) == {350, 175, 87, 43}
    assert early_steps(TrainConfig(steps=40, eval_every=4)) == {2, 1}
    assert not early_steps(TrainConfig(steps=40, eval_every=0))
    assert early_steps(TrainConfig(steps=5, eval_every=16)) == {4, 2, 1}


def test_a_training_that_loses_quality_is_not_ranked() -> None:
    def both(psnr: float) -> dict[str, Any]:
        return report_of(luxel=result((2.0, 28.0), (4.0, 30.0)), gsplat=result((1.0, psnr - 2), (2.0, psnr)))

    assert train_report.ranked(both(29.8)["rows"][0]) == {"luxel": True, "gsplat": False}
    assert column(both(29.8), "verdict") == ["fastest", "not ranked !"]
    # luxel passes 29.95 dB at 3.95 s of its 4 s
    assert column(both(29.95), "verdict") == ["1.97x slower", "fastest"]


def test_overfitting_shows() -> None:
    report = report_of(luxel=result((1.0, 28.0), (2.0, 30.0), (3.0, 29.25)))
    assert column(report, "PSNR (dB)") == ["29.25"] and column(report, "best PSNR (dB)") == ["30.00"]
    assert column(report, "final − best (dB)") == ["-0.75"]


@pytest.mark.parametrize(
    ("first", "other", "since"),
    [
        ([(1, 20), (2, 25)], [(2, 20), (4, 25)], 1.0),  # ahead at once
        ([(2, 20), (3, 30)], [(1, 10), (4, 25)], 2.0),  # the other was measured first
        ([(1, 20), (2, 25), (6, 30)], [(1.5, 22), (4, 26), (5, 28)], 6.0),  # lost again on the way
        (
            [(1, 20), (2, 30), (3, 28)],
            [(2.5, 29), (9, 30)],
            1.0,
        ),  # the best so far counts; it stays after the end
        ([(1, 20), (2, 30)], [(2.5, 29), (9, 30.1)], "never"),
        ([(1, 20), (9, 31)], [(2, 30)], 9.0),  # the other keeps its best too
        ([(1, 20)], [(1, 20)], 1.0),
        ([(1, None), (2, 25)], [(1.5, 20), (3, None)], 2.0),
        ([], [(1, 20)], None),
        ([(1, 20)], [(1, None)], None),
    ],
)
def test_ahead_from(first: list[Any], other: list[Any], since: float | str | None) -> None:
    assert curves.ahead_from(curve(*first), curve(*other)) == since


def test_ahead_from_is_told_in_the_table() -> None:
    report = report_of(luxel=result((1.0, 30.0)), gsplat=result((1.0, 29.0)), other=result((1.0, 31.0)))
    report["rows"][0]["results"]["gsplat"]["ahead_from"] = 1.0
    report["rows"][0]["results"]["other"]["ahead_from"] = "never"
    assert column(report, "luxel ahead from (s)") == ["–", "1.00", "never"]


def test_seconds_to_a_psnr_are_interpolated() -> None:
    way = curve((1.0, 20.0), (3.0, 24.0), (5.0, None))
    assert curves.seconds_to(way, 22.0) == 2.0 and curves.seconds_to(way, 19.0) == 1.0
    assert np.isnan(curves.seconds_to(way, 25.0)) and np.isnan(curves.seconds_to([], 1.0))


def test_milliseconds_per_step_are_of_long_stretches() -> None:
    way = [{"step": step, "seconds": t} for step, t in ((4, 3.0), (100, 4.0), (105, 4.0), (1000, 13.05))]
    milliseconds = curves.step_milliseconds(way, 1000, 13.05)
    # 4 and 105 are less than 1 % of the run after what was before
    assert milliseconds == pytest.approx({"mean": 13.05, "low": 9.05 / 900 * 1e3, "high": 40.0, "samples": 2})
    assert curves.step_milliseconds([], 10, 1.0) == {"mean": 100.0, "low": 100.0, "high": 100.0, "samples": 0}
    assert curves.step_milliseconds([], 0, 0.0) is None


def test_presets_are_taken(toy_capture: Path) -> None:
    config = TrainBench(captures=(toy_capture,), preset="fast").configuration(torch.device("cpu"))
    assert config.steps == preset("fast").steps and config.strategy == preset("fast").strategy
    config = TrainBench(captures=(toy_capture,), preset="fast", steps=70).configuration(torch.device("cpu"))
    assert (config.steps, config.eval_every, config.loss) == (70, 7, preset("fast").loss)


def test_the_warm_up_is_short_whatever_gives_the_steps(
    toy_capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("luxel.render.train.config.FEWEST_STEPS", 30)
    make, lengths = measure._trainer, []

    def recorded(*arguments: Any, **options: Any) -> Any:
        trainer = make(*arguments, **options)
        lengths.append(trainer.config.steps)
        return trainer

    monkeypatch.setattr(measure, "_trainer", recorded)
    bench = TrainBench(captures=(toy_capture,), preset="fast", lpips=False, set=("init.max_points=300",))
    config = replace(bench.configuration(CPU), steps_by_size=1, strategy=FixedCount())
    result = measure.train_once(config, open_capture(toy_capture), CPU)
    assert lengths == [measure.WARM_UP_STEPS["cpu"], 30] and result["steps"] == 30


def test_primitives_are_compared(strict: Any, tmp_path: Path, toy_capture: Path) -> None:
    words = "luxel:primitive=gaussians,steps=3,init.max_points=200,rates.quats=0.002"
    options = ["--steps", "3", "--evaluations", "1", "--device", "cpu", "--set", "init.max_points=200"]
    out = tmp_path / "bench"
    command = [
        "bench",
        "train",
        str(toy_capture),
        "--primitive",
        "convexes",
        "--against",
        words,
        "--out",
        str(out),
    ]
    assert main([*command, *options]) in (0, 1)
    results = strict(out / "train.json")["rows"][0]["results"]
    sizes = {name: result["scene_mb"] / result["count"] for name, result in results.items()}
    assert sizes["luxel"] == pytest.approx(4e-6 * 70) and sizes[words] == pytest.approx(4e-6 * 59)
    page = (out / "train.html").read_text()
    assert "rates.quats" in page and "rates.points" not in page and "primitive" in page


def test_a_measurement_begins_without_the_memory_of_the_last_run(
    toy_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[list[bool]] = []
    trainers: list[weakref.ref[Any]] = []
    new_trainer, quiet_device = measure._trainer, measure.quiet_device

    def kept(*args: Any, **options: Any) -> Any:
        trainers.append(weakref.ref(trainer := new_trainer(*args, **options)))
        return trainer

    def quiet(device: torch.device) -> dict[str, Any]:
        state = quiet_device(device)
        alive.append([trainer() is not None for trainer in trainers])
        return state

    monkeypatch.setattr(measure, "_trainer", kept)
    monkeypatch.setattr(measure, "quiet_device", quiet)
    config = replace(
        preset(), steps=3, lpips=False, save_renders=0, init=replace(preset().init, max_points=200)
    )
    capture = open_capture(toy_capture)
    gc.disable()
    try:
        for _ in range(2):
            measure.train_once(config, capture, CPU)
    finally:
        gc.enable()
    assert alive == [[False], [False, False, False]], "the warm-up's, and the first run's"
