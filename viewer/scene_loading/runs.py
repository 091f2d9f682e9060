"""Run folders: where the capture of a run is, its configuration, its scene."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.files import FIELD_FILE, field_of_checkpoint, is_field, load_field
from luxel.render.geometry.camera import View
from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError, available, load_newest
from luxel.render.runs.folder.earlier_versions import RESULTS, adopt_earlier_version, is_sealed_config
from luxel.render.runs.folder.metrics_log import NAME as METRICS
from luxel.render.runs.folder.metrics_log import MetricsLog
from luxel.render.runs.folder.owner import OWNER, OwnedError, delete_mark, own
from luxel.render.runs.folder.results import Result, examine
from luxel.render.runs.folder.run_config import FILE as CONFIG_FILE
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.notices import print_once
from luxel.render.storage.descriptors import flush_folder, foreign, make_folders
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.journal import journal
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.train.state import require_primitives
from luxel.scenes import Capture, load_primitives
from luxel.scenes.files.scenes.registry import find_format, format_of, readable_suffixes
from luxel.scenes.files.scenes.scene_files import finite_primitives
from luxel.viewer.scene_loading.drawable import Drawable
from luxel.viewer.scene_loading.time_range import time_range

RUN_FILES = (CONFIG_FILE, METRICS, *RESULTS)  # those that a training writes under fixed names
REPORT_FILES = ("index.html", "report.json")
SHOWN = 5  # names in a message


class RunError(LuxelError):
    """A run folder cannot be used."""


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
                f"Using the times of the scene, as its capture cannot be opened: {error}",
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
    """The first of STEM, STEM-2, STEM-3, ... with a suffix that nothing has in a folder."""
    number, path = 1, folder / f"{stem}{suffix}"
    while os.path.lexists(path):
        number += 1
        path = folder / f"{stem}-{number}{suffix}"
    return path


def new_run_folder(capture_name: str, chosen: Path | None, *, force: bool = False) -> Path:
    """A folder for a new run: the chosen one, or runs/NAME, runs/NAME-2, ... below the present folder.

    Args:
        force: train into a chosen folder with other files, and replace those that have names of files of a run.

    Raises:
        RunError: the chosen folder already holds a run or other files, or cannot be made.
    """
    if chosen is None:
        return _numbered_folder(re.sub(r"[^A-Za-z0-9._-]+", "-", capture_name).strip("-.") or "run")
    folder = chosen
    if available(folder / "checkpoints"):
        if has_config(folder):
            _check_unowned(folder)
        raise RunError(
            f"{folder}: there is already a run.",
            f"Continue it with --resume {folder}, or give another --run.",
        )
    if force:
        allow_replacing(folder)
    elif results := [name for name in ("scene.ply", FIELD_FILE) if (folder / name).exists()]:
        raise RunError(
            f"{folder}: there is the result of a run already ({results[0]}), without checkpoints to continue from.",
            f"Give another --run, or move {folder / results[0]} elsewhere to train here.",
        )
    elif others := _other_files(folder):
        shown = ", ".join(others[:SHOWN]) + (", ..." if len(others) > SHOWN else "")
        raise RunError(
            f"{folder}: this folder is no run and holds other files ({shown}).",
            "Give a new or an empty folder with --run, or add --force to train here; it replaces files with the names "
            f"of those of a run ({', '.join(RUN_FILES)}), and no others.",
        )
    try:
        output = OutputFolder(folder)
        output.make()
        probe = output.open_in_place(OWNER, os.O_RDWR)
        os.close(probe)
    except OSError as error:
        raise _not_writable(folder, error.strerror or str(error)) from error
    _check_unowned(folder)
    return folder


def allow_replacing(folder: Path) -> None:
    """Lets a training replace the files of a folder that have names of files of a run, as the user asks for."""
    for output, names in ((OutputFolder(folder), RUN_FILES), (OutputFolder(folder, "eval"), REPORT_FILES)):
        there = [name for name in names if os.path.lexists(output.path / name)]
        for name in there:
            if not (output.path / name).is_file() or (output.path / name).is_symlink():
                raise foreign(output.path / name)
        if there:
            output.adopt(there)


def _other_files(folder: Path) -> list[str]:
    """Files and links in a folder that luxel did not write, at most a few; a run that could not start leaves some."""
    journal()  # temporary files of a process that was ended, as on a full disk, are removed by the first call
    output, report, others = OutputFolder(folder), OutputFolder(folder, "eval"), []
    unstarted = is_sealed_config(folder)  # of an earlier version: without a manifest
    for path, folders, files in os.walk(folder):
        inside = Path(path).relative_to(folder)
        links = [name for name in folders if (Path(path) / name).is_symlink()]
        for name in sorted([*files, *links]):
            relative = inside / name
            in_report = str(relative.relative_to("eval")) if relative.is_relative_to("eval") else None
            known = str(relative) in (OWNER, MANIFEST) or in_report == MANIFEST
            known |= unstarted and str(relative) == CONFIG_FILE
            known |= str(relative) == METRICS and MetricsLog(output).is_own()
            own = report.is_own(in_report) if in_report else output.is_own(str(relative))
            if not known and not own:
                others.append(str(relative))
        if len(others) > SHOWN:
            break
    return others


def _check_unowned(folder: Path) -> None:
    """Raises OwnedError where another process trains in a folder; what is there cannot be continued now."""
    try:
        own(folder).release()
    except OwnedError:
        raise
    except LuxelError:  # a folder that cannot be written is said later
        pass


def _numbered_folder(stem: str) -> Path:
    """Makes runs/STEM or, where that exists, runs/STEM-2, runs/STEM-3, ...; processes that do so at once get two."""
    while True:
        folder = unused_path(Path("runs"), stem)
        try:
            make_folders(folder.parent)
            folder.mkdir()
            flush_folder(folder.parent)
            return folder
        except FileExistsError:
            if not folder.exists():
                raise _not_writable(folder, "there is a file in its place") from None
        except OSError as error:
            raise _not_writable(folder, error.strerror or str(error)) from error


def _not_writable(folder: Path, reason: str) -> RunError:
    return RunError(
        f"{folder}: the run folder cannot be written ({reason}).",
        "Give a place that you may write to with --run.",
    )


def discard_unstarted(folder: Path) -> None:
    """Removes the folder of a run that could not start, unless it holds a file; this process is its owner."""
    output = OutputFolder(folder)
    if not folder.is_dir() or not set(os.listdir(folder)) <= {OWNER, MANIFEST, "checkpoints"}:
        return
    output.remove_folder("checkpoints")
    if not (folder / "checkpoints").exists():
        delete_mark(folder)
        output.remove_folder()


def delete_run(folder: Path) -> None:
    """Deletes what luxel wrote into the folder of a run, and nothing else; this process is its owner.

    Raises:
        ForeignFileError: a folder in it is a link.
    """
    from luxel.viewer.reports.evaluation_report import report_of_run  # which needs libraries for images

    adopt_earlier_version(output := OutputFolder(folder))
    for part in (output, report_of_run(folder)):
        part.delete(part.names())


def load_run_scene(folder: Path, *, keep_non_finite: bool = False) -> Parameters:
    """The scene of a run, of whatever primitive: its scene.ply, or its newest whole checkpoint where it has not ended
    or its scene.ply is damaged or older.

    Args:
        keep_non_finite: see `luxel.scenes.files.scenes.scene_files.finite_primitives`.

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


