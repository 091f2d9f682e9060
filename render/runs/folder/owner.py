"""One process at a time writes into a run folder.

The owner holds a lock (flock) on the file ``.owner`` of the folder, which names it: the lock ends with the process,
however that ends. A network folder may know no such locks, or keep them to each machine. There the claim is a file that
only one process can create (``.owner.claim``), and the owner touches ``.owner`` every few seconds: an owner of another
machine whose last touch is long ago has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None

from luxel.render.errors import LuxelError
from luxel.render.storage.descriptors import foreign, opened_folder
from luxel.render.storage.drafts import MODE, NEW
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.journal import journal, temporary_name

OWNER, CLAIM = ".owner", ".owner.claim"
BEAT, STALE = 10.0, 60.0  # seconds: between two touches; without a touch, after which an owner has ended
LARGEST = 4096  # bytes of the file


class OwnedError(LuxelError):
    """Another process writes into the folder."""


@dataclass(frozen=True)
class Owner:
    """Who writes into a folder.

    Args:
        host, boot: machine, and what tells its present run from earlier ones.
        pid, began: process, and when it began to own the folder, seconds since 1970.
        command: its program and command, without options: these may hold a token.
    """

    host: str
    boot: str
    pid: int
    began: float
    command: str

    @staticmethod
    def this() -> Owner:
        """The present process."""
        program = Path(sys.argv[0]).name
        verbs = sys.argv[1:2] if sys.argv[1:] and sys.argv[1].isalpha() else []
        command = " ".join(["luxel" if program == "cli.py" else program, *verbs])[:200]
        return Owner(socket.gethostname(), _boot(), os.getpid(), time.time(), command)

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.began))
        return f"process {self.pid} on {self.host} since {when} ({self.command})"


class Ownership:
    """The right to write into a folder, until `release` or the end of the process; also a context manager."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path

    def release(self) -> None:
        """Gives up the right; a second call does nothing."""
        path, self._path = self._path, None
        if path is not None:
            _release(path)

    def __enter__(self) -> Ownership:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        self.release()


@dataclass
class _Held:
    file: int  # descriptor of OWNER
    claimed: bool
    holders: int


_held: dict[Path, _Held] = {}
_lock = threading.RLock()
_beating = threading.Event()


def own(folder: Path) -> Ownership:
    """Makes this process the owner of a folder; it may own it several times.

    Args:
        folder: exists.

    Raises:
        OwnedError: another process is its owner.
        ForeignFileError: something that luxel did not make is instead of the file that names the owner.
        LuxelError: the folder cannot be written to.
    """
    path = folder.resolve()
    with _lock:
        held = _held.get(path)
        if held is not None and not _is_gone(path, held):
            held.holders += 1
            return Ownership(path)
        if held is not None:  # the folder was deleted and is there again
            os.close(held.file)
            del _held[path]
        _held[path] = _take(folder, path)
        _start_beating()
        return Ownership(path)


def is_gone(folder: Path) -> bool:
    """Whether a folder that this process owns was deleted, moved or replaced."""
    path = folder.resolve()
    with _lock:
        held = _held.get(path)
        return held is not None and _is_gone(path, held)


