"""Changing a run while it trains: the same result as stopping and resuming, and requests between two steps."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.bounds import OutOfBounds
from luxel.render.errors import LuxelError
from luxel.render.train.config import Checkpoints
from luxel.render.train.densify import McmcStrategy, SplitStrategy

STRATEGIES = [
    SplitStrategy(refine_every=10, grow_grad2d=1e-6, pixels_each=1),
    McmcStrategy(refine_every=10),
]
CHANGES = {"steps": 90, "rates.means": 3e-4, "strategy.noise": 0.0, "sh_every": 5}


def short(toy: Any, strategy: Any) -> Any:
    return toy.config(
        steps=60,
        strategy=strategy,
        background="random",
        max_gaussians=400,
        checkpoints=Checkpoints(0, 0, 9),
        deterministic=True,
    )


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["split", "mcmc"])
def test_ends_like_a_run_that_was_stopped_and_resumed(
    toy_cutout: Any, tmp_path: Path, same_state: Any, strategy: Any, device: torch.device
) -> None:
    stopped = toy_cutout.trainer(tmp_path / "stopped", short(toy_cutout, strategy), device=device)
    stopped.run(lambda run: run.steps_done == 35 and run.request_stop(), progress=False)
    assert stopped.steps_done == 35
    resumed = toy_cutout.resume(tmp_path / "stopped", overrides=CHANGES, device=device)
    resumed.run(progress=False)

    steered = toy_cutout.trainer(tmp_path / "steered", short(toy_cutout, strategy), device=device)

    def steer(run: Any) -> None:
        if run.steps_done == 35:
            run.between_steps(lambda: run.reconfigure(CHANGES))

    result = steered.run(steer, progress=False)
    assert result.step == 90 and steered.config == resumed.config
    assert same_state(steered, resumed)
    kept = json.loads((tmp_path / "steered" / "config.json").read_text())
    assert kept["changes"] == [{"step": 35, "options": CHANGES}] and kept["config"]["steps"] == 90
    lines = [json.loads(line) for line in (tmp_path / "steered" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "changed" in line] == [35]
    again = toy_cutout.resume(tmp_path / "steered", overrides={"steps": 95})
    again.reconfigure({"steps": 96})
    assert [change["step"] for change in again._about["changes"]] == [35, 90]


def test_a_refused_change_changes_nothing(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=5))
    trainer.step()
    before, kept = trainer.config, (tmp_path / "run" / "config.json").read_text()
    refused = ({"rates.mean": 1.0}, {"steps": 0}, {"primitive": "convexes"}, {"strategy.growth": -1.0})
    for overrides in refused:
        with pytest.raises(LuxelError):
            trainer.reconfigure(overrides)
    with pytest.raises(LuxelError, match=r"backend: a run cannot change it\. Start a new run"):
        trainer.reconfigure({"backend": "gsplat"})
    assert trainer.config == before and (tmp_path / "run" / "config.json").read_text() == kept
    assert trainer.run(progress=False).step == 5


def test_requests_are_answered_in_the_thread_that_trains_also_while_paused(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=10**6))
    trainer.pause()
    thread = threading.Thread(target=lambda: trainer.run(progress=False))
    thread.start()
    try:
        assert trainer.between_steps(threading.get_ident).result(30) == thread.ident
        assert trainer.steps_done == 0
        for _ in range(3):
            trainer.step_once()
        failing = trainer.between_steps(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            failing.result(30)
        trainer.between_steps(lambda: trainer.reconfigure({"steps": 8})).result(30)
        trainer.resume_training()
    finally:
        trainer.resume_training()
        thread.join(60)
    assert trainer.steps_done == 8, "paused, single steps and a shorter run"
    with pytest.raises(LuxelError, match="ended"):
        trainer.between_steps(lambda: None).result(30)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rates.means", math.nan), ("steps", 10**30), ("strategy.growth", -1.0), ("loss.ssim_weight", 1.5)],
)
def test_the_bounds_are_those_of_the_command_line(toy: Any, tmp_path: Path, name: str, value: float) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=5, strategy=SplitStrategy()))
    before = trainer.config.to_dict()
    with pytest.raises(OutOfBounds) as refusal:
        trainer.reconfigure({name: value})
    assert refusal.value.name == name and trainer.config.to_dict() == before


def test_single_steps_are_as_many_as_asked_for(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=50))
    trainer.pause()
    thread = threading.Thread(target=lambda: trainer.run(progress=False))
    thread.start()
    try:
        for _ in range(3):
            trainer.step_once()
        assert trainer.paused
        while trainer.steps_done < 3:
            trainer.between_steps(lambda: None).result(30)
        assert trainer.between_steps(lambda: trainer.steps_done).result(30) == 3
    finally:
        trainer.request_stop()
        thread.join(60)
