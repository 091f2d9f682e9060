"""What `luxel demo` says of its result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from luxel.viewer.commands.demo import GOAL, USUAL_STEPS, remarks


def demo(psnr: float | None, **changed: Any) -> list[str]:
    """The remarks about a minute on the CPU with all of its cores and the usual number of steps."""
    values = {"step": USUAL_STEPS, "share": 0.95, "minutes": 1.0, "reason": "target_minutes", "device": "cpu"}
    values |= changed
    worked = values["share"] * 60 * torch.get_num_threads()
    trainer: Any = SimpleNamespace(
        loop=SimpleNamespace(cpu_seconds=worked),
        device=torch.device(values["device"]),
        config=SimpleNamespace(steps=10_000, target_minutes=values["minutes"]),
    )
    result: Any = SimpleNamespace(
        reason=values["reason"], step=values["step"], train_seconds=60.0, test_psnr=psnr
    )
    return remarks(trainer, result)


def test_steps_and_share_are_stated() -> None:
    (said,) = demo(GOAL + 1, share=0.87)
    assert f"{USUAL_STEPS:,} steps in 60 s" in said and "87% of" in said
    assert len(demo(None)) == 1
    assert "the GPU" in demo(GOAL + 1, device="cuda")[0]


@pytest.mark.parametrize(
    "changed, cause",
    [
        ({}, "usual number of steps"),
        ({"step": 10_000, "reason": "steps"}, "usual number of steps"),
        ({"step": 3000, "share": 0.5}, "other processes"),
        ({"step": 3000}, "slower than two free cores. `luxel demo --minutes 2`"),
        ({"step": 3000, "device": "cuda", "share": 0.1}, "slower than two free cores"),
        ({"step": 3000, "minutes": 0.5}, "less than a minute. `luxel demo --minutes 1`"),
        ({"step": 3000, "reason": "stopped"}, "stopped"),
    ],
)
def test_less_than_promised_is_explained(changed: dict[str, Any], cause: str) -> None:
    _, said = demo(GOAL - 0.1, **changed)
    assert f"below the {GOAL:.0f} dB" in said and cause in said
