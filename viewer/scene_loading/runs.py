"""Run folders: where the capture of a run is, its configuration, its scene."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.render.fields.files import FIELD_FILE
from luxel.render.geometry.camera import View
from luxel.render.primitives import Parameters
from luxel.render.primitives.time_range import time_range
from luxel.render.runs.checkpoints.checkpoint import available
from luxel.render.runs.folder.earlier_versions import RESULTS, adopt_earlier_version, is_sealed_config
from luxel.render.runs.folder.metrics_log import NAME as METRICS
from luxel.render.runs.folder.metrics_log import MetricsLog
from luxel.render.runs.folder.owner import OWNER, OwnedError, delete_mark, own
from luxel.render.runs.folder.run_config import FILE as CONFIG_FILE
from luxel.render.runs.folder.run_config import has_config
from luxel.render.scene import Scene
from luxel.render.storage.descriptors import flush_folder, foreign, make_folders
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.journal import journal
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.scenes import Capture
from luxel.scenes.loading.run_results import (
    RunError,
)

RUN_FILES = (CONFIG_FILE, METRICS, *RESULTS)  # those that a training writes under fixed names
REPORT_FILES = ("index.html", "report.json")
SHOWN = 5  # names in a message


def times_of(scene: Scene, capture: Callable[[], Capture] | None = None) -> tuple[float, float] | None:
    """First and last time of a scene that moves: of the images of its capture, else its own; see `time_range`.

    Args:
        capture: opens the capture; None: not available.
    """
    views: Sequence[View] = ()
    if not scene.about.moves:
        return None
    if capture is not None:
        try:
            views = capture().views
        except LuxelError as error:
            print(
                f"Using the times of the scene, as its capture cannot be opened: {error}",
                file=sys.stderr,
            )
    return scene_times(scene, views)


def scene_times(scene: Scene, views: Sequence[View] = ()) -> tuple[float, float] | None:
    """First and last time of a scene that moves, from its views where their times differ; None: it is static."""
    parameters = scene.part(Parameters)
    return scene.about.times if parameters is None else time_range(parameters, views)


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
        _check_unowned(folder)
        raise RunError(
            f"{folder}: there is the result of a run already ({results[0]}), without checkpoints to continue from.",
            f"Give another --run, or move {folder / results[0]} elsewhere to train here.",
        )
    elif others := _other_files(folder):
        _check_unowned(folder)  # a training that has just started here has files that no manifest names yet
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
    if not (folder / OWNER).exists():
        return
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
                raise _not_writable(folder, "there is a file at its path") from None
        except OSError as error:
            raise _not_writable(folder, error.strerror or str(error)) from error


def _not_writable(folder: Path, reason: str) -> RunError:
    return RunError(
        f"{folder}: the run folder cannot be written ({reason}).",
        "Give a folder that you may write to with --run.",
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
