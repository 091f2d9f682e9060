"""Reads the configuration and the state that a run is resumed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.primitives import PRIMITIVES
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError, load_newest
from luxel.render.runs.checkpoints.resume import has_other_data, require_state, with_overrides
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.identity import views_digest
from luxel.render.train.config import TrainConfig
from luxel.render.train.state import State, require_trainer_tensors

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


def read_config(folder: Path, say: Callable[[str], None] | None = None) -> tuple[TrainConfig, dict[str, Any]]:
    """The configuration of a run of primitives, and all of its config.json.

    Args:
        say: see `RunFolder.read_body`.

    Raises:
        LuxelError: there is no run, its config.json cannot be read, or it is the run of a neural field.
    """
    body = RunFolder.read_body(folder, say)
    if "field" in body["config"]:
        raise LuxelError(
            f"{folder}: this is a run of a neural field.",
            "Neural fields can be trained further, viewed, evaluated and rendered.",
        )
    try:
        return TrainConfig.from_run(body["config"], float(body.get("extent") or 1.0)), body
    except LuxelError as error:
        raise LuxelError(f"{folder / 'config.json'}: {error.problem}", error.remedy) from error
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise LuxelError(
            f"{folder / 'config.json'}: no configuration of a run ({type(error).__name__}: {error}).",
            "Restore that file from a copy, or start a new run.",
        ) from error


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
    config, body = read_config(folder, say)
    require_resumable(folder, body)
    changed = TrainConfig.from_dict(with_overrides(config.to_dict(), overrides))
    try:
        changed.check()
    except LuxelError as error:
        raise LuxelError(f"{folder / 'config.json'}: {error.problem}", error.remedy) from error
    names = [view.name for view in train_views]

    def usable(checkpoint: Checkpoint) -> None:
        require_state(checkpoint, State)
        require_trainer_tensors(checkpoint, PRIMITIVES[changed.primitive].engine.parameters)
        if not checkpoint.checked and checkpoint.state["train_views"] != names:
            raise CheckpointError(
                f"its training views are not the {len(names)} of the capture.",
                "Delete it, or give the capture that the run was started with.",
            )

    start = load_newest(folder / "checkpoints", say, body, usable)
    before = start.state["train_views"]
    if before != names:
        raise _other_views(folder, len(names), len(before))
    if has_other_data(body, views_digest(train_views)):
        raise LuxelError(
            f"{folder}: the sizes of the training images differ from those that this run was started with.",
            "Restore the images, or start a new run.",
        )
    return Past(changed, start, {name: value for name, value in body.items() if name not in OWN})


def _other_views(folder: Path, now: int, before: int) -> LuxelError:
    return LuxelError(
        f"{folder}: the training views of the capture differ from those that this run was started with "
        f"({now} now, {before} then).",
        "Restore its images and hold-out rule, or start a new run.",
    )
