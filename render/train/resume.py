"""Reads the configuration and the state that a run is resumed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoint import Checkpoint, load_newest
from luxel.render.runs.plain import errors_naming
from luxel.render.runs.resume import with_overrides
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
)  # entries of config.json that the trainer writes itself


class Past(NamedTuple):
    """A stopped run: its configuration with overrides, its newest checkpoint, and further entries of config.json."""

    config: TrainConfig
    start: Checkpoint
    about: dict[str, Any]


def read_config(folder: Path) -> tuple[TrainConfig, dict[str, Any]]:
    """The configuration of a run of primitives, and all of its config.json.

    Raises:
        LuxelError: there is no run, its config.json cannot be read, or it is the run of a neural field.
    """
    body = RunFolder.read_body(folder)
    if "field" in body["config"]:
        raise LuxelError(
            f"{folder}: this is a run of a neural field.",
            "Neural fields can be trained further, viewed, evaluated and rendered.",
        )
    with errors_naming(Path(folder) / "config.json"):
        return TrainConfig.from_run(body["config"], float(body.get("extent", 1.0))), body


def require_resumable(folder: Path, body: dict[str, Any]) -> None:
    """Raises LuxelError if the config.json of a run, ``body``, enables options that no longer exist."""
    if removed := TrainConfig.removed_in_use(body["config"]):
        raise LuxelError(
            f"{folder}: this run uses {' and '.join(removed)}, which luxel no longer has.",
            "Start a new run, or resume this one with the version of luxel that it was started with. It can still be "
            "viewed, evaluated and rendered.",
        )


def reconfigured(config: TrainConfig, overrides: dict[str, Any]) -> TrainConfig:
    """A configuration with changed values, checked.

    Args:
        config: of a run.
        overrides: by dotted name, such as {"rates.means": 1e-4}.

    Raises:
        LuxelError: an unknown name or an invalid value, or one that a run cannot change.
    """
    changed = TrainConfig.from_dict(with_overrides(config.to_dict(), overrides))
    for name in ("primitive", "backend"):
        if getattr(changed, name) != getattr(config, name):
            raise LuxelError(f"{name}: a run cannot change it.", "Start a new run.")
    changed.check()
    return changed


def read_run(
    folder: Path, train_views: Sequence[View], overrides: dict[str, Any], say: Callable[[str], None]
) -> Past:
    """Reads the newest intact checkpoint of a run.

    Args:
        folder: of the run.
        train_views: must be those that the run was started with.
        overrides: changed configuration by dotted name.
        say: receives messages about damaged checkpoints.

    Raises:
        LuxelError: no run, no intact checkpoint, an unknown name, an option that no longer exists, or different
            training views.
    """
    config, body = read_config(folder)
    require_resumable(folder, body)
    changed = TrainConfig.from_dict(with_overrides(config.to_dict(), overrides))
    start = load_newest(folder / "checkpoints", say)
    before = start.state["train_views"]
    if before != [view.name for view in train_views]:
        raise LuxelError(
            f"{folder}: the training views of the capture differ from those that this run was started with "
            f"({len(train_views)} now, {len(before)} then).",
            "Restore its images and hold-out rule, or start a new run.",
        )
    return Past(changed, start, {name: value for name, value in body.items() if name not in OWN})
