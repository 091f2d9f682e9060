"""A folder that luxel writes into: it replaces and deletes only what it made, and follows no link."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from luxel.render.storage.batch import Batch
from luxel.render.storage.descriptors import (
    ForeignFileError,
    flush_folder,
    foreign,
    open_in_place,
    open_regular,
    opened_folder,
    parts_of,
    status_of,
)
from luxel.render.storage.drafts import Draft, forget_stamp, is_stamped
from luxel.render.storage.manifest import NAME as MANIFEST
from luxel.render.storage.manifest import Content, Manifest, content_of

SHOWN = 5  # names in a message


class OutputFolder:
    """A folder that luxel writes into, with a manifest of what it wrote.

    A file is replaced or deleted only where it is regular, inside of the folder, of a name that the caller gives, and
    its content is what the manifest says. New files get their names when they are complete and on the disk.

    Args:
        path: of the folder; links on the way to it are followed, as the user chose it. Made when something is written.
        inside: name of the folder below ``path`` that is meant; no link on the way there is followed.
        force: replace other files of the names that are written too; those are never deleted. None: no, and the
            command has no --force that a message could name.
        make: make ``path`` itself where it is missing.
    """

    def __init__(self, path: Path, inside: str = "", *, force: bool | None = None, make: bool = True) -> None:
        self.root, self.parts = Path(path), parts_of(inside) if inside else ()
        self.force, self._make_root = force, make
        self.manifest = Manifest(self.root, self.parts, make)
        self._known: dict[str, list[Content]] | None = None
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """Of the folder."""
        return self.root.joinpath(*self.parts)

    def require(self, names: Iterable[str]) -> None:
        """Checks that files can be written under some names, before long work.

        Raises:
            ForeignFileError: something that luxel did not make has one of them; it is named, and nothing was changed.
        """
        others = [name for name in names if not self._replaceable(name)]
        if not others:
            return
        if len(others) == 1:
            raise foreign(self.path / others[0], has_force=self.force is not None)
        error = foreign(self.path / others[0], has_force=self.force is not None)
        shown = ", ".join(others[1:SHOWN]) + (
            f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        )
        raise ForeignFileError(f"{error.problem} So are {shown}.", error.remedy)

    def is_own(self, name: str) -> bool:
        """Whether the file of a name is one that luxel wrote, unchanged since."""
        parts = parts_of(name)
        try:
            with self.opened(parts[:-1]) as handle:
                status = status_of(handle, parts[-1])
                if status is None or not stat.S_ISREG(status.st_mode):
                    return False
                if is_stamped(status):
                    return True
                contents = [c for c in self.contents(name) if c.size == status.st_size]
                if not contents:
                    return False
                with open_regular(parts[-1], folder=handle, follow=False) as file:
                    return content_of(file) in contents
        except (OSError, ForeignFileError):
            return False

    def names(self, pattern: re.Pattern[str] | None = None) -> list[str]:
        """Names of the manifest that match a pattern as a whole, whether or not their files are there."""
        self._all()
        with self._lock:
            names = list(self._known or ())
        return [name for name in names if pattern is None or pattern.fullmatch(name)]

    @contextmanager
    def writing(self, name: str, suffix: str = "") -> Iterator[Draft]:
        """A temporary file that gets a name when the context ends; removed where it ends with an exception.

        Args:
            name: relative to the folder; folders in it are made.
            suffix: of the temporary name, for libraries that go by it.

        Raises:
            ForeignFileError: something that luxel did not make has the name.
            OSError: it cannot be written.
        """
        with self.batch() as batch, batch.writing(name, suffix) as draft:
            yield draft

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Several files that get their names together when the context ends, and none where it ends with an
        exception."""
        batch = Batch(self)  # pyright: ignore[reportArgumentType]  # each imports the other
        try:
            yield batch
            batch.commit()
        finally:
            batch.discard()

    def write(self, name: str, content: bytes | Iterable[bytes | memoryview], suffix: str = "") -> Path:
        """Writes a complete file; see `writing`. Returns its path."""
        digest, size = hashlib.sha256(), 0
        with self.writing(name, suffix) as draft:
            for chunk in [content] if isinstance(content, bytes) else content:
                draft.file.write(chunk)
                digest.update(chunk)
                size += memoryview(chunk).nbytes
            draft.content = Content(size, digest.hexdigest())
        return self.path / name

    def delete(self, names: Iterable[str]) -> list[str]:
        """Deletes files that luxel wrote; others stay. Returns the names that stay though something is there."""
        deleted, others = [], []
        for name in names:
            if self.unlink(name):
                deleted.append(name)
            elif os.path.lexists(self.path / name):
                others.append(name)
        for folder in dict.fromkeys(parts_of(name)[:-1] for name in deleted):
            with contextlib.suppress(OSError, ForeignFileError), self.opened(folder) as handle:
                flush_folder(
                    handle
                )  # before the manifest forgets them: after a power cut they would be foreign
        with contextlib.suppress(OSError, ForeignFileError), self._lock:
            self.manifest.drop(deleted)
            for name in deleted:
                if self._known is not None:
                    self._known.pop(name, None)
        return others

    def unlink(self, name: str) -> bool:
        """Deletes a file that luxel wrote and whose name will be given again; whether it did."""
        parts = parts_of(name)
        if not self.is_own(name):
            return False
        with contextlib.suppress(OSError, ForeignFileError), self.opened(parts[:-1]) as handle:
            status = status_of(handle, parts[-1])
            os.unlink(parts[-1], dir_fd=handle)
            if status is not None:
                forget_stamp(status)
            return True
        return False

    def set_aside(self, name: str) -> str:
        """Gives a file another name that nothing has; returns that: NAME.before-N.

        Raises:
            ForeignFileError: it is a link, a folder or something else that is no file.
            OSError: it cannot be renamed.
        """
        parts = parts_of(name)
        with self.opened(parts[:-1]) as handle:
            status = status_of(handle, parts[-1])
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise foreign(self.path / name)
            number = 1
            while status_of(handle, aside := f"{parts[-1]}.before-{number}") is not None:
                number += 1
            os.rename(parts[-1], aside, src_dir_fd=handle, dst_dir_fd=handle)
            flush_folder(handle)
        return "/".join((*parts[:-1], aside))

    def adopt(self, names: Iterable[str]) -> None:
        """Adds regular files to the manifest that an earlier version of luxel wrote; the caller has identified them."""
        contents: dict[str, Content] = {}
        for name in names:
            parts = parts_of(name)
            with (
                contextlib.suppress(OSError, ForeignFileError),
                self.opened(parts[:-1]) as handle,
                open_regular(parts[-1], folder=handle, follow=False) as file,
            ):
                contents[name] = content_of(file)
        with self._lock:
            self.manifest.add(contents)
            self._known = None

    def make_folder(self, name: str) -> Path:
        """Makes a folder below this one; returns its path.

        Raises:
            ForeignFileError: a link or something else that is no folder has its name.
        """
        with self.opened(parts_of(name), make=True):
            return self.path / name

    def make(self) -> None:
        """Makes the folder itself."""
        with self.opened((), make=True):
            pass

    def remove_folder(self, name: str = "") -> None:
        """Removes a folder below this one, or the folder itself, if nothing is in it but an empty manifest."""
        parts = parts_of(name) if name else ()
        with contextlib.suppress(OSError, ForeignFileError):
            if not parts and set(os.listdir(self.path)) <= {MANIFEST} and not self._all():
                with self.opened(()) as handle, contextlib.suppress(OSError):
                    os.unlink(MANIFEST, dir_fd=handle)
            if parts or self.parts:
                full = (*self.parts, *parts)
                with opened_folder(self.root, full[:-1]) as handle:
                    os.rmdir(full[-1], dir_fd=handle)
            else:
                os.rmdir(self.root)

    def open_in_place(self, name: str, flags: int, mode: int = 0o644) -> int:
        """The descriptor of a log or a lock, made if it is missing; see `luxel.render.storage.descriptors`."""
        parts = parts_of(name)
        with self.opened(parts[:-1], make=True) as handle:
            return open_in_place(handle, parts[-1], self.path / name, flags, mode)

    def refresh(self) -> None:
        """Forgets what was read of the manifest, which another process may have written meanwhile."""
        with self._lock:
            self._known = None

    def note(self, contents: dict[str, Content]) -> None:
        """Notes in the manifest what will be written under names."""
        with self._lock:
            self.manifest.add(contents)
            if self._known is not None:
                for name, content in contents.items():
                    self._known.setdefault(name, []).append(content)

    def opened(self, parts: tuple[str, ...], *, make: bool = False) -> contextlib.AbstractContextManager[int]:
        """The descriptor of a folder below this one; see `luxel.render.storage.descriptors.opened_folder`."""
        return opened_folder(self.root, (*self.parts, *parts), make=make, make_root=self._make_root)

    def _all(self) -> dict[str, list[Content]]:
        with self._lock:
            if self._known is None:
                self._known = self.manifest.read()
            return self._known

    def contents(self, name: str) -> list[Content]:
        """What the manifest says of a name: all that luxel wrote there, the newest last."""
        return list(self._all().get(name, []))

    def _replaceable(self, name: str) -> bool:
        """Whether a file may get a name: nothing has it, or a file that luxel wrote, or with ``force`` any file."""
        parts = parts_of(name)
        try:
            with self.opened(parts[:-1]) as handle:
                status = status_of(handle, parts[-1])
        except FileNotFoundError:
            return True
        if status is None:
            return True
        if not stat.S_ISREG(status.st_mode):
            return False
        if self.force or self.is_own(name):
            return True
        self.refresh()  # another process may have written it
        return self.is_own(name)


def entries_besides(folder: Path, allowed: Callable[[str], bool]) -> list[str]:
    """Names in a folder that are not allowed, in order; empty where there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not allowed(name))
    except FileNotFoundError:
        return []
