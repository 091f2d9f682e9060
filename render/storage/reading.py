"""The door through which every file is read: whatever a parser raises becomes an error for the user.

A file that cannot be read (missing, no permission, a folder, a loop of links) is distinguished from one that is
damaged, and files are opened only if they are regular files that fit into memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from luxel.render.errors import LuxelError
from luxel.render.storage.descriptors import open_regular

LARGE = 1 << 28  # bytes from which a file's size is compared with the free memory
# What torch, C++ and OpenCV say.
NO_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "bad_alloc",
    "insufficient memory",
)
CONTROL_GROUPS, PROCESS = Path("/sys/fs/cgroup"), Path("/proc/self")
REASON_LENGTH = 160  # characters of a parser's message that are shown
NOT_IN_MEMORY = "Close other programs, or give a smaller file."

# What is wrong with a path by the error of the operating system, and what to do.
_PATHS = {
    errno.ENOENT: ("there is no such file", "Check the spelling of the path."),
    errno.EACCES: ("no permission to read it", "Give yourself permission to read it (chmod u+r), or give a copy."),
    errno.EPERM: ("no permission to read it", "Give yourself permission to read it (chmod u+r), or give a copy."),
    errno.EISDIR: ("this is a folder, not a file", "Give a file."),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Check the spelling of the path."),
    errno.ELOOP: ("its symbolic links lead in a circle", "Put the file itself instead of the link."),
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
    if is_lack_of_memory(cause):
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


def open_file(path: str | Path, error: type[LuxelError] = LuxelError) -> BinaryIO:
    """Opens a file for reading, without waiting for the other end of a pipe.

    Raises:
        LuxelError: as `check_file`, or it cannot be opened.
    """
    check_file(path, error)
    try:
        return open_regular(path)
    except (OSError, ValueError) as cause:
        raise unreadable(path, cause, error) from cause


def read_bytes(path: str | Path, error: type[LuxelError] = LuxelError) -> bytes:
    """The complete file.

    Raises:
        LuxelError: it cannot be read, is empty, is no regular file, or is larger than the free memory.
    """
    try:
        with open_file(path, error) as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGE and size > (free := available_memory()):
                raise error(
                    f"{path}: the file has {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free.",
                    NOT_IN_MEMORY,
                )
            return file.read(size)
    except OSError as cause:
        raise unreadable(path, cause, error) from cause
    except MemoryError as cause:
        raise unreadable(path, OSError(errno.ENOMEM, ""), error) from cause


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error of this machine's allocators, of Python, numpy, torch, OpenCV or C++, means that memory ran out,
    or an error for the user was caused by one."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if isinstance(error, LuxelError):
        return error.__cause__ is not None and is_lack_of_memory(error.__cause__)
    text = str(error).lower()
    return isinstance(error, Exception) and any(words in text for words in NO_MEMORY)


def available_memory() -> int:
    """Bytes of memory available without swapping: of the machine, of the control groups of this process and within its
    resource limits, where they exist."""
    free = [*_of_machine(), *_of_control_groups(), *_of_resource_limits()]
    if not free and hasattr(os, "sysconf"):
        free.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    return max(0, min(free, default=4 << 30))


def _of_machine() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _of_control_groups() -> Iterator[int]:
    """What the control group of this process and those around it leave, version 2 and version 1."""
    groups = [(CONTROL_GROUPS, "memory.max", "memory.current", "inactive_file")]
    with contextlib.suppress(OSError):
        for line in (PROCESS / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            root, names = CONTROL_GROUPS, ("memory.max", "memory.current", "inactive_file")
            if controllers == "memory":
                root = root / "memory"
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            elif controllers:
                continue
            own = root / path.lstrip("/")
            groups += [(group, *names) for group in (own, *own.parents) if group.is_relative_to(root)]
    for group, limit, current, cached in dict.fromkeys(groups):
        with contextlib.suppress(OSError, ValueError, IndexError):
            most = (group / limit).read_text().strip()
            if not most.isdecimal() or int(most) >= 1 << 60:  # no limit
                continue
            statistics = (group / "memory.stat").read_text().split()
            files = int(statistics[statistics.index(cached) + 1]) if cached in statistics else 0
            yield int(most) - int((group / current).read_text()) + files


def _of_resource_limits() -> Iterator[int]:
    """What `ulimit -v` and `ulimit -d` leave."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        status = (PROCESS / "status").read_text()
        used = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY and name in used:
                yield most - int(used[name].split()[0]) * 1024
