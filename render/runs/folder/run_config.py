"""Reads the config.json of a run folder, or the copy of it that its checkpoints and its result hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints.checkpoint import available, load_run
from luxel.render.runs.folder.results import RECORDS, load_record
from luxel.render.runs.identity import identity_in
from luxel.render.runs.notices import say_or_print
from luxel.render.runs.strict_json import JsonError, read_object

FILE = "config.json"


def has_config(folder: Path) -> bool:
    """Whether a folder holds the configuration of a run: config.json, or a copy of it instead of a missing one."""
    return (folder / FILE).is_file() or (folder.is_dir() and _copy(folder) is not None)


def read_config_file(folder: Path, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """The content of config.json, checked; see `luxel.render.runs.folder.run_folder.RunFolder.read_body`."""
    say, file = say_or_print(say), folder / FILE
    try:
        body = read_object(file)
        identity, copy = identity_in(body), _copy(folder)
        if identity is None and copy is not None:
            raise JsonError("it has no checksum, though its checkpoints have them")
    except (OSError, JsonError) as error:
        copy = _copy(folder)
        if copy is None:
            raise _refusal(file, error) from error
        say(f"{file}: {_reason(error)}. Using the copy of the configuration in {copy[0].name}.")
        return copy[1]
    if identity is None:
        say(
            f"{folder}: an earlier version of luxel wrote this run, without checksums of its JSON files; these cannot "
            "be checked."
        )
    elif copy is not None and all(_id(run) != identity.id for _, run in _copies(folder)):
        raise LuxelError(
            f"{file} and the checkpoints next to it are of different runs.",
            "Restore those that do not belong there from a copy. If it is config.json, it can be deleted: the copy "
            "of it in the newest checkpoint is then used.",
        )
    return body


def _refusal(file: Path, error: Exception) -> LuxelError:
    if isinstance(error, FileNotFoundError):
        return LuxelError(
            f"{file}: not found.",
            "Point --resume at the folder that `luxel train` printed when it started.",
        )
    return LuxelError(
        f"{file}: cannot be read as the configuration of a run ({_reason(error)}).",
        "Restore that file from a copy, or start a new run.",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "the file is missing"
    return f"it cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _id(run: dict[str, Any]) -> str:
    """The identifier of the run of a copy; empty: of a version without any."""
    identity = identity_in(run)
    return identity.id if identity is not None else ""


def _copy(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest complete file that holds a copy of config.json, and the copy; None: there is none."""
    return next(_copies(folder), None)


def _copies(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Complete files that hold a copy of config.json, with the copy; checkpoints first, the newest first."""
    for path in [*(path for _, path in available(folder / "checkpoints")), *(folder / r for r in RECORDS)]:
        try:
            run = load_record(path).run if path.name in RECORDS else load_run(path)
        except (LuxelError, JsonError, OSError):
            continue
        if run is not None:
            yield path, run
