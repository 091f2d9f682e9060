"""A random key of this user on this machine, with which luxel marks what it made. It is never shown or sent."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.places import state_folder
from luxel.render.storage.single import writing_file

NAME = "key"
SIZE = 32  # bytes of the key; 8 more hold the time at which it was made


class NoKeyError(Exception):
    """There is no key; the text says why, as a clause."""


@dataclass(frozen=True)
class UserKey:
    """The key of this user.

    Args:
        secret: random bytes.
        created: nanoseconds since 1970.
    """

    secret: bytes = field(repr=False)
    created: int


def user_key() -> UserKey:
    """The key of this user, made on first use.

    Raises:
        NoKeyError: there is no folder for it, or what is there is no key of this user.
    """
    folder = state_folder()
    if folder is None:
        raise NoKeyError("there is no folder for the state of luxel (XDG_STATE_HOME) that can be written")
    path = folder / NAME
    try:
        if not os.path.lexists(path):
            _make(path)
        return _read(path)
    except OSError as error:
        raise NoKeyError(
            f"the key of this user, {path}, cannot be used ({error.strerror or error})"
        ) from error


def _make(path: Path) -> None:
    with contextlib.suppress(FileExistsError), writing_file(path, replace=False, mode=0o600) as draft:
        draft.file.write(secrets.token_bytes(SIZE) + time.time_ns().to_bytes(8, "big"))


def _read(path: Path) -> UserKey:
    with open_regular(path, follow=False) as file:
        status = os.fstat(file.fileno())
        raw = file.read(SIZE + 9)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise OSError("other users can read or change it; delete it")
    if len(raw) != SIZE + 8:
        raise OSError("it is damaged; delete it")
    return UserKey(raw[:SIZE], int.from_bytes(raw[SIZE:], "big"))
