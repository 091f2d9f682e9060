"""metrics.jsonl of a run: one line of JSON a record, appended; cut back to the step that a run is resumed at.

The manifest of the run says what its first bytes were at the last checkpoint: luxel appends to it, and others may not
have changed it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from luxel.render.runs.strict_json import JsonError, finite, parse_object
from luxel.render.storage.descriptors import ForeignFileError, open_regular
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import Content

NAME = "metrics.jsonl"
LONGEST = 1 << 20  # bytes of a line
LARGEST = 1 << 30  # bytes of a log that is read


class MetricsLog:
    """The log of a run.

    Args:
        output: the folder of the run.
    """

    def __init__(self, output: OutputFolder) -> None:
        self._output = output
        self._lock = threading.Lock()
        self._digest, self._size = hashlib.sha256(), 0

    @property
    def path(self) -> Path:
        """Of the file."""
        return self._output.path / NAME

    def append(self, entry: dict[str, Any]) -> None:
        """Adds a line.

        Raises:
            ForeignFileError: a link, or something else that is no file, has its name.
            OSError: it cannot be written.
        """
        line = json.dumps(finite(entry)).encode() + b"\n"
        with self._lock:
            file = self._output.open_in_place(NAME, os.O_WRONLY | os.O_APPEND, 0o666)
            try:
                os.write(file, line)
            finally:
                os.close(file)
            self._digest.update(line)
            self._size += len(line)

    def note(self) -> None:
        """Notes in the manifest what the log holds now.

        Raises:
            OSError: the manifest cannot be written.
        """
        with self._lock:
            if self._size:
                self._output.note({NAME: Content(self._size, self._digest.hexdigest())})

    def discard(self) -> None:
        """Deletes a log that is there as a new run begins; one that luxel did not write gets another name."""
        if os.path.lexists(self.path):
            if self.is_own():
                self._output.note({NAME: self._content()})
                self._output.delete([NAME])
            else:
                self._output.set_aside(NAME)

    def trim(self, step: int, say: Callable[[str], None]) -> None:
        """Drops the lines after ``step``. A log with damaged lines, or changed by others, stays under another name, and
        the lines that can be read are copied.

        A file that cannot be read or written is reported and left as it is.

        Args:
            step: that the run is resumed at.
            say: receives messages.
        """
        try:
            if not os.path.lexists(self.path):
                return
            if self.is_own():
                self._output.note({NAME: self._content()})  # with lines after the last checkpoint
                self._copy_lines(NAME, step)
                return
            aside = self._output.set_aside(NAME)
            problem = "it was changed or damaged since luxel wrote it"
            if self._is_file(aside):
                damaged = self._copy_lines(aside, step)
                problem = f"{damaged:,} damaged lines" if damaged else problem
            say(f"{self.path}: {problem}; the log as it was is {aside} now. Training continues.")
        except (OSError, ForeignFileError) as error:
            reason = getattr(error, "strerror", None) or error
            say(f"{self.path}: cannot be read or written ({reason}). Training continues.")

    def _is_file(self, name: str) -> bool:
        """Whether a log can be copied: a link, a pipe or one of implausible size is not."""
        status = os.lstat(self._output.path / name)
        return stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST

    def _copy_lines(self, source: str, step: int) -> int:
        """Writes the log anew with the lines of a file up to a step; returns the number of damaged lines."""
        damaged, digest, size = 0, hashlib.sha256(), 0
        with (
            open_regular(self._output.path / source, follow=False) as file,
            self._output.writing(NAME) as draft,
        ):
            while line := file.readline(LONGEST):
                line_step = _step_of(line)
                damaged += line_step is None
                if line_step is not None and line_step <= step:
                    line = line if line.endswith(b"\n") else line + b"\n"
                    draft.file.write(line)
                    digest.update(line)
                    size += len(line)
            draft.content = Content(size, digest.hexdigest())
        with self._lock:
            self._digest, self._size = digest, size
        return damaged

    def is_own(self) -> bool:
        """Whether its first bytes are what the manifest says, and lines of a log follow; the last one may be torn."""
        try:
            if not self._is_file(NAME):
                return False
            with open_regular(self.path, follow=False) as file:
                return any(_begins_with(file, known) for known in self._output.contents(NAME) or [NOTHING])
        except OSError:
            return False

    def _content(self) -> Content:
        digest, size = hashlib.sha256(), 0
        with open_regular(self.path, follow=False) as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
        return Content(size, digest.hexdigest())


NOTHING = Content(0, hashlib.sha256().hexdigest())


def _begins_with(file: Any, known: Content) -> bool:
    digest, left = hashlib.sha256(), known.size
    file.seek(0)
    while left and (chunk := file.read(min(left, 1 << 20))):
        digest.update(chunk)
        left -= len(chunk)
    if left or digest.hexdigest() != known.sha256:
        return False
    last = b""
    while line := file.readline(LONGEST):
        if last and _step_of(last) is None:
            return False
        last = line
    return not last.endswith(b"\n") or _step_of(last) is not None  # the last line may be torn


def _step_of(line: bytes) -> int | None:
    """The step of a line; None: it is damaged."""
    try:
        step = parse_object(line).get("step")
    except JsonError:
        return None
    return step if type(step) is int and step >= 0 else None
