"""Part links: each path that a command writes, replaces or deletes in a run, capture or report is a link in turn.

What the link leads to must stay as it is; the command refuses and names the path, or ends well.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from .file_recorder.link_attacks import Attack, attack, attacks_on
from .file_recorder.scenarios import SCENARIOS, stage_of

_attacks: list[Attack] = []


def prepare(work: Path) -> None:
    """Records the commands, before the worker processes are forked."""
    stage = stage_of(work)
    for scenario in SCENARIOS:
        _attacks.extend(attacks_on(stage, scenario))


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Runs one command on a tree with one link."""
    planned = random.choice(_attacks)
    about = {"scenario": planned.scenario.name, "path": planned.path, "link": planned.link}
    if problem := attack(stage_of(work), planned):
        return {**about, "outcome": "link followed, or not refused", "ok": False, "detail": problem}
    return {**about, "outcome": f"{planned.link}: nothing changed outside", "ok": True}
