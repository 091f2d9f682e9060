"""The door of captures and scene files: `luxel.render.storage.reading` with errors of type CaptureError."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from luxel.render.storage import reading as door
from luxel.scenes.errors import CaptureError


def reading(path: str | Path, what: str, remedy: str) -> AbstractContextManager[None]:
    """Turns everything that is raised within into a CaptureError, see `luxel.render.storage.reading.reading`."""
    return door.reading(path, what, remedy, CaptureError)


def open_file(path: str | Path) -> BinaryIO:
    """Opens a file for reading, without waiting for the other end of a pipe.

    Raises:
        CaptureError: it is missing, a folder, a device, a pipe, or empty, or it cannot be opened.
    """
    return door.open_file(path, CaptureError)


def read_bytes(path: str | Path) -> bytes:
    """The complete file.

    Raises:
        CaptureError: it cannot be read, is empty, is no regular file, or is larger than the free memory.
    """
    return door.read_bytes(path, CaptureError)


def check_file(path: str | Path) -> int:
    """The size of a file in bytes.

    Raises:
        CaptureError: it is missing, a folder, a device, a pipe, or empty.
    """
    return door.check_file(path, CaptureError)
