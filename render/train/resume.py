"""Finds what a run needs to go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoint import Checkpoint, load_newest
from luxel.render.runs.run_folder import RunFolder
from luxel.render.train.config import TrainConfig

OWN = (
    "versions",
    "config",
    "seed",
    "device",
    "extent",
    "views",
    "background",
)  # what the trainer writes itself


class Past(NamedTuple):
    """A run as it was left: its configuration with the changes, its state, and what config.json says beyond."""

    config: TrainConfig
    start: Checkpoint
    about: dict[str, Any]


def read_run(
    folder: Path, train_views: Sequence[View], overrides: dict[str, Any], say: Callable[[str], None]
) -> Past:
    """Reads the newest whole checkpoint of a run.

    Args:
        folder: of the run.
        train_views: must be those that the run was started with.
        overrides: changed configuration by dotted name.
        say: told which checkpoints had to be passed over.

    Raises:
        LuxelError: no run, no whole checkpoint, an unknown name, or other views.
    """
    config, body = RunFolder.read_config(folder)
    values = config.to_dict()
    for name, value in overrides.items():
        *path, last = name.split(".")
        inner = values
        for part in path:
            inner = inner.get(part, {})
        inner[last] = value
    changed = TrainConfig.from_dict(values)
    start = load_newest(folder / "checkpoints", say)
    before = start.state["train_views"]
    if before != [view.name for view in train_views]:
        raise LuxelError(
            f"{folder}: the capture has other training views than this run was started with "
            f"({len(train_views)} now, {len(before)} then).",
            "Restore its photographs and hold-out rule, or start a new run.",
        )
    return Past(changed, start, {name: value for name, value in body.items() if name not in OWN})
