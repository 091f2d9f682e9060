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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from luxel.render.storage.descriptors import foreign, open_in_place, open_regular, opened_folder, parts_of
from luxel.render.storage.journal import temporary_name

NAME = ".luxel-manifest.jsonl"
HEAD = {"luxel": "manifest", "format": 1}
LARGEST = 256 << 20  # bytes that are read
COMPACT = 4096  # lines from which those that later ones replace are dropped
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
    _long: int = field(
        default=100 * COMPACT, repr=False
    )  # bytes from which it is looked through for old lines

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
        except (OSError, ValueError):
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
        except (OSError, ValueError):
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
        text = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
        with self._lock, opened_folder(self.root, self.parts, make=True, make_root=self.make_root) as handle:
            while True:
                file = open_in_place(handle, NAME, self.path, os.O_RDWR | os.O_APPEND)
                try:
                    with contextlib.suppress(OSError):  # a network folder may know no locks
                        fcntl.flock(file, fcntl.LOCK_EX)
                    if not _is_at(file, handle):  # another process has just written a shorter one
                        continue
                    size = os.fstat(file).st_size
                    if size == 0:
                        text = json.dumps(HEAD).encode() + b"\n" + text
                    elif not _has_head(file):
                        raise foreign(self.path)
                    elif os.pread(file, 1, size - 1) != b"\n":  # torn by a kill
                        text = b"\n" + text
                    _write_all(file, text)
                    os.fsync(file)
                    if size > self._long:
                        self._compact(handle)
                        self._long = max(self._long, 2 * size)  # all of its lines may be needed
                    return
                finally:
                    os.close(file)

    def _compact(self, handle: int) -> None:
        """Writes it anew with the newest content of each name, where it has many lines; its lock is held."""
        with open_regular(NAME, folder=handle, follow=False) as file:
            raw = file.read(LARGEST)
        entries = _entries_of(raw)
        if raw.count(b"\n") < max(COMPACT, 4 * len(entries)):
            return
        lines = [HEAD, *({"name": n, "size": c[-1].size, "sha256": c[-1].sha256} for n, c in entries.items())]
        name = temporary_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o644, dir_fd=handle)
        try:
            _write_all(file, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            os.fsync(file)
            os.rename(name, NAME, src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=handle)
            raise
        finally:
            os.close(file)


def _is_at(file: int, handle: int) -> bool:
    ours = os.fstat(file)
    try:
        there = os.stat(NAME, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _has_head(file: int) -> bool:
    return os.pread(file, 200, 0).split(b"\n")[0] == json.dumps(HEAD).encode()


def _write_all(file: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(file, view) :]


def _entries(file: BinaryIO) -> dict[str, list[Content]]:
    return _entries_of(file.read(LARGEST))


def _entries_of(raw: bytes) -> dict[str, list[Content]]:
    lines = raw.split(b"\n")
    if lines[0] != json.dumps(HEAD).encode():
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
