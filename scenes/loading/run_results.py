"""The result of a run: its primitives or its neural field, from its file or its newest complete checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.files import FIELD_FILE, field_of_checkpoint, is_field, load_field
from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError, available, load_newest
from luxel.render.runs.folder.results import Result, examine
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.notices import print_once
from luxel.render.train.state import require_primitives
from luxel.scenes.files.scene_files import finite_primitives, load_primitives


class RunError(LuxelError):
    """A run folder cannot be used."""


def is_run(path: Path) -> bool:
    """Whether a folder looks like a run folder."""
    return path.is_dir() and any(
        (path / name).exists() for name in ("config.json", "scene.ply", "checkpoints")
    )


def run_folder(path: Path) -> Path:
    """The path of a run folder, checked.

    Raises:
        RunError: it does not exist, or is not a run folder.
    """
    if not path.exists():
        raise RunError(
            f"{path}: there is no such run.", "Check the path; `luxel train` makes runs below runs/."
        )
    if not is_run(path):
        raise RunError(f"{path}: this is no run of luxel.", "Give a folder that `luxel train` made.")
    return path


def load_run_scene(folder: Path, *, keep_non_finite: bool = False) -> Parameters:
    """The scene of a run, of whatever primitive: its scene.ply, or its newest complete checkpoint where it has not
    ended or its scene.ply is damaged or older.

    Args:
        keep_non_finite: see `luxel.scenes.files.scene_files.finite_primitives`.

    Raises:
        LuxelError: it has neither, or the checkpoint is of something else.
    """
    checkpoint = newer_checkpoint(folder, "scene.ply", _primitives_of)
    if checkpoint is None:
        return load_primitives(folder / "scene.ply", keep_non_finite=keep_non_finite)
    return finite_primitives(folder / "checkpoints", _primitives_of(checkpoint), keep=keep_non_finite)


def _primitives_of(checkpoint: Checkpoint) -> Parameters:
    """The primitives of a checkpoint.

    Raises:
        LuxelError: its tensors are not those of a primitive that luxel knows.
    """
    config = checkpoint.state.get("config", {})
    name = config.get("primitive", Gaussians.primitive) if isinstance(config, dict) else config
    if not isinstance(name, str) or name not in PRIMITIVES:
        raise RunError(
            f"it is of {name!r}, which is no primitive that luxel knows ({', '.join(PRIMITIVES)}).",
            "It may come from a newer version of luxel.",
        )
    return require_primitives(checkpoint, PRIMITIVES[name].engine.parameters)


def is_field_run(path: Path) -> bool:
    """Whether a folder is that of a run of a neural field."""
    return path.is_dir() and has_config(path) and "field" in RunFolder.read_body(path)["config"]


def retains_lenses(path: Path) -> bool:
    """Whether a folder is that of a run that was trained on images of distorted lenses (`--lens keep`)."""
    about = RunFolder.read_body(path).get("capture") if path.is_dir() and has_config(path) else None
    return isinstance(about, dict) and about.get("lens") == "keep"


def trained_background(path: Path) -> str:
    """The option ``background`` that a run was trained with; "auto" where it is not known."""
    config = RunFolder.read_body(path).get("config") if path.is_dir() and has_config(path) else None
    name = config.get("background") if isinstance(config, dict) else None
    return name if name in ("white", "black", "random") else "auto"


def has_capture(path: Path) -> bool:
    """Whether a folder is that of a run that was trained on a capture."""
    return path.is_dir() and has_config(path) and "capture" in RunFolder.read_body(path)


def load_run_field(folder: Path) -> Application:
    """The field of a run: its field.safetensors, or its newest complete checkpoint where it has not ended or its
    field.safetensors is damaged or older.

    Raises:
        LuxelError: it has neither.
    """
    checkpoint = newer_checkpoint(folder, FIELD_FILE, field_of_checkpoint)
    if checkpoint is None:
        return load_field(folder / FIELD_FILE)
    return field_of_checkpoint(checkpoint)


def newer_checkpoint(folder: Path, name: str, check: Callable[[Checkpoint], object]) -> Checkpoint | None:
    """The newest complete checkpoint of a run where it has to stand for the run's result; None: the result is used.

    It has to where there is no result, where the result is damaged, replaced, of another run or cannot be checked, and
    where the checkpoint is of a later step. What is wrong, and what is used instead, is printed.

    Args:
        folder: of the run.
        name: of the result: scene.ply or field.safetensors.
        check: raises LuxelError for a checkpoint that cannot stand for it; an older one is used then.

    Raises:
        LuxelError: neither can be used.
    """
    path, checkpoints = folder / name, folder / "checkpoints"
    run = RunFolder.read_body(folder) if has_config(folder) else None
    result, saved = examine(path, run), available(checkpoints)
    reason = result.problem or result.note
    full = path.is_file() and not reason  # as far as this can be known
    if full and (result.step is None or not saved or saved[0][0] <= result.step):
        return None
    said: list[str] = []
    try:
        checkpoint = load_newest(checkpoints, said.append, run, check)
    except CheckpointError as error:
        return None if full else _without_checkpoint(path, result, error if saved else None)
    if full and result.step is not None and checkpoint.step <= result.step:
        return None
    if full:
        reason = f"{path}: is of step {result.step}, and training has gone on."
    for message in said:
        print_once(message)
    if reason:
        print_once(f"{reason} Using the checkpoint of step {checkpoint.step} instead.")
    return checkpoint


def _without_checkpoint(path: Path, result: Result, error: CheckpointError | None) -> None:
    """Prints that a result is used unchecked; raises LuxelError if it cannot be used."""
    if path.is_file() and not result.problem:
        print_once(f"{result.note} It is used as it is.")
        return
    if result.problem:
        raise RunError(
            f"{result.problem} {error.problem if error else 'There is no checkpoint to use instead.'}",
            f"Restore it from a copy; `luxel view {path}` shows the file as it is.",
        )
    if error is not None:
        raise error
    raise RunError(
        f"{path.parent}: this run has neither a {path.name} nor a checkpoint yet.",
        f"Let it train: luxel train --resume {path.parent}",
    )


def check_axes(path: Path, axes: str | None) -> None:
    """Refuses --scene-axes for a run or a neural field.

    Raises:
        LuxelError: ``axes`` are given, and the path is such.
    """
    if axes is not None and (is_run(path) or (path.is_file() and is_field(path))):
        raise RunError(f"{path}: --scene-axes is for scene files of primitives.", "Leave it out.")
