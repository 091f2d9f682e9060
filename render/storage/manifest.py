"""The manifest of a folder that luxel writes: names below it, with size and SHA-256 of what luxel wrote there.

It is a claim, not a permission: a file counts as luxel's where it is regular, inside of the folder, of a name that
luxel gives, and its content is what the manifest says. The manifest has one line of JSON for each file
written, and is only appended to, before a file gets its name: so it is right whenever a process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from luxel.render.storage.descriptors import (
    ForeignFileError,
    flush_folder,
    foreign,
    open_in_place,
    open_regular,
    opened_folder,
    parts_of,
)
from luxel.render.storage.journal import journal, temporary_name

NAME = ".luxel-manifest.jsonl"
HEAD = {"luxel": "manifest", "format": 1}
LARGEST = 64 << 20  # bytes that are read
COMPACT = 4096  # lines from which those that later ones replace are dropped
LOOK_EVERY = 100 * COMPACT  # bytes after which lines are counted
LONGEST_WAIT = 5.0  # seconds for the lock of another process, which holds it for milliseconds
_CHUNK = 1 << 22  # bytes


@dataclass(frozen=True)
class Content:
    """What was written under a name.

    Args:
        size: bytes.
        sha256: in hexadecimal.
    """

    size: int
    sha256: str


@dataclass
class Manifest:
    """The manifest of one folder.

    Args:
        root: the folder.
        parts: names of the folders below ``root`` that lead to it; no link among them is followed.
        make_root: make ``root`` where it is missing.
    """

    root: Path
    parts: tuple[str, ...] = ()
    make_root: bool = True
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    @property
    def path(self) -> Path:
        """Of its file."""
        return self.root.joinpath(*self.parts, NAME)

    def exists(self) -> bool:
        """Whether there is one; it may be forged."""
        try:
            with (
                opened_folder(self.root, self.parts) as handle,
                open_regular(NAME, folder=handle, follow=False),
            ):
                return True
        except (OSError, ForeignFileError):
            return False

    def read(self) -> dict[str, list[Content]]:
        """What may be under each name: the contents that luxel wrote there, the newest last. Empty without a manifest;
        lines that are damaged are passed over."""
        try:
            with (
                opened_folder(self.root, self.parts) as handle,
                open_regular(NAME, folder=handle, follow=False) as file,
            ):
                return _entries(file)
        except (OSError, ForeignFileError):
            return {}

    def add(self, contents: dict[str, Content]) -> None:
        """Notes what will be written under names, relative to the folder.

        Raises:
            ForeignFileError: there is something else in its place.
            OSError: it cannot be written.
        """
        self._append([{"name": name, "size": c.size, "sha256": c.sha256} for name, c in contents.items()])

    def drop(self, names: list[str]) -> None:
        """Notes that the files of some names were deleted.

        Raises:
            ForeignFileError: there is something else in its place.
            OSError: it cannot be written.
        """
        self._append([{"name": name, "deleted": True} for name in names])

    def _append(self, entries: list[dict[str, Any]]) -> None:
        if not entries:
            return
        text = b"".join(_line(entry) for entry in entries)
        with self._lock, opened_folder(self.root, self.parts, make=True, make_root=self.make_root) as handle:
            while True:
                file = open_in_place(handle, NAME, self.path, os.O_RDWR | os.O_APPEND)
                try:
                    locked = _locked(file)
                    if not _is_at(file, handle):  # another process has just written a shorter one
                        continue
                    before = os.fstat(file).st_size
                    self._append_to(file, text)
                    if before == 0:  # its name must not be lost where those of the files are not
                        flush_folder(handle)
                    if locked and before // LOOK_EVERY != (before + len(text)) // LOOK_EVERY:
                        with contextlib.suppress(OSError):  # it is complete without that
                            self._compact(handle)
                    return
                finally:
                    os.close(file)

    def _append_to(self, file: int, text: bytes) -> None:
        """Appends lines to the open file and flushes them to the disk."""
        size = os.fstat(file).st_size
        if size and not _has_head(file):
            if not _is_torn_head(file, size):
                raise foreign(self.path)
            os.ftruncate(file, 0)
            size = 0
        if size == 0:
            text = _line(HEAD) + text
        elif os.pread(file, 1, size - 1) != b"\n":  # torn by a kill
            text = b"\n" + text
        try:
            _write_all(file, text)
        except OSError:
            with contextlib.suppress(OSError):  # of a full disk: half a line is of no use
                os.ftruncate(file, size)
            raise
        os.fsync(file)

    def _compact(self, handle: int) -> None:
        """Writes it anew with what may still be under each name, where it has many lines; its lock is held."""
        with open_regular(NAME, folder=handle, follow=False) as file:
            raw = file.read(LARGEST)
        if len(raw) == LARGEST:  # there may be more
            return
        entries = _entries_of(raw)
        lines = [
            _line({"name": name, "size": content.size, "sha256": content.sha256})
            for name, contents in entries.items()
            for content in self._current(name, contents)
        ]
        if raw.count(b"\n") < max(COMPACT, 2 * len(lines)):
            return
        name = temporary_name()
        journal().note(self.path.with_name(name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(name, flags, 0o644, dir_fd=handle)
            try:
                _write_all(file, _line(HEAD) + b"".join(lines))
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(name, NAME, src_dir_fd=handle, dst_dir_fd=handle)
            flush_folder(handle)  # what is appended to it is on the disk only where its name is
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=handle)
            raise
        finally:
            journal().forget(self.path.with_name(name))

    def _current(self, name: str, contents: list[Content]) -> list[Content]:
        """The newest content, which is noted before it is there, and older ones that the file may still have."""
        try:
            size = os.lstat(self.path.parent / name).st_size
        except (OSError, ValueError):
            return contents[-1:]
        return [*dict.fromkeys(c for c in contents[:-1] if c.size == size), contents[-1]]


def _locked(file: int) -> bool:
    """Locks an open manifest; False: its file system has no locks, or another process holds it for long."""
    end = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        except OSError:
            return False


def _is_at(file: int, handle: int) -> bool:
    ours = os.fstat(file)
    try:
        there = os.stat(NAME, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _has_head(file: int) -> bool:
    return os.pread(file, 200, 0).startswith(_line(HEAD))


def _is_torn_head(file: int, size: int) -> bool:
    """Whether a file is the beginning of a first line, or zeros: all that a full disk or a power cut left of it."""
    raw = os.pread(file, 1 << 20, 0)
    return size == len(raw) and (_line(HEAD).startswith(raw) or not raw.strip(b"\0"))


def _write_all(file: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(file, view) :]


def _entries(file: BinaryIO) -> dict[str, list[Content]]:
    return _entries_of(file.read(LARGEST))


def _entries_of(raw: bytes) -> dict[str, list[Content]]:
    lines = raw.split(b"\n")
    if lines[0] + b"\n" != _line(HEAD):
        return {}
    contents: dict[str, list[Content]] = {}
    for line in lines[1:]:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            entry = json.loads(line)
            name = entry["name"]
            parts_of(name)
            if entry.get("deleted") is True:
                contents.pop(name, None)
            elif isinstance(entry["size"], int) and isinstance(entry["sha256"], str):
                contents.setdefault(name, []).append(Content(entry["size"], entry["sha256"]))
    return contents


def content_of(file: BinaryIO) -> Content:
    """Size and SHA-256 of an open file, from its beginning."""
    digest, size = hashlib.sha256(), 0
    file.seek(0)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return Content(size, digest.hexdigest())
