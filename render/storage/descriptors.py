"""Folders and files below a root by descriptors, so that no link inside of the root is followed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from luxel.render.errors import LuxelError

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
REMEDY = "Move it elsewhere, or give another folder."


class ForeignFileError(LuxelError):
    """Something that luxel did not make is where luxel would write, replace or delete."""


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a relative name.

    Raises:
        ValueError: it is empty, absolute, or leads out of the folder.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError(f"name must be relative and stay below its folder, got {name!r}")
    return path.parts


@contextmanager
def opened_folder(
    root: Path, parts: Sequence[str] = (), *, make: bool = False, make_root: bool = True
) -> Iterator[int]:
    """The descriptor of a folder below a root.

    Args:
        root: links on the way to it are followed, as the user chose it; it exists unless ``make``.
        parts: names of the folders from the root to the one that is opened; no link among them is followed.
        make: make what is missing, and flush the folder around it to the disk.
        make_root: with ``make``, make the root too.

    Raises:
        ForeignFileError: one of ``parts`` is a link or no folder.
        OSError: a folder does not exist or cannot be opened.
    """
    if make and make_root:
        make_folders(root)
    handle = os.open(root, FOLDER)
    try:
        for depth, name in enumerate(parts, 1):
            try:
                inner = _opened(handle, name)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):  # another thread or process was faster
                    os.mkdir(name, dir_fd=handle)
                flush_folder(handle)
                inner = _opened(handle, name)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                raise _no_folder(root.joinpath(*parts[:depth])) from error
            outer, handle = (
                handle,
                inner,
            )  # before it is closed: an interrupt after that must not close it again
            os.close(outer)
        yield handle
    finally:
        os.close(handle)


def _opened(handle: int, name: str) -> int:
    return os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=handle)


def _no_folder(path: Path) -> ForeignFileError:
    what = "a symbolic link" if path.is_symlink() else "no folder"
    return ForeignFileError(
        f"{path}: this is {what}. luxel writes a folder of this name, and follows no links inside of the folders that "
        "it writes.",
        "Move it elsewhere, or put the folder itself in its place.",
    )


def make_folders(path: Path) -> None:
    """Makes a folder and those around it that are missing, and flushes their names to the disk."""
    missing = []
    at = path
    while not at.exists() and at != at.parent:
        missing.append(at)
        at = at.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another thread or process was faster
            os.mkdir(folder)
        flush_folder(folder.parent)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def flush_folder(folder: Path | int) -> None:
    """Flushes the names in a folder to the disk, where its file system can."""
    handle = folder if isinstance(folder, int) else os.open(folder, FOLDER)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EROFS):
            raise
    finally:
        if not isinstance(folder, int):
            os.close(handle)


def status_of(handle: int, name: str) -> os.stat_result | None:
    """What is under a name in an open folder, a link itself; None: nothing."""
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_regular(path: str | Path, *, folder: int | None = None, follow: bool = True) -> BinaryIO:
    """Opens a regular file for reading, without waiting for the other end of a pipe.

    Args:
        path: of the file; relative to ``folder`` where that is given.
        folder: descriptor of an open folder.
        follow: follow a link under that name.

    Raises:
        OSError: it cannot be opened, or is no regular file (errno EINVAL, or EISDIR for a folder).
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    status = os.stat(path, dir_fd=folder, follow_symlinks=follow)
    if not stat.S_ISREG(status.st_mode):  # before opening, which may have effects on a device
        raise _not_regular(path, status.st_mode)
    handle = os.open(path, flags, dir_fd=folder)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise _not_regular(path, mode)
        return os.fdopen(handle, "rb")
    except BaseException:
        with contextlib.suppress(
            OSError
        ):  # an interrupt after fdopen: its file, which is lost, has closed it
            os.close(handle)
        raise


def _not_regular(path: str | Path, mode: int) -> OSError:
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISLNK(mode):
        return OSError(errno.ELOOP, "it is a symbolic link, which is not followed here", str(path))
    return OSError(errno.EINVAL, "it is a device, a pipe or a socket, not a file", str(path))


def open_in_place(handle: int, name: str, path: Path, flags: int, mode: int = 0o644) -> int:
    """Opens a file that is changed in place (a log, a lock), made if it is missing.

    Args:
        handle, name: folder and name of the file.
        path: for messages.
        flags: such as os.O_RDWR or os.O_WRONLY | os.O_APPEND.

    Raises:
        ForeignFileError: there is something else than a regular file with this one name.
        OSError: it cannot be opened.
    """
    extra = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    status = status_of(handle, name)
    if status is not None:
        _require_one_file(status, path)
    try:
        file = os.open(name, flags | extra, mode, dir_fd=handle)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise foreign(path) from error
        raise
    try:
        _require_one_file(os.fstat(file), path)
    except BaseException:
        os.close(file)
        raise
    return file


def _require_one_file(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise foreign(path, in_place=True)


def foreign(path: Path, *, has_force: bool = False, in_place: bool = False) -> ForeignFileError:
    """The error for something that is at the path of a file of luxel.

    Args:
        path: of it.
        has_force: name --force as a remedy.
        in_place: the file would be changed in place.
    """
    try:
        status = os.lstat(path)
        mode = status.st_mode
    except OSError:
        return ForeignFileError(f"{path}: cannot be replaced.", REMEDY)
    if not stat.S_ISREG(mode):
        names = {stat.S_IFLNK: "symbolic link", stat.S_IFDIR: "folder"}
        kind = names.get(stat.S_IFMT(mode), "device, pipe or socket")
        return ForeignFileError(f"{path}: this is a {kind}, where luxel would write a file.", REMEDY)
    if status.st_nlink > 1 and in_place:
        return ForeignFileError(
            f"{path}: this file has a second name elsewhere (a hard link), and luxel would change it in place.",
            "Put a copy of the file in its place.",
        )
    return ForeignFileError(
        f"{path}: luxel did not write this file, or it was changed since.",
        "Move it elsewhere, give another folder, or replace it with --force." if has_force else REMEDY,
    )
