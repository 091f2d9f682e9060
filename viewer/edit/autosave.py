"""Autosave: every edit as a file of its own, and a list of them, so that an interrupted session can be resumed.

A folder holds ``edits.json`` (which scene, the edits in order, and how many of them are in effect) and one file an
edit with what it changes. All files are replaced atomically, and the list is written after the files that it names: it
is always whole. The scene itself is not stored and never written to.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.render.storage.folder import OutputFolder
from luxel.viewer.edit.changes import Edit
from luxel.viewer.edit.document import Document
from luxel.viewer.edit.edit_files import pack_edit, unpack_edit

log = logging.getLogger("luxel.viewer")

LIST = "edits.json"
PREVIOUS = ".previous"
MAX_SESSIONS = 99  # of one scene at a time
MAX_ASIDE = 5  # earlier sessions of a scene whose edits are retained
FORMAT = 1


@dataclass(frozen=True)
class _Entry:
    file: str
    title: str


class Autosave:
    """Writes the edits of a document into a folder, in a thread of its own; give it to the document as ``on_edit``.

    Args:
        folder: made when the first edit is written; what an earlier session left there and `resume` has not taken up
            is then moved to a folder alongside it, with the suffix ``.previous``, ``.previous-2``, ...
        scene: as it was opened.
        identity: its `fingerprint`, if that is known already.

    Attributes:
        problem: message of the last failure to write, or empty.
    """

    def __init__(self, folder: Path, scene: Parameters, identity: str | None = None) -> None:
        self.folder, self.problem = folder, ""
        self._output = OutputFolder(folder.parent, folder.name)
        self._identity = {"format": FORMAT, "scene": identity or fingerprint(scene), "count": scene.count}
        self._entries: list[_Entry] = []
        self._number = 0
        self._fresh = True
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-autosave")
        self._last: Future[None] | None = None
        self._lock_file: IO[str] | None = None

    @staticmethod
    def within(folder: Path, scene: Parameters) -> Autosave:
        """In the folder of the scene within ``folder``, named by its `fingerprint`.

        Where a session that is still open writes there, in a second one of that name with a number, and so on. What
        cannot be locked is not.
        """
        identity = fingerprint(scene)
        for number in range(1, MAX_SESSIONS + 1):
            name = identity if number == 1 else f"{identity}-{number}"
            lock = _lock(folder / f"{name}.lock")
            if lock is not None or number == MAX_SESSIONS:
                break
        autosave = Autosave(folder / name, scene, identity)
        autosave._lock_file = lock
        return autosave

    def __call__(self, edit: Edit | None, document: Document) -> None:
        """Notes an edit, or (None) that one was undone or redone; returns at once."""
        self._last = self._pool.submit(self._note, edit, len(document.history.undo_titles))

    def flush(self) -> None:
        """Returns when all edits are written, or could not be."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Writes what is left, ends the thread, and leaves the folder to other sessions."""
        self._pool.shutdown(wait=True)
        if self._lock_file is not None:
            self._lock_file.close()

    def _note(self, edit: Edit | None, position: int) -> None:
        try:
            self._start()
            dropped: list[_Entry] = []
            if edit is not None:
                dropped = self._entries[position - 1 :]
                self._number += 1
                entry = _Entry(f"{self._number:06d}.safetensors", edit.title)
                self._output.write(entry.file, pack_edit(edit))
                self._entries = [*self._entries[: position - 1], entry]
            self._write_list(position)
            self._output.delete(entry.file for entry in dropped)
            self.problem = ""
        except (OSError, LuxelError) as error:  # editing goes on without autosave
            self.problem = str(error)
            log.warning("The edits could not be saved in %s: %s", self.folder, error)
        except Exception as error:
            self.problem = str(error)
            log.exception("The edits could not be saved in %s.", self.folder)

    def _start(self) -> None:
        """Moves aside what an earlier session left, unless that was resumed."""
        if self._fresh:
            self._set_aside()
            self._output.refresh()
            self._output.make()
            self._fresh = False

    def _set_aside(self) -> None:
        """Moves the folder aside; of the sessions before, MAX_ASIDE are retained."""
        if not (self.folder / LIST).is_file():
            return
        for outdated in self._asides()[MAX_ASIDE - 1 :]:
            output = OutputFolder(outdated.parent, outdated.name)
            output.delete(output.names())
            output.remove_folder()
        number, aside = 1, self.folder.with_name(self.folder.name + PREVIOUS)
        while aside.exists():
            number += 1
            aside = self.folder.with_name(f"{self.folder.name}{PREVIOUS}-{number}")
        self.folder.rename(aside)

    def _asides(self) -> list[Path]:
        """Folders of earlier sessions that were moved aside, the newest first."""
        name = self.folder.name + PREVIOUS
        folders = [self.folder.with_name(name), *self.folder.parent.glob(f"{name}-[0-9]*")]
        return sorted((f for f in folders if (f / LIST).is_file()), key=_changed_at, reverse=True)

    def discard(self) -> None:
        """Moves the edits of an earlier session aside: they are offered no more, and `bring_back` gets them.

        Raises:
            LuxelError: the folder cannot be moved.
        """
        try:
            self._set_aside()
        except OSError as error:
            raise LuxelError(
                f"{self.folder}: the edits cannot be moved aside ({error.strerror or error}).",
                "Check the permissions of the folder above it.",
            ) from error

    def discarded(self) -> int:
        """How many edits of this scene `bring_back` would get; 0 where there are none."""
        return next((count for folder in self._asides() if (count := self._count_in(folder))), 0)

    def bring_back(self) -> None:
        """Moves the edits that were moved aside last back, so that `resume` makes them again.

        Raises:
            LuxelError: there are none, or the folder cannot be moved.
        """
        aside = next((folder for folder in self._asides() if self._count_in(folder)), None)
        if aside is None:
            raise LuxelError(
                f"{self.folder}: no edits of this scene were discarded.", "Edit the scene as it was opened."
            )
        try:
            self._set_aside()  # what may be there
            OutputFolder(self.folder.parent, self.folder.name).remove_folder()
            aside.rename(self.folder)
        except OSError as error:
            raise LuxelError(
                f"{aside}: the edits cannot be moved back ({error.strerror or error}).",
                f"Move the folder to {self.folder}, then open the scene again.",
            ) from error
        self._output.refresh()

    def _count_in(self, folder: Path) -> int:
        content = self._read_list(folder)
        return 0 if content is None else int(content["position"])

    def _write_list(self, position: int) -> None:
        edits = [{"file": entry.file, "title": entry.title} for entry in self._entries]
        text = json.dumps({**self._identity, "position": position, "edits": edits}, indent=1)
        self._output.write(LIST, text.encode())

    def resumable(self) -> int:
        """How many edits an earlier session of this scene left in effect; 0 where there are none."""
        return self._count_in(self.folder)

    @property
    def changed_at(self) -> float:
        """When the list of edits was written last, seconds since 1970; 0 where there is none."""
        return _changed_at(self.folder)

    def resume(self, document: Document) -> int:
        """Makes the edits of an earlier session again, also those that were undone; they can be undone as before.

        Args:
            document: of the same scene, without edits.

        Returns:
            How many edits are in effect.

        Raises:
            LuxelError: there is nothing to resume, or a file is damaged; the document is then as it was.
        """
        content = self._read_list(self.folder)
        if content is None:
            raise LuxelError(
                f"{self.folder}: there are no edits of this scene.", "Edit the scene as it was opened."
            )
        entries = [_Entry(edit["file"], edit["title"]) for edit in content["edits"]]
        position = int(content["position"])

        def read(entry: _Entry) -> Edit:
            return _read_edit(self.folder / Path(entry.file).name, entry.title, document)

        for entry in entries:  # all of them can be read; they may be too many to keep in memory
            read(entry)
        for entry in entries:
            document.history.apply(document.state, read(entry))
        for _ in range(len(entries) - position):
            document.history.undo(document.state)
        document.version += 1
        self._entries, self._fresh = entries, False
        self._number = max((int(Path(entry.file).stem) for entry in entries), default=0)
        return position

    def _read_list(self, folder: Path) -> dict[str, Any] | None:
        """The list in a folder, if it is of this scene and complete."""
        try:
            content = json.loads((folder / LIST).read_text())
            same = all(content[name] == value for name, value in self._identity.items())
            fits = 0 <= content["position"] <= len(content["edits"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return content if same and fits and content["edits"] else None


def _changed_at(folder: Path) -> float:
    try:
        return (folder / LIST).stat().st_mtime
    except OSError:
        return 0.0


def _lock(path: Path) -> IO[str] | None:
    """An open file that this session holds a lock on as long as it is open; None if another one does."""
    try:
        file = os.fdopen(OutputFolder(path.parent).open_in_place(path.name, os.O_WRONLY), "w")
    except (OSError, LuxelError):
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def fingerprint(scene: Parameters) -> str:
    """A hash of the primitives and all their parameters."""
    digest = hashlib.blake2b(scene.primitive.encode(), digest_size=16)
    for name, tensor in scene.tensors().items():
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data.cast("B") if tensor.numel() else b"")
    return digest.hexdigest()


def _read_edit(path: Path, title: str, document: Document) -> Edit:
    """The edit of a file.

    Raises:
        LuxelError: the file is missing or damaged.
    """
    try:
        return unpack_edit(path.read_bytes(), title, document.state)
    except (OSError, ValueError) as error:
        raise LuxelError(
            f"{path}: this edit cannot be read ({error}).", "Start from the scene as it was saved."
        ) from error
