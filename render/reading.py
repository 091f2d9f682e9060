"""The door through which every file is read: whatever a parser raises becomes an error for the user.

A file that cannot be read (missing, no permission, a folder, a loop of links) is distinguished from one that is
damaged, and files are opened only if they are regular files that fit into memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from luxel.render.errors import LuxelError

LARGE = 1 << 28  # bytes from which a file's size is compared with the free memory
REASON_LENGTH = 160  # characters of a parser's message that are shown
NOT_IN_MEMORY = "Close other programs, or give a smaller file."

# What is wrong with a path by the error of the operating system, and what to do.
_PATHS = {
    errno.ENOENT: ("there is no such file", "Check the spelling of the path."),
    errno.EACCES: ("no permission to read it", "Give yourself permission to read it (chmod u+r), or give a copy."),
    errno.EPERM: ("no permission to read it", "Give yourself permission to read it (chmod u+r), or give a copy."),
    errno.EISDIR: ("this is a folder, not a file", "Give a file."),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Check the spelling of the path."),
    errno.ELOOP: ("its symbolic links lead in a circle", "Put the file itself in place of the link."),
    errno.ENAMETOOLONG: ("the name is too long for a file", "Give the file a shorter name."),
    errno.EIO: ("the disk reports an error", "Check the disk, then copy the file again."),
    errno.ESTALE: ("the network folder has lost it", "Mount the network folder again."),
    errno.EMFILE: ("too many files are open", "Raise the limit of open files (ulimit -n), then try again."),
    errno.ENFILE: ("too many files are open", "Close other programs, then try again."),
    errno.ENOMEM: ("it does not fit into the free memory", NOT_IN_MEMORY),
}  # fmt: skip


@contextmanager
def reading(path: str | Path, what: str, remedy: str, error: type[LuxelError] = LuxelError) -> Iterator[None]:
    """Turns everything that is raised within into an error that names the file; the cause is chained.

    Errors for the user pass; those that do not name the file get its path in front.

    Args:
        path: the file, or the folder of a capture.
        what: what is read, with its article ("a PLY file").
        remedy: what to do about a damaged file.
        error: type of the errors.

    Raises:
        LuxelError: of type ``error``: the file cannot be read, is damaged, or does not fit into memory.
    """
    try:
        yield
    except LuxelError as known:
        if str(path) in known.problem or Path(path).name in known.problem:
            raise
        raise error(f"{path}: {known.problem}", known.remedy) from known
    except Exception as cause:
        raise _explained(path, what, remedy, cause, error) from cause


def _explained(
    path: str | Path, what: str, remedy: str, cause: Exception, error: type[LuxelError]
) -> LuxelError:
    """The error for the user of anything that a parser raises."""
    if isinstance(cause, OSError) and cause.errno in _PATHS:
        return unreadable(cause.filename or path, cause, error)
    text = " ".join(str(cause).split())
    if isinstance(cause, MemoryError) or "can't allocate memory" in text:
        return error(f"{path}: {what} that does not fit into the free memory.", NOT_IN_MEMORY)
    if isinstance(cause, RecursionError):
        text = "nested too deeply"
    elif not isinstance(cause, ValueError | OSError | SyntaxError) or not text:
        text = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    if len(text) > REASON_LENGTH:
        text = text[:REASON_LENGTH] + "..."
    return error(f"{path}: cannot be read as {what}: damaged, or of another format ({text}).", remedy)


def unreadable(
    path: str | bytes | int | Path, cause: OSError | ValueError, error: type[LuxelError] = LuxelError
) -> LuxelError:
    """The error for a path that cannot be opened, as the operating system reports it."""
    shown = os.fsdecode(path) if isinstance(path, bytes) else str(path)
    if len(shown) > 300:
        shown = f"{shown[:140]}...{shown[-140:]}"
    number = getattr(cause, "errno", None)
    reason = getattr(cause, "strerror", None) or str(cause)
    problem, remedy = _PATHS.get(number or 0, (reason, "Check the path."))
    return error(f"{shown}: cannot be read: {problem}.", remedy)


def check_file(path: str | Path, error: type[LuxelError] = LuxelError) -> int:
    """The size of a file in bytes, before it is opened.

    Raises:
        LuxelError: it is missing, a folder, a device, a pipe, or empty.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError) as cause:
        raise unreadable(path, cause, error) from cause
    if stat.S_ISDIR(status.st_mode):
        raise unreadable(path, IsADirectoryError(errno.EISDIR, ""), error)
    if not stat.S_ISREG(status.st_mode):
        raise error(f"{path}: this is a device or a pipe, not a file.", "Copy its content into a file.")
    if status.st_size == 0:
        raise error(f"{path}: the file is empty (zero bytes).", "Copy or export it again.")
    return status.st_size


def read_bytes(path: str | Path, error: type[LuxelError] = LuxelError) -> bytes:
    """The whole file.

    Raises:
        LuxelError: it cannot be read, is empty, is no regular file, or is larger than the free memory.
    """
    size = check_file(path, error)
    if size > LARGE and size > (free := available_memory()):
        raise error(
            f"{path}: the file has {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free.",
            NOT_IN_MEMORY,
        )
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as cause:
        raise unreadable(path, cause, error) from cause
    except MemoryError as cause:
        raise unreadable(path, OSError(errno.ENOMEM, ""), error) from cause


def available_memory() -> int:
    """Bytes of memory available without swapping, from /proc and the control group where they exist."""
    free = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit.isdecimal():
            free.append(int(limit) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError, IndexError):
        pass
    if not free and hasattr(os, "sysconf"):
        free.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    return max(0, min(free, default=4 << 30))