def delete_mark(folder: Path) -> None:
    """Deletes the file that names the owner, which is this process, as the folder itself will be deleted."""
    with contextlib.suppress(OSError), opened_folder(folder) as handle:
        status = os.stat(OWNER, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
            os.unlink(OWNER, dir_fd=handle)


def _take(folder: Path, path: Path) -> _Held:
    try:
        file = _opened(path)
    except OSError as error:
        raise LuxelError(
            f"{folder}: the run folder cannot be written ({error.strerror or error}).",
            "Choose another folder (--run), or change its permissions.",
        ) from error
    claimed = False
    try:
        locks = _flock(file)
        other = _read(file)
        if locks is None:
            claimed = _claim(path, other)
        if locks is False or (locks is None and not claimed) or _lives_elsewhere(path, file, other):
            raise _refusal(folder, other)
        _write(file, Owner.this())
    except BaseException as error:
        os.close(file)
        if claimed:
            _unlink(path / CLAIM)
        if isinstance(error, OSError):
            raise LuxelError(
                f"{folder}: the run folder cannot be written ({error.strerror or error}).",
                "Choose another folder (--run), or free some disk space.",
            ) from error
        raise
    return _Held(file, claimed, 1)


def _opened(path: Path) -> int:
    """The descriptor of the file that names the owner; one with another content gets another name.

    Raises:
        ForeignFileError: there is something else than a file.
        OSError: it cannot be opened.
    """
    output = OutputFolder(path)
    file = output.open_in_place(OWNER, os.O_RDWR)
    if os.fstat(file).st_size and _read(file) is None:
        os.close(file)
        output.set_aside(OWNER)
        file = output.open_in_place(OWNER, os.O_RDWR)
    return file


def _refusal(folder: Path, other: Owner | None) -> OwnedError:
    writer = str(other) if other is not None else "another process"
    stop = f"stop it (kill {other.pid}), " if other is not None and other.host == socket.gethostname() else ""
    return OwnedError(
        f"{folder}: {writer} writes into this run folder.",
        f"Wait until it has ended, {stop}or train into another folder (--run). `luxel view {folder}` shows the run.",
    )


def _flock(file: int) -> bool | None:
    """Locks a file: whether it worked; None where there are no such locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # ENOLCK, EOPNOTSUPP, EINVAL: the file system has none
        return None
    return True


def _lives_elsewhere(path: Path, file: int, other: Owner | None) -> bool:
    """Whether the owner in the file is of another machine and has touched the file lately."""
    if other is None or other.host == socket.gethostname():
        return False  # on this machine the lock or the claim decides
    return _age(path, os.fstat(file).st_mtime) < STALE


def _claim(path: Path, other: Owner | None) -> bool:
    """Creates the claim where there are no locks, instead of that of an owner that has ended."""
    claim = path / CLAIM
    for _ in range(2):
        try:
            os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            return True
        except FileExistsError:
            if other is not None and not _has_ended(path, other):
                return False
            if other is None and _age(path, claim.stat().st_mtime) < STALE:
                return False  # being made
            if not stat.S_ISREG(claim.lstat().st_mode) or claim.lstat().st_size:
                raise foreign(claim) from None
            # Renamed, not deleted: of two processes that find a claim of the dead, one succeeds.
            aside = claim.with_name(temporary_name())
            journal().note(aside)
            with contextlib.suppress(OSError):
                os.rename(claim, aside)
            _unlink(aside)
            journal().forget(aside)
    return False


def _has_ended(path: Path, owner: Owner) -> bool:
    if owner.host == socket.gethostname():
        return owner.boot != _boot() or not is_alive(owner.pid)
    with contextlib.suppress(OSError):
        return _age(path, (path / OWNER).stat().st_mtime) >= STALE
    return True


def is_alive(pid: int) -> bool:
    """Whether a process of this machine exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def _age(path: Path, then: float) -> float:
    """Seconds since a modification time, by the clock of the file system."""
    probe = path / temporary_name()
    journal().note(probe)
    try:
        os.close(os.open(probe, NEW, MODE))
        return probe.stat().st_mtime - then
    except OSError:
        return time.time() - then
    finally:
        _unlink(probe)
        journal().forget(probe)


def _read(file: int) -> Owner | None:
    try:
        fields: Any = json.loads(os.pread(file, LARGEST, 0))
        kinds = {"host": str, "boot": str, "pid": int, "began": (int, float), "command": str}
        if all(isinstance(fields[name], kind) for name, kind in kinds.items()):
            return Owner(**{name: fields[name] for name in kinds})
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _write(file: int, owner: Owner) -> None:
    text = json.dumps(asdict(owner)).encode()
    os.ftruncate(file, 0)
    os.pwrite(file, text, 0)


def _is_gone(path: Path, held: _Held) -> bool:
    try:
        there, ours = os.stat(path / OWNER), os.fstat(held.file)
    except OSError:
        return True
    return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


def _release(path: Path) -> None:
    with _lock:
        held = _held.get(path)
        if held is None:
            return
        held.holders -= 1
        if held.holders:
            return
        del _held[path]
        with contextlib.suppress(OSError):
            os.ftruncate(held.file, 0)
        if held.claimed:
            _unlink(path / CLAIM)
        os.close(held.file)


def _start_beating() -> None:
    if not _beating.is_set():
        _beating.set()
        threading.Thread(target=_beat, name="luxel-owner", daemon=True).start()


def _beat() -> None:
    while True:
        time.sleep(BEAT)
        with _lock:
            for held in _held.values():
                with contextlib.suppress(OSError):
                    os.utime(held.file)


def _forget() -> None:
    """In a child made by fork: the parent owns the folders. To close its descriptor does not unlock them."""
    global _lock
    _lock = threading.RLock()
    for held in _held.values():
        with contextlib.suppress(OSError):
            os.close(held.file)
    _held.clear()
    _beating.clear()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
