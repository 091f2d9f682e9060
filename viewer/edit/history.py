"""Undo and redo without a limit: the edits next to the present in memory, those further away in temporary files."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from luxel.render.errors import LuxelError
from luxel.render.storage.descriptors import make_folders
from luxel.viewer.edit.changes import Edit, State
from luxel.viewer.edit.edit_files import pack_edit, unpack_edit

log = logging.getLogger("luxel.viewer")

MAX_BYTES = 512 << 20  # of edits in memory


class History:
    """The edits that were made and taken back, without a limit to their number.

    Where they take more memory than allowed, a thread writes those furthest from the present to files without a name,
    which the system removes when the program ends, however that happens. What cannot be written stays in memory.

    Args:
        folder: for the files; None: the system's folder for temporary files.
        max_bytes: of edits in memory; the next one to undo and to redo are retained there in any case.
    """

    def __init__(self, folder: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self._most = max_bytes
        self._done, self._undone = _Stack(folder), _Stack(folder)  # reverses of the edits; edits to redo
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="luxel-undo")
        self._spilling: Future[None] | None = None
        self._failed = False

    @property
    def undo_titles(self) -> Sequence[str]:
        """Titles of the edits in effect, oldest first."""
        return [entry.title for entry in self._done.entries]

    @property
    def redo_titles(self) -> Sequence[str]:
        """Titles of the edits that were taken back, the next one to redo first."""
        return [entry.title for entry in reversed(self._undone.entries)]

    @property
    def nbytes(self) -> int:
        """Bytes of the edits in memory."""
        return self._done.nbytes + self._undone.nbytes

    def apply(self, state: State, edit: Edit) -> None:
        """Makes an edit; those that were taken back can no longer be redone."""
        reverse = edit.exchange(state)
        with self._lock:
            self._done.push(reverse)
            self._undone.clear()
        self._spill()

    def undo(self, state: State) -> bool:
        """Takes the last edit back; false if there is none.

        Raises:
            LuxelError: the edit cannot be read back from its file; nothing changes.
        """
        return self._move(state, self._done, self._undone)

    def redo(self, state: State) -> bool:
        """Makes the edit again that was taken back last; false if there is none.

        Raises:
            LuxelError: the edit cannot be read back from its file; nothing changes.
        """
        return self._move(state, self._undone, self._done)

    def _move(self, state: State, source: _Stack, target: _Stack) -> bool:
        with self._lock:
            if not source.entries:
                return False
            target.push(source.top(state).exchange(state))  # first, so that a failure loses nothing
            source.pop()
        self._spill()
        return True

    def flush(self) -> None:
        """Returns when no more edits than allowed are in memory, or the others could not be written."""
        for _ in range(2):  # the thread may have been about to end when the last edit was made
            self._spill()
            if self._spilling is not None:
                self._spilling.result()

    def _spill(self) -> None:
        """Starts the thread if there is something to write."""
        if (
            self.nbytes > self._most
            and not self._failed
            and (self._spilling is None or self._spilling.done())
        ):
            self._spilling = self._pool.submit(self._write)

    def _write(self) -> None:
        try:
            while self._write_one():
                pass
        except OSError:
            self._failed = True
            log.exception("Older edits stay in memory, as they cannot be written to a temporary file.")

    def _write_one(self) -> bool:
        """Writes the edit furthest from the present; false if that is not needed or there is none."""
        with self._lock:
            stack = max(self._done, self._undone, key=lambda stack: stack.nbytes)
            entry = stack.lowest()
            if self.nbytes <= self._most or entry is None or entry.edit is None:
                return False
            edit, offset = entry.edit, stack.end
        content = pack_edit(edit)
        stack.write(content, offset)
        with self._lock:
            stack.written(entry, offset, len(content))
        return True


@dataclass(eq=False)
class _Entry:
    """An edit in memory or (None) its position in the file: offset and length."""

    title: str
    edit: Edit | None
    span: tuple[int, int] = (0, 0)
    dropped: bool = False


class _Stack:
    """Edits of which the lowest are in a file, in the same order; the file ends where the last of them does."""

    def __init__(self, folder: Path | None) -> None:
        self.entries: list[_Entry] = []
        self.nbytes = 0  # in memory
        self.end = 0  # of the file
        self._in_file = 0  # entries
        self._folder = folder
        self._file: IO[bytes] | None = None

    def push(self, edit: Edit) -> None:
        """Puts an edit on top."""
        self.entries.append(_Entry(edit.title, edit))
        self.nbytes += edit.nbytes

    def top(self, state: State) -> Edit:
        """The edit on top.

        Raises:
            LuxelError: it cannot be read.
        """
        entry = self.entries[-1]
        if entry.edit is not None:
            return entry.edit
        assert self._file is not None
        try:
            return unpack_edit(_read(self._file.fileno(), *entry.span), entry.title, state)
        except (OSError, ValueError) as error:
            raise LuxelError(
                f"the edit {entry.title!r} cannot be read back: {error}.", "Save the scene as it is now."
            ) from error

    def pop(self) -> None:
        """Removes the top."""
        entry = self.entries.pop()
        entry.dropped = True
        if entry.edit is not None:
            self.nbytes -= entry.edit.nbytes
        else:
            self._in_file -= 1
            self._truncate(entry.span[0])

    def clear(self) -> None:
        """Removes all."""
        for entry in self.entries:
            entry.dropped = True
        self.entries, self.nbytes, self._in_file = [], 0, 0
        self._truncate(0)

    def lowest(self) -> _Entry | None:
        """The lowest edit in memory, but for the one on top."""
        return self.entries[self._in_file] if self._in_file < len(self.entries) - 1 else None

    def write(self, content: bytes, offset: int) -> None:
        """Writes after the end of the file.

        Raises:
            OSError: there is no place.
        """
        if self._file is None:
            if self._folder is not None:
                make_folders(self._folder)
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        left = memoryview(content)
        while left:
            written = os.pwrite(self._file.fileno(), left, offset)
            left, offset = left[written:], offset + written

    def written(self, entry: _Entry, offset: int, length: int) -> None:
        """Notes that an edit is in the file, unless it was removed meanwhile."""
        if entry.dropped or entry.edit is None:
            self._truncate(self.end)
            return
        self.nbytes -= entry.edit.nbytes
        entry.edit, entry.span = None, (offset, length)
        self._in_file += 1
        self.end = offset + length

    def _truncate(self, end: int) -> None:
        self.end = end
        if self._file is not None:
            os.ftruncate(self._file.fileno(), end)


def _read(file: int, offset: int, length: int) -> bytes:
    """Bytes of a file.

    Raises:
        ValueError: it is shorter.
    """
    parts = []
    while length > 0:
        part = os.pread(file, length, offset)
        if not part:
            raise ValueError(f"the file ends at byte {offset}, {length} bytes too early")
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
