"""Single files in folders of the user: written whole or not at all, on the disk when they have their name."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from luxel.render.storage.descriptors import flush_folder, make_folders, open_regular, opened_folder
from luxel.render.storage.drafts import MODE, Draft
from luxel.render.storage.journal import journal, temporary_name


@contextmanager
def writing_file(path: Path, *, replace: bool = True, suffix: str = "", mode: int = MODE) -> Iterator[Draft]:
    """A temporary file beside ``path`` that gets this name when the context ends; for single files without a manifest.

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
    temporary = temporary_name(suffix)
    draft = Draft(path.with_name(temporary))
    _require_free(path, replace)
    journal().note(draft.path)
    try:
        with opened_folder(path.parent) as handle:
            draft.make(handle, mode)
            try:
                yield draft
                draft.close()
                with open_regular(temporary, folder=handle, follow=False) as file:
                    os.fsync(file.fileno())
                if replace:
                    os.rename(temporary, path.name, src_dir_fd=handle, dst_dir_fd=handle)
                else:
                    _name_new(handle, temporary, path)
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
    """Writes a whole file; see `writing_file`. Returns its path."""
    with writing_file(path, replace=replace) as draft:
        for chunk in [content] if isinstance(content, bytes) else content:
            draft.file.write(chunk)
    return path
