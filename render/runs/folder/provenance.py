"""Which files outside of its folder a run may name: config.json holds a proof that this user made it.

The proof is an HMAC with a key of the user over the identity of the run and all files that the entries ``capture`` and
``data`` of config.json name. Luxel 0.2.0 and earlier wrote none. Runs of theirs are trusted where they were there
before the key was made, or where their files were written in place, and not unpacked from an archive or copied with
their times. This is evidence and no proof, so what they open is printed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints.checkpoint import available
from luxel.render.runs.folder.results import RECORDS
from luxel.render.runs.folder.run_config import FILE
from luxel.render.runs.notices import print_once
from luxel.render.storage.user_key import NoKeyError, UserKey, user_key

ENTRY = "made_by"  # of config.json; empty: there was no key, or all files are in the run folder
IN_PLACE = 20.0  # seconds between the last write into a file and its name, at most
NAMES = {"capture": ("path", "depth_points"), "data": ("path",)}  # that name files, by entry of config.json


class UntrustedRunError(LuxelError):
    """A run of someone else names a file outside of its folder."""


def proof_of_origin(folder: Path, run_id: str, body: dict[str, Any]) -> str:
    """The proof that this user made a run; empty: none is needed, or there is no key.

    Args:
        folder: of the run.
        run_id: of its identity.
        body: content of its config.json.
    """
    files = _files(body)
    if all(is_inside(folder, path) for entry in files.values() for path in entry.values() if path):
        return ""
    try:
        return _proof(user_key(), run_id, files)
    except NoKeyError:
        return ""


def require_trusted(
    folder: Path, body: dict[str, Any], path: str, remedy: str, what: str = "capture"
) -> None:
    """Refuses a file that config.json of a run names outside of its folder, unless this user made the run.

    Args:
        folder: of the run.
        body: content of its config.json, checked.
        path: the file or folder.
        remedy: of the error.
        what: the path is of, for the error.

    Raises:
        UntrustedRunError: the run was not made by this user on this machine.
    """
    if is_inside(folder, path):
        return
    reason = ""
    try:
        key = user_key()
        if ENTRY in body:
            expected = _proof(key, str(body.get("identity", {}).get("id", "")), _files(body))
            if hmac.compare_digest(expected.encode(), str(body[ENTRY]).encode()):
                return
        elif _changed(folder) < key.created or _was_written_in_place(folder):
            print_once(
                f"{folder}: an earlier version of luxel wrote this run; opening {path}, which it names."
            )
            return
    except NoKeyError as error:
        reason = f" This cannot be checked: {error}."
    raise UntrustedRunError(
        f"{folder}: this run was not made by you on this machine, and names the {what} {path}, outside of it.{reason}",
        remedy,
    )


def is_inside(folder: Path, path: str) -> bool:
    """Whether a path, with links followed, lies in a folder."""
    try:
        return Path(path).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a loop of links, or no path
        return False


def _files(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of config.json that name files."""
    entries = {name: body.get(name) for name in NAMES}
    return {
        name: {key: entry.get(key) for key in NAMES[name]}
        for name, entry in entries.items()
        if isinstance(entry, dict)
    }


def _proof(key: UserKey, run_id: str, files: dict[str, dict[str, Any]]) -> str:
    text = json.dumps(["run", 1, run_id, files], sort_keys=True)
    return hmac.new(key.secret, text.encode(), hashlib.sha256).hexdigest()


def _copies(folder: Path) -> list[Path]:
    """The files of a run that hold its config.json or a copy of it, as far as they are there."""
    checkpoints = [path for _, path in available(folder / "checkpoints")]
    files = [folder / FILE, *checkpoints, *(folder / name for name in RECORDS)]
    return [path for path in files if os.path.lexists(path)]


def _changed(folder: Path) -> int:
    """When config.json of a run was last written, moved or changed, ns since 1970, which nobody can set; where it is
    missing, the latest time of the files that hold a copy of it."""
    files = _copies(folder)
    files = files[:1] if files and files[0].name == FILE else files
    return max((os.stat(path).st_ctime_ns for path in files), default=1 << 63)


def _was_written_in_place(folder: Path) -> bool:
    """Whether the files of a run have the times of files that a program wrote here: an archive brings times of its own,
    and the time of the last change of a file's status is that of the unpacking."""
    times = [os.stat(path, follow_symlinks=False) for path in _copies(folder)]
    return bool(times) and all(abs(t.st_ctime_ns - t.st_mtime_ns) < 1e9 * IN_PLACE for t in times)
