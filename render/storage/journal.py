"""Temporary files of this process are noted before they are made, so that a later process removes those of one that
was killed, and nothing else.

Each process has a file of its own in the state folder of the user, named by machine, boot, process and its start time;
one line notes a temporary file or folder, another that it is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.places import state_folder

TEMPORARY = re.compile(r"\.luxel-[0-9a-f]{16}(\.[A-Za-z0-9.]{1,24})?")  # names of temporary files and folders
_FILE = re.compile(r"(?P<host>[0-9a-f]{8})-(?P<boot>[0-9a-f]{8})-(?P<pid>[0-9]+)-(?P<start>[0-9]+)\.jsonl")
LARGEST = 64 << 20  # bytes of a journal that is read


def temporary_name(suffix: str = "") -> str:
    """A random name for a temporary file or folder, which no other process chooses.

    Args:
        suffix: such as ".png", for libraries that go by it; letters, digits and dots.
    """
    return f".luxel-{secrets.token_hex(8)}{suffix}"


class Journal:
    """The journal of this process; see the module. Without a folder for it nothing is noted.

    Args:
        folder: of all journals; None: there is none.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._present: set[str] = set()
        self._file: int | None = None
        self._path: Path | None = None
        self._pid = os.getpid()

    def note(self, path: Path) -> None:
        """Notes a temporary file or folder that will be made."""
        with self._lock:
            text = os.path.abspath(path)
            self._present.add(text)
            self._append({"made": text})

    def forget(self, path: Path) -> None:
        """Notes that a temporary file or folder is gone, or has its final name."""
        with self._lock:
            text = os.path.abspath(path)
            self._present.discard(text)
            if self._file is None:
                return
            with contextlib.suppress(OSError):
                if self._present:
                    self._append({"gone": text})
                else:
                    os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Removes the journal, unless it still names temporary files, or this is a child of its process."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._file is not None and not self._present:
                with contextlib.suppress(OSError):
                    os.close(self._file)
                if self._path is not None:
                    with contextlib.suppress(OSError):
                        self._path.unlink()
                self._file = None

    def sweep(self) -> int:
        """Removes what processes of this machine that have ended left behind; returns the number of files and
        folders."""
        if self._folder is None:
            return 0
        removed = 0
        with contextlib.suppress(OSError):
            for entry in list(self._folder.iterdir()):
                match = _FILE.fullmatch(entry.name)
                if match is None or match["host"] != _host() or _is_alive(match):
                    continue
                for path in _noted(entry):
                    removed += _removed(path)
                with contextlib.suppress(OSError):
                    entry.unlink()
        return removed

    def _append(self, entry: dict[str, str]) -> None:
        if self._folder is None:
            return
        with contextlib.suppress(OSError):  # only what a killed process leaves behind depends on it
            if self._file is None:
                name = f"{_host()}-{_boot()}-{os.getpid()}-{_start_of(os.getpid())}.jsonl"
                self._path = self._folder / name
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o600)
            os.write(self._file, json.dumps(entry).encode() + b"\n")


def _noted(path: Path) -> list[Path]:
    """The temporary files and folders that a journal names and that are not gone."""
    present: dict[str, None] = {}
    with contextlib.suppress(OSError), open_regular(path, follow=False) as file:
        for line in file.read(LARGEST).splitlines():
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                entry = json.loads(line)
                if "made" in entry:
                    present[str(entry["made"])] = None
                else:
                    present.pop(str(entry.get("gone")), None)
    return [Path(name) for name in present]


def _removed(path: Path) -> bool:
    """Removes a temporary file or folder; False: it is not there, or is none."""
    if not TEMPORARY.fullmatch(path.name):
        return False
    with contextlib.suppress(OSError, ValueError):
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            path.unlink()
            return True
        if stat.S_ISDIR(mode):
            shutil.rmtree(path, ignore_errors=True)
            return not path.exists()
    return False


def _is_alive(match: re.Match[str]) -> bool:
    return match["boot"] == _boot() and _start_of(int(match["pid"])) == int(match["start"])


def _start_of(pid: int) -> int:
    """When a process began, in ticks since the boot; -1: there is no such process, or this cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return -1


@cache
def _host() -> str:
    """What process numbers are unique in: the machine, and the process namespace of a container."""
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:8]


@cache
def _boot() -> str:
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        text = ""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


_journal: Journal | None = None
_lock = threading.Lock()


def journal() -> Journal:
    """The journal of this process; the first call removes what killed processes left."""
    global _journal
    with _lock:
        if _journal is None:
            folder = state_folder()
            _journal = Journal(_made(folder / "temporary") if folder is not None else None)
            _journal.sweep()
            atexit.register(_journal.close)
        return _journal


def _made(folder: Path) -> Path | None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


@contextmanager
def scratch_folder(near: Path | None = None) -> Iterator[Path]:
    """A private temporary folder that is removed on exit, and by a later process if this one is killed.

    Args:
        near: the folder in which it is made; None: that of the system for temporary files.

    Raises:
        OSError: it cannot be made.
    """
    path = (Path(tempfile.gettempdir()) if near is None else near) / temporary_name()
    journal().note(path)
    try:
        os.mkdir(path, 0o700)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):  # else a later process tries again
            journal().forget(path)


def _after_fork() -> None:
    """In a child made by fork: the temporary files are those of the parent."""
    global _journal, _lock
    _journal, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
