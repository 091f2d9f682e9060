"""Reads the config.json of a run folder, or the copy of it that its checkpoints and its result hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoint import available, load_run
from luxel.render.runs.identity import identity_in
from luxel.render.runs.notices import say_or_print
from luxel.render.runs.results import RECORDS, load_record
from luxel.render.runs.strict_json import JsonError, read_object

FILE = "config.json"


def has_config(folder: Path) -> bool:
    """Whether a folder holds the configuration of a run: config.json, or a copy of it in place of a missing one."""
    return (folder / FILE).is_file() or (folder.is_dir() and _copy(folder) is not None)


def read_config_file(folder: Path, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """The content of config.json, checked; see `luxel.render.runs.run_folder.RunFolder.read_body`."""
    say, file = say_or_print(say), folder / FILE
    try:
        body = read_object(file)
        if identity_in(body) is None:
            if _copy(folder) is not None:
                raise JsonError("it has no checksum, though its checkpoints have them")
            say(
                f"{folder}: an earlier version of luxel wrote this run, without checksums of its JSON files; these "
                "cannot be checked."
            )
        return body
    except (OSError, JsonError) as error:
        copy = _copy(folder)
        if copy is not None:
            reason = _reason(error)
            say(f"{file}: {reason}. Using the copy of the configuration in {copy[0].name}.")
            return copy[1]
        if isinstance(error, FileNotFoundError):
            raise LuxelError(
                f"{file}: not found.",
                "Point --resume at the folder that `luxel train` printed when it started.",
            ) from error
        raise LuxelError(
            f"{file}: cannot be read as the configuration of a run ({_reason(error)}).",
            "Restore that file from a copy, or start a new run.",
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "the file is missing"
    return f"it cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _copy(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest whole file that holds a copy of config.json, and the copy; None: there is none."""
    sources = [path for _, path in available(folder / "checkpoints")]
    for path in [*sources, *(folder / name for name in RECORDS)]:
        try:
            run = load_record(path).run if path.name in RECORDS else load_run(path)
        except (LuxelError, JsonError, OSError):
            continue
        if run is not None:
            return path, run
    return None
