"""Single files in folders of the user: written whole or not at all, on the disk when they have their name."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from luxel.render.storage.descriptors import flush_folder, make_folders, open_regular, opened_folder
from luxel.render.storage.drafts import MODE, Draft
from luxel.render.storage.journal import journal, temporary_name


@contextmanager
def writing_file(path: Path, *, replace: bool = True, suffix: str = "", mode: int = MODE) -> Iterator[Draft]:
    """A temporary file next to ``path`` that gets this name when the context ends; for single files without a manifest.

    Args:
        path: of the file; folders on the way to it are made. A link of this name is replaced, not followed.
        replace: whether a file that is there may be replaced, which the user has allowed.
        suffix: of the temporary name, for libraries that go by it.
        mode: permissions, before the umask of the process.

    Raises:
        FileExistsError: not ``replace``, and something has the name.
        IsADirectoryError: a folder has the name.
        OSError: it cannot be written.
    """
    make_folders(path.parent)
    _require_free(path, replace)

    def place(handle: int, temporary: str) -> Path:
        if replace:
            os.rename(temporary, path.name, src_dir_fd=handle, dst_dir_fd=handle)
        else:
            _name_new(handle, temporary, path)
        return path

    with _writing(path.parent, place, suffix, mode) as draft:
        yield draft


@contextmanager
def writing_unused(folder: Path, stem: str, suffix: str = "") -> Iterator[Draft]:
    """A temporary file that gets the first name of STEM, STEM-2, STEM-3, ... which nothing has when the context ends;
    ``target`` of the draft is then its path.

    Args:
        folder: made if it is missing.
        stem, suffix: of the name.

    Raises:
        OSError: it cannot be written.
    """
    make_folders(folder)

    def place(handle: int, temporary: str) -> Path:
        number, path = 1, folder / f"{stem}{suffix}"
        while True:
            try:
                _require_free(path, False)
                _name_new(handle, temporary, path)
                return path
            except (FileExistsError, IsADirectoryError):
                number += 1
                path = folder / f"{stem}-{number}{suffix}"

    with _writing(folder, place, suffix) as draft:
        yield draft


@contextmanager
def _writing(
    folder: Path, place: Callable[[int, str], Path], suffix: str, mode: int = MODE
) -> Iterator[Draft]:
    """A temporary file in a folder, which ``place`` names: given the descriptor of the folder and the temporary name,
    it returns the path."""
    temporary = temporary_name(suffix)
    draft = Draft(folder / temporary)
    journal().note(draft.path)
    try:
        with opened_folder(folder) as handle:
            draft.make(handle, mode)
            try:
                yield draft
                draft.close()
                with open_regular(temporary, folder=handle, follow=False) as file:
                    os.fsync(file.fileno())
                draft.target = place(handle, temporary)
                flush_folder(handle)
            finally:
                draft.close()
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=handle)
    finally:
        journal().forget(draft.path)


def _require_free(path: Path, replace: bool) -> None:
    if not os.path.lexists(path):
        return
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not replace:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _name_new(handle: int, temporary: str, path: Path) -> None:
    """Gives a temporary file a name that nothing has."""
    try:
        os.link(temporary, path.name, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _require_free(path, False)
        os.rename(temporary, path.name, src_dir_fd=handle, dst_dir_fd=handle)
    else:
        with contextlib.suppress(OSError):  # before the folder is flushed, or a power cut brings it back
            os.unlink(temporary, dir_fd=handle)


def write_file(path: Path, content: bytes | Iterable[bytes | memoryview], *, replace: bool = True) -> Path:
    """Writes a complete file; see `writing_file`. Returns its path."""
    with writing_file(path, replace=replace) as draft:
        for chunk in [content] if isinstance(content, bytes) else content:
            draft.file.write(chunk)
    return path
