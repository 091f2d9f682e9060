"""Steering and following a training: options, the log of a run, and both panels in a real browser."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_controls import Controls
from page_driver import until
from shown import TrainingSession, ViewerApp

from luxel.render.errors import LuxelError
from luxel.render.train import TrainConfig, Trainer
from luxel.scenes import open as open_capture
from luxel.viewer.web.panels.steering import options_of, parsed
from luxel.viewer.web.training_log import MAX_POINTS, Series, TrainingLog


def test_numbers_of_the_configuration_are_offered() -> None:
    options = options_of(TrainConfig(max_gaussians=900).to_dict())
    assert list(options)[:3] == ["steps", "target_psnr", "target_minutes"] and "target_gigabytes" in options
    assert options["max_gaussians"] == 900 and options["target_psnr"] is None
    assert options["rates.means"] == 1.6e-4 and "strategy.growth" in options
    assert not {"seed", "batch", "primitive", "lpips", "strategy.kind", "deterministic"} & set(options)


def test_texts_are_read_as_numbers() -> None:
    assert parsed(" 1.6e-4 ", 0.1) == 1.6e-4 and parsed("30,000", 7000) == 30_000
    assert parsed("3e4", 7000) == 30_000 and isinstance(parsed("3e4", 7000), int)
    assert parsed("none", 5) is None and parsed("", None) is None
    for text in ("", "nan", "1e999", "NaN", "Infinity", "true", "[1]", '"5"', "1; 2", "0x10"):
        with pytest.raises(LuxelError, match="no number"):
            parsed(text, 5)


def test_the_log_of_a_run_is_followed(tmp_path: Path) -> None:
    log, file = TrainingLog(tmp_path), tmp_path / "metrics.jsonl"
    assert not log.poll(), "there is no file yet"
    lines = [
        {"step": 20, "count": 10, "loss": 0.5, "psnr": 20.0},
        {"step": 30, "count": 12, "split": 1200, "pruned": 3},
        {"step": 40, "seconds": 1.0, "test": {"psnr": 21.25}},
        {"step": 45, "changed": {"rates.means": 1e-4}},
        {"step": 50, "count": 12, "loss": math.nan, "psnr": None},
    ]
    whole = "".join(json.dumps(line) + "\n" for line in lines)
    file.write_text("damaged\n[]\n" + whole + '{"step": 60, "lo')
    assert log.poll() and not log.poll()
    assert log.series["loss"].steps == [20] and log.series["count"].values == [10, 12, 12]
    assert log.series["test_psnr"].values == [21.25]
    assert list(log.events) == [
        (30, "1,200 split, 3 pruned"),
        (40, "held-out PSNR 21.25 dB"),
        (45, "changed rates.means = 0.0001"),
    ]
    with open(file, "a") as more:
        more.write('ss": 0.25}\n')
    assert log.poll() and log.series["loss"].values == [0.5, 0.25], "a line came in two parts"
    file.write_text(json.dumps(lines[0]) + "\n")  # a resumed run drops what it writes again
    assert log.poll() and log.series["loss"].values == [0.5] and not log.events


def test_numbers_beyond_floats_are_left_out(tmp_path: Path) -> None:
    huge = "9" * 400
    lines = [f'{{"step": 10, "seconds": {huge}, "count": {huge}, "loss": 1e999, "test": {{"psnr": {huge}}}}}']
    lines += ['{"step": 20, "seconds": 1, "count": 5}', "[" * 50_000, f'{{"step": {huge}, "loss": 1}}']
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    log = TrainingLog(tmp_path)
    assert log.poll() and log.series["count"].values == [5]
    assert not log.series["test_psnr"].values and list(log.events) == []


def test_speed_and_memory_come_from_the_log(tmp_path: Path) -> None:
    log, file = TrainingLog(tmp_path), tmp_path / "metrics.jsonl"
    at = [(20, 1.0), (40, 1.5), (60, 2.0), (80, 4.0), (30, 0.5), (50, 1.5)]  # resumed after step 80
    lines = [{"step": step, "seconds": seconds, "memory": 2_000_000_000} for step, seconds in at]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert log.poll()
    assert log.series["speed"].steps == [60, 80, 50] and log.series["speed"].values == [40.0, 10.0, 20.0]
    assert log.series["memory"].values == [2.0] * 6


def test_long_series_are_thinned_out() -> None:
    long = Series()
    for step in range(10_000):
        long.add(step, 2.0 * step)
    assert MAX_POINTS // 2 <= len(long.steps) <= MAX_POINTS
    assert long.values == [2 * step for step in long.steps] and long.steps[-1] > 9000
    gaps = np.diff(long.steps)
    assert (gaps == gaps[0]).all()


@pytest.mark.slow
def test_a_run_is_steered_and_plotted_on_the_page(
    toy_capture: Path, tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    capture = open_capture(toy_capture)
    config = TrainConfig(steps=10**6, eval_every=0, report_every=1, lpips=False, max_gaussians=400)
    trainer = Trainer(
        config, capture.train, capture.test, capture.points, tmp_path / "run", say=lambda _: None
    )
    thread = threading.Thread(target=lambda: trainer.run(progress=False))
    thread.start()
    session = TrainingSession(trainer, capture.train, "knot", folder=tmp_path / "run")
    try:
        with ViewerApp(session, port=0) as app:
            page = open_page(app, width=1280, height=900)
            controls = Controls(page, app)
            controls.press("Training/Pause training")
            until(lambda: trainer.paused, "the button did not pause")
            trainer.between_steps(lambda: None).result(30)
            before = trainer.steps_done
            page.get_by_text("Steering", exact=True).click()
            controls.press("Steering/One step")
            until(lambda: trainer.steps_done == before + 1, "no single step was done")
            controls.set("Steering/Option", "End at PSNR, dB")
            until(lambda: controls.handle("Steering/Value").value == "none", "the value does not follow")
            controls.set("Steering/Value", "33.5")
            controls.press("Steering/Apply")
            until(lambda: trainer.config.target_psnr == 33.5, "the run has no target")
            controls.set("Steering/Option", "Length, steps")
            until(lambda: controls.handle("Steering/Value").value == "1000000", "the value does not follow")
            controls.set("Steering/Value", "about 500")
            controls.press("Steering/Apply")
            page.get_by_text("is no number").wait_for(timeout=60_000)
            option = controls.handle("Steering/Option")
            assert len(option.options) == 6 and "rates.means" not in option.options
            controls.set("Steering/All options", True)
            until(lambda: "rates.means" in controls.handle("Steering/Option").options, "not all are offered")
            controls.set("Steering/Value", str(before + 501))
            controls.press("Steering/Apply")
            until(lambda: trainer.config.steps == before + 501, "the run was not shortened")
            controls.press("Steering/Save")
            page.get_by_text(f"step-{before + 1:08d}").wait_for(timeout=60_000)
            page.get_by_text("Plots", exact=True).click()
            page.get_by_text(f"changed steps = {before + 501}").wait_for(timeout=60_000)
            assert page.locator(".uplot").count() >= 4, "PSNR, loss, count and memory"
            assert not page.get_by_text("PSNR of held-out views").count(), "there is none yet"
            page.mouse.move(1100, 700)
            page.mouse.wheel(0, 500)
            page.screenshot(path=tmp_path / "steering.png")
            controls.press("Steering/End")
            controls.press("Steering/Go on")
            page.get_by_text("End the training now?").wait_for(state="hidden")
            assert trainer.steps_done == before + 1 and not trainer.loop.reason
            controls.press("Steering/End")
            controls.press("Steering/End training")
            thread.join(60)
            page.get_by_text("The training has ended.").wait_for()
            assert not controls.handle("Steering/Apply").visible
            assert not page.get_by_text("after the present step").count()
            assert not thread.is_alive() and trainer.steps_done == before + 1
    finally:
        trainer.request_stop()
        thread.join(60)
