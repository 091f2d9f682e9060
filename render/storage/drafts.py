"""Files under temporary names, and what this process wrote: a file that nobody changed since need not be read again."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

from luxel.render.storage.manifest import Content

Stamp = tuple[int, int, int]  # size, times of the last change of content and of status, ns
_written: dict[tuple[int, int], Stamp] = {}  # by device and inode
_lock = threading.Lock()
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC  # flags of a temporary file
MODE = 0o666  # before the umask of the process


class Draft:
    """A file under a temporary name; see `OutputFolder.writing`.

    Attributes:
        path: of the temporary file, for libraries that write to paths.
        content: size and SHA-256 where what writes it knows them; None: it is read once more to find them.
        target: name that a single file has got, see `luxel.render.storage.single`; None: it has none yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder: int | None = None  # descriptor of its open folder
        self.content: Content | None = None
        self.target: Path | None = None
        self._file: BinaryIO | None = None

    @property
    def file(self) -> BinaryIO:
        """The open file, binary, for reading and writing."""
        if self._file is None:
            if self.folder is None:
                raise ValueError("the file is open only inside of its context")
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.fdopen(os.open(self.path.name, flags, dir_fd=self.folder), "r+b")
        return self._file

    def make(self, folder: int, mode: int = MODE) -> None:
        """Makes the file in an open folder.

        Args:
            folder: its descriptor, open until the file is closed.
            mode: permissions, before the umask of the process.
        """
        os.close(os.open(self.path.name, NEW, mode, dir_fd=folder))
        self.folder = folder

    def close(self) -> None:
        """Closes the file, which is written out."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def stamp(status: os.stat_result) -> None:
    """Remembers a file that this process has just written."""
    with _lock:
        _written[status.st_dev, status.st_ino] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def forget_stamp(status: os.stat_result) -> None:
    """Forgets a file that was deleted."""
    with _lock:
        _written.pop((status.st_dev, status.st_ino), None)


def is_stamped(status: os.stat_result) -> bool:
    """Whether this process wrote a file, and nobody changed it since: the time of the last change of its status cannot
    be set."""
    with _lock:
        known = _written.get((status.st_dev, status.st_ino))
    return known == (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
