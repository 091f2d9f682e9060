"""Folders of this user outside of captures and runs: caches, state (journal, key), sockets."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

APPLICATION = "luxel"


def state_folder() -> Path | None:
    """A private folder for what luxel notes about its own work: XDG_STATE_HOME, else ~/.local/state, else one of this
    user in the folder for temporary files; None: none of them can be written."""
    return _first(_below("XDG_STATE_HOME", ".local/state"))


def cache_folder() -> Path | None:
    """A private folder for results that can be made again: XDG_CACHE_HOME, else ~/.cache, else one of this user in the
    folder for temporary files; None: none of them can be written."""
    return _first(_below("XDG_CACHE_HOME", ".cache"))


def socket_folders() -> Iterator[Path]:
    """Private folders of this user for sockets, the best one first: another process may have another environment."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    candidates = [Path(runtime) / APPLICATION] if runtime and Path(runtime).is_absolute() else []
    candidates.append(Path(f"/run/user/{os.getuid()}") / APPLICATION)
    yield from filter(_private, itertools.chain(candidates, _temporary()))


def home() -> Path | None:
    """The home folder of this user; None: there is none, as in a container with a foreign user id."""
    with contextlib.suppress(RuntimeError, OSError):
        folder = Path.home()
        return folder if folder.is_absolute() else None
    return None


def _below(variable: str, usual: str) -> Iterator[Path]:
    """The folder of luxel in the one that a variable names, and in the usual one of the home folder."""
    chosen = os.environ.get(variable)
    if chosen and Path(chosen).is_absolute():
        yield Path(chosen) / APPLICATION
    if (folder := home()) is not None:
        yield folder / usual / APPLICATION


def _temporary() -> Iterator[Path]:
    with contextlib.suppress(OSError):  # no folder for temporary files can be written
        yield Path(tempfile.gettempdir()) / f"{APPLICATION}-{os.getuid()}"


def _first(folders: Iterator[Path]) -> Path | None:
    return next(filter(_private, itertools.chain(folders, _temporary())), None)


def _private(folder: Path) -> bool:
    """Makes a folder of mode 0700 unless it is there; whether it is one of this user that can be written, and no
    other user may write into it."""
    try:
        if not os.path.isdir(folder.parent):
            folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        status = os.lstat(folder)
    except (OSError, ValueError):
        return False
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return own and not status.st_mode & 0o022 and os.access(folder, os.W_OK | os.X_OK)