def keeps_lenses(path: Path) -> bool:
    """Whether a folder is that of a run that was trained on photographs of distorted lenses (`--lens keep`)."""
    about = RunFolder.read_body(path).get("capture") if path.is_dir() and has_config(path) else None
    return isinstance(about, dict) and about.get("lens") == "keep"


def has_capture(path: Path) -> bool:
    """Whether a folder is that of a run that was trained on a capture."""
    return path.is_dir() and has_config(path) and "capture" in RunFolder.read_body(path)


def load_run_field(folder: Path) -> Application:
    """The field of a run: its field.safetensors, or its newest whole checkpoint where it has not ended or its
    field.safetensors is damaged or older.

    Raises:
        LuxelError: it has neither.
    """
    checkpoint = newer_checkpoint(folder, FIELD_FILE, field_of_checkpoint)
    if checkpoint is None:
        return load_field(folder / FIELD_FILE)
    return field_of_checkpoint(checkpoint)


def newer_checkpoint(folder: Path, name: str, check: Callable[[Checkpoint], object]) -> Checkpoint | None:
    """The newest whole checkpoint of a run where it has to stand for the run's result; None: the result is used.

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
    whole = path.is_file() and not reason  # as far as this can be known
    if whole and (result.step is None or not saved or saved[0][0] <= result.step):
        return None
    said: list[str] = []
    try:
        checkpoint = load_newest(checkpoints, said.append, run, check)
    except CheckpointError as error:
        return None if whole else _without_checkpoint(path, result, error if saved else None)
    if whole and result.step is not None and checkpoint.step <= result.step:
        return None
    if whole:
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


def load_drawable(
    path: Path, *, keep_non_finite: bool = False, axes: str | None = None
) -> Parameters | Application:
    """What a run folder or a scene file holds, primitives or a neural field.

    Args:
        keep_non_finite: of primitives, see `luxel.scenes.files.scenes.scene_files.finite_primitives`.
        axes: of a scene file of primitives, see `luxel.scenes.load_primitives`.

    Raises:
        LuxelError: the path is neither, or the file cannot be read.
    """
    check_axes(path, axes)
    if path.is_dir() and is_field_run(path):
        return load_run_field(path)
    if path.is_file() and path.suffix.lower() == ".safetensors" and is_field(path):
        if path.name == FIELD_FILE and (problem := examine(path, None).problem):
            print_once(f"{problem} It is used as it is.")
        return load_field(path)
    return load_any_scene(path, keep_non_finite=keep_non_finite, axes=axes)


def load_any_scene(path: Path, *, keep_non_finite: bool = False, axes: str | None = None) -> Parameters:
    """The scene of a run folder or of a scene file, of whatever primitive.

    Args:
        keep_non_finite: see `luxel.scenes.files.scenes.scene_files.finite_primitives`.
        axes: of a scene file, see `luxel.scenes.load_primitives`.

    Raises:
        LuxelError: the path is neither, or the file cannot be read.
    """
    if is_field_run(path):
        raise RunError(f"{path}: this is a run of a neural field.", "Give a run of primitives.")
    check_axes(path, axes)
    if path.is_dir() and (is_run(path) or format_of(path) is None):
        return load_run_scene(run_folder(path), keep_non_finite=keep_non_finite)
    if not path.exists():
        raise RunError(f"{path}: there is no such file or folder.", "Give a run folder or a scene file.")
    if path.name == "scene.ply" and (problem := examine(path, None).problem):
        print_once(f"{problem} It is used as it is.")
    known = find_format(path)
    if (known is None or known.load is None) and format_of(path) is None:
        raise RunError(
            f"{path}: {path.suffix or 'a file without suffix'} is no scene format that luxel reads.",
            f"Give a run folder or a file of one of these kinds: {', '.join(readable_suffixes())}.",
        )
    return load_primitives(path, keep_non_finite=keep_non_finite, axes=axes)
