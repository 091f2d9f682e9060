"""Compiled objects of this user, by a key of all that they were made from.

They are files ``jit/KEY`` in the user's cache folder (XDG_CACHE_HOME): the SHA-256 of an object, then the object. Code
is loaded from them, so the folder must be of this user and closed to others, and a file that is not what was written
there is made again. Where there is no such folder, nothing is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.places import cache_folder
from luxel.render.storage.single import writing_file

_DIGEST = 32  # bytes


def folder() -> Path | None:
    """The folder of compiled objects, made if it is missing; None: there is none that only this user can read and
    write."""
    outer = cache_folder()
    if outer is None:
        return None
    path = outer / "jit"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        status = os.lstat(path)
    except OSError:
        return None
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return path if own and not status.st_mode & 0o077 else None


def read(key: str) -> bytes | None:
    """The object of a key; None: there is none, or its file is a link, of another user, or damaged."""
    cache = folder()
    if cache is None:
        return None
    try:
        with open_regular(cache / key, follow=False) as file:
            status = os.fstat(file.fileno())
            digest, content = file.read(_DIGEST), file.read()
    except OSError:
        return None
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or not content:
        return None
    return content if hashlib.sha256(content).digest() == digest else None


def write(key: str, content: bytes) -> None:
    """Stores an object, whole or not at all; a folder that cannot be written is no error."""
    cache = folder()
    if cache is None:
        return
    with contextlib.suppress(OSError), writing_file(cache / key, mode=0o600) as draft:
        draft.file.write(hashlib.sha256(content).digest() + content)


__all__ = ["folder", "read", "write"]
