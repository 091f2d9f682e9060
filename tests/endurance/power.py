"""Part power: the power fails after each call of a command that changes files; what was reported as saved is there.

A trial records a command and replays every prefix of its calls on a model of a disk: what was not flushed is lost or
torn, or a random choice of it is there.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from .file_recorder.power_cut import cut_power
from .file_recorder.scenarios import SCENARIOS, stage_of


def prepare(work: Path) -> None:
    """Each worker process prepares its own trees."""


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Cuts the power at every moment of one command."""
    scenario = random.choice(SCENARIOS)
    outcome = cut_power(stage_of(work), scenario, random, choices=4)
    about = {"scenario": scenario.name, "moments": outcome.moments, "trees": outcome.trees}
    if outcome.faults:
        return {
            **about,
            "outcome": "lost or torn",
            "ok": False,
            "detail": "; ".join(outcome.faults.values())[:1000],
        }
    return {**about, "outcome": f"{scenario.name}: nothing lost", "ok": True}
