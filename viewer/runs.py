"""Run folders: where the capture of a run is, its configuration, its scene."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.files import FIELD_FILE, field_of_checkpoint, is_field, load_field
from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters
from luxel.render.runs.checkpoint import available, load_newest
from luxel.render.runs.run_folder import RunFolder
from luxel.scenes import Capture, load_primitives
from luxel.scenes import open as open_capture
from luxel.scenes.files.formats import readable_suffixes
from luxel.viewer.web.drawable import Drawable
from luxel.viewer.web.playback import time_range


class RunError(LuxelError):
    """A run folder cannot be used."""


@dataclass
class Origin:
    """How the capture of a run was opened, so that it can be opened again with the same options.

    Args:
        path: absolute path of the capture.
        holdout_every, max_size, masks, max_megapixels: as in luxel.scenes.open.
    """

    path: str
    holdout_every: int = 8
    max_size: int | None = None
    masks: str = "auto"
    max_megapixels: float | None = None

    def open(self, on_progress: Callable[[str, float], None] | None = None) -> Capture:
        """The capture.

        Raises:
            CaptureError: it does not exist any more, or cannot be read.
        """
        return open_capture(
            self.path,
            holdout_every=self.holdout_every,
            max_size=self.max_size,
            masks=self.masks,
            max_megapixels=self.max_megapixels,
            on_progress=on_progress,
        )

    def about(self, capture: Capture) -> dict[str, Any]:
        """The entry of config.json about the capture of a run: how to open it again, and which views were held out."""
        return {
            "capture": {
                **asdict(self),
                "name": capture.name,
                "kind": capture.format,
                "holdout": capture.holdout,
                "cutout": capture.cutout,
                "warnings": [str(warning) for warning in capture.warnings],
            }
        }


def load_origin(folder: Path) -> Origin:
    """How the capture of a run was opened.

    Raises:
        LuxelError: config.json is absent, damaged, or does not name the capture.
    """
    body = RunFolder.read_body(folder)
    try:
        record: dict[str, Any] = body["capture"]
        options = record["max_size"], record["masks"], record.get("max_megapixels")
        return Origin(str(record["path"]), int(record["holdout_every"]), *options)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{folder / 'config.json'}: does not say which capture the run was trained on.",
            "Give the capture with --capture.",
        ) from error


def times_of(scene: Drawable, capture: Callable[[], Capture] | None = None) -> tuple[float, float] | None:
    """First and last time of a scene that moves: of the images of its capture, else its own; see `time_range`.

    Args:
        capture: opens the capture; None: not available.
    """
    views: Sequence[View] = ()
    if capture is not None and scene.moves:
        try:
            views = capture().views
        except LuxelError as error:
            print(
                f"Using the times of the scene, as its capture cannot be opened: {error.problem}",
                file=sys.stderr,
            )
    return time_range(scene, views)


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


def unused_path(folder: Path, stem: str, suffix: str = "") -> Path:
    """The first of STEM, STEM-2, STEM-3, ... with a suffix that does not exist in a folder."""
    number, path = 1, folder / f"{stem}{suffix}"
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}{suffix}"
    return path


def new_run_folder(capture_name: str, chosen: Path | None) -> Path:
    """A folder for a new run: the chosen one, or runs/NAME, runs/NAME-2, ... below the present folder.

    Raises:
        RunError: the chosen folder already holds a run or cannot be made.
    """
    if chosen is None:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", capture_name).strip("-.") or "run"
        folder = unused_path(Path("runs"), stem)
    else:
        folder = chosen
        # A folder with only a config.json is that of a run that could not start.
        if available(folder / "checkpoints") or any((folder / f).exists() for f in ("scene.ply", FIELD_FILE)):
            raise RunError(
                f"{folder}: there is already a run.",
                f"Continue it with --resume {folder}, or give another --run.",
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".luxel-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RunError(
            f"{folder}: the run folder cannot be written ({error.strerror or error}).",
            "Give a place that you may write to with --run.",
        ) from error
    return folder


def discard_unstarted(folder: Path) -> None:
    """Removes the folder of a run that could not start, unless it holds a file."""
    for empty in (folder / "checkpoints", folder):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()


def load_run_scene(folder: Path) -> Parameters:
    """The scene of a run, of whatever primitive: its scene.ply, or its newest whole checkpoint where it has not ended.

    Raises:
        RunError: it has neither, or the checkpoint is of something else.
    """
    if (folder / "scene.ply").is_file():
        return load_primitives(folder / "scene.ply")
    checkpoints = folder / "checkpoints"
    if not available(checkpoints):
        raise RunError(
            f"{folder}: this run has neither a scene.ply nor a checkpoint yet.",
            f"Let it train: luxel train --resume {folder}",
        )
    checkpoint = load_newest(checkpoints, lambda message: None)
    name = checkpoint.state.get("config", {}).get("primitive", Gaussians.primitive)
    if name not in PRIMITIVES:
        raise RunError(
            f"{checkpoints}: the newest checkpoint is of {name!r}, which is no primitive that luxel knows "
            f"({', '.join(PRIMITIVES)}).",
            "It may come from a newer version of luxel.",
        )
    parameters = PRIMITIVES[name].parameters
    try:  # whatever the primitive, the tensors have this prefix
        return parameters(**{field: checkpoint.tensors[f"gaussians.{field}"] for field in parameters.names})
    except KeyError as error:
        raise RunError(
            f"{checkpoints}: the newest checkpoint lacks {error}.", "Train the run again."
        ) from error
    except (ValueError, IndexError) as error:
        raise RunError(f"{checkpoints}: the newest checkpoint: {error}.", "Train the run again.") from error


def is_field_run(path: Path) -> bool:
    """Whether a folder is that of a run of a neural field."""
    return (path / "config.json").is_file() and "field" in RunFolder.read_body(path)["config"]


def has_capture(path: Path) -> bool:
    """Whether a folder is that of a run that was trained on a capture."""
    return (path / "config.json").is_file() and "capture" in RunFolder.read_body(path)


def load_run_field(folder: Path) -> Application:
    """The field of a run: its field.safetensors, or its newest whole checkpoint where it has not ended.

    Raises:
        LuxelError: it has neither.
    """
    if (folder / FIELD_FILE).is_file():
        return load_field(folder / FIELD_FILE)
    if not available(folder / "checkpoints"):
        raise RunError(
            f"{folder}: this run has neither a {FIELD_FILE} nor a checkpoint yet.",
            f"Let it train: luxel train --resume {folder}",
        )
    return field_of_checkpoint(load_newest(folder / "checkpoints", lambda message: None))


def load_drawable(path: Path) -> Drawable:
    """What a run folder or a scene file holds, primitives or a neural field.

    Raises:
        LuxelError: the path is neither, or the file cannot be read.
    """
    if path.is_dir() and is_field_run(path):
        return load_run_field(path)
    if path.is_file() and path.suffix.lower() == ".safetensors" and is_field(path):
        return load_field(path)
    return load_any_scene(path)


def load_any_scene(path: Path) -> Parameters:
    """The scene of a run folder or of a scene file, of whatever primitive.

    Raises:
        LuxelError: the path is neither, or the file cannot be read.
    """
    if is_field_run(path):
        raise RunError(f"{path}: this is a run of a neural field.", "Give a run of primitives.")
    if path.is_dir():
        return load_run_scene(run_folder(path))
    if not path.exists():
        raise RunError(f"{path}: there is no such file or folder.", "Give a run folder or a scene file.")
    if path.suffix.lower() not in readable_suffixes():
        raise RunError(
            f"{path}: {path.suffix or 'a file without suffix'} is no scene format that luxel reads.",
            f"Give a run folder or a file of one of these kinds: {', '.join(readable_suffixes())}.",
        )
    return load_primitives(path)
