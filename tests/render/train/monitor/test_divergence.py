"""Parameters that stop being numbers during a run: a few are removed and said, many end it with its last checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints.checkpoint import load_newest
from luxel.render.train.config import Checkpoints
from luxel.render.train.densify import FixedCount, McmcStrategy, SplitStrategy


def poison(step: int, rows: int, value: float = math.nan) -> Callable[[Any], None]:
    """Spoils the centres of the first primitives after a step."""

    def spoil(run: Any) -> None:
        if run.steps_done == step:
            run.synchronize()
            run.scene.means[:rows] = value

    return spoil


@pytest.mark.parametrize(
    "strategy", [FixedCount(), SplitStrategy(), McmcStrategy()], ids=lambda s: s.about[:6]
)
def test_many_end_the_run_and_the_last_checkpoint_is_whole(
    toy: Any, tmp_path: Path, strategy: Any, device: torch.device
) -> None:
    config = toy.config(steps=60, strategy=strategy, checkpoints=Checkpoints(every=20, minutes=0, keep=9))
    trainer = toy.trainer(tmp_path / "run", config, device=device)
    with pytest.raises(
        LuxelError, match=r"diverged by step \d+: .*not finite \(means 150.* --resume"
    ) as error:
        trainer.run(poison(45, 150), progress=False)
    assert "Lower the learning rates" in error.value.remedy
    newest = load_newest(tmp_path / "run" / "checkpoints", print)
    assert newest.step == 40 and all(
        t.isfinite().all() for t in newest.tensors.values() if t.is_floating_point()
    )
    resumed = toy.resume(tmp_path / "run", overrides={"steps": 50}, device=device).run(progress=False)
    assert resumed.step == 50, "the remedy works"


def test_a_few_are_removed_and_said(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=30))
    result = trainer.run(poison(25, 2, math.inf), progress=False)
    assert result.step == 30 and trainer.scene.count == 298
    assert any("2 of 300 Gaussians have parameters that are not finite (means 2" in line for line in toy.said)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["non_finite"]["means"] for line in lines if "non_finite" in line] == [2]


def test_the_end_of_a_run_without_checkpoints(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=30))
    with pytest.raises(LuxelError, match="There is no checkpoint from before: start a new run"):
        trainer.run(poison(30, 300), progress=False)
    assert (
        not list((tmp_path / "run" / "checkpoints").glob("*.json"))
        and not (tmp_path / "run" / "scene.ply").exists()
    )
