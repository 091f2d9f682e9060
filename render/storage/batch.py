"""Files of a folder that get their names together; see `luxel.render.storage.folder.OutputFolder.batch`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from luxel.render.storage.descriptors import ForeignFileError, flush_folder, open_regular, parts_of, status_of
from luxel.render.storage.drafts import Draft, stamp
from luxel.render.storage.journal import journal, temporary_name
from luxel.render.storage.manifest import Content, content_of

if TYPE_CHECKING:
    from luxel.render.storage.folder import OutputFolder


class Batch:
    """Files that get their names together; see `OutputFolder.batch`. Several threads may write them.

    Args:
        folder: that they are written into.
    """

    def __init__(self, folder: OutputFolder) -> None:
        self._folder = folder
        self._drafts: dict[str, tuple[str, Content]] = {}
        self._deleted: list[str] = []
        self._unlinked: list[str] = []
        self._lock = threading.Lock()

    @contextmanager
    def writing(self, name: str, suffix: str = "") -> Iterator[Draft]:
        """A temporary file, written to the disk when the context ends; see `OutputFolder.writing`."""
        parts = parts_of(name)
        self._folder.require([name])
        temporary = temporary_name(suffix)
        draft = Draft((self._folder.path / name).with_name(temporary))
        journal().note(draft.path)
        complete = False
        try:
            with self._folder.opened(parts[:-1], make=True) as handle:
                draft.make(handle)
                try:
                    yield draft
                    draft.close()
                    with open_regular(temporary, folder=handle, follow=False) as file:
                        content = draft.content or content_of(file)
                        os.fsync(file.fileno())
                    complete = True
                finally:
                    draft.close()
                    if not complete:
                        with contextlib.suppress(OSError):
                            os.unlink(temporary, dir_fd=handle)
        finally:
            if not complete:
                journal().forget(draft.path)
        with self._lock:
            before, self._drafts[name] = self._drafts.get(name), (temporary, content)
        if before is not None:
            self._remove(name, before[0])

    def write(self, name: str, content: bytes) -> None:
        """Writes a complete file; see `writing`."""
        with self.writing(name) as draft:
            draft.file.write(content)
            draft.content = Content(len(content), hashlib.sha256(content).hexdigest())

    def delete(self, names: Iterable[str]) -> None:
        """Deletes files that luxel wrote, when the others have their names."""
        self._deleted += names

    def unlink_first(self, name: str) -> None:
        """Deletes a file that this batch writes anew before any file gets its name: the old one would not fit the
        others."""
        self._unlinked.append(name)

    def commit(self) -> None:
        """Gives all files their names, and flushes these to the disk.

        Raises:
            ForeignFileError: something that luxel did not make has one of the names; no file got its name.
            OSError: it cannot be written.
        """
        with self._lock:
            drafts, self._drafts = self._drafts, {}
        try:
            self._folder.require(drafts)
            self._folder.note({name: content for name, (_, content) in drafts.items()})
            for name in self._unlinked:
                self._folder.unlink(name)
            folders = dict.fromkeys(parts_of(name)[:-1] for name in drafts)
            for folder in folders:
                with self._folder.opened(folder) as handle:
                    for name in [name for name in drafts if parts_of(name)[:-1] == folder]:
                        self._name(handle, *drafts[name][:1], name)
                        journal().forget((self._folder.path / name).with_name(drafts.pop(name)[0]))
                    flush_folder(handle)
        finally:
            for name, (temporary, _) in drafts.items():
                self._remove(name, temporary)
        self._folder.delete(self._deleted)
        self._deleted = []

    def discard(self) -> None:
        """Removes the temporary files that have no names yet."""
        with self._lock:
            drafts, self._drafts = self._drafts, {}
        for name, (temporary, _) in drafts.items():
            self._remove(name, temporary)

    @staticmethod
    def _name(handle: int, temporary: str, name: str) -> None:
        target = parts_of(name)[-1]
        os.rename(temporary, target, src_dir_fd=handle, dst_dir_fd=handle)
        status = status_of(handle, target)
        if status is not None:
            stamp(status)

    def _remove(self, name: str, temporary: str) -> None:
        with (
            contextlib.suppress(OSError, ForeignFileError),
            self._folder.opened(parts_of(name)[:-1]) as handle,
        ):
            os.unlink(temporary, dir_fd=handle)
        journal().forget((self._folder.path / name).with_name(temporary))
