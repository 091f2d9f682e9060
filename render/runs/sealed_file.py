"""A JSON file with a checksum that holds one value of a run or of a scene, and which other programs may write too."""

from __future__ import annotations

import contextlib
import json
import os
from abc import ABC, abstractmethod
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from luxel.render.errors import LuxelError
from luxel.render.runs.folder.owner import OwnedError, own
from luxel.render.runs.folder.run_config import FILE as CONFIG
from luxel.render.runs.identity import identity_in
from luxel.render.runs.strict_json import JsonError, parse_object, read_object, sealed
from luxel.render.storage.folder import OutputFolder

Value = TypeVar("Value")


class SealedFile(ABC, Generic[Value]):
    """Reads and writes one value. Not safe for threads. A subclass says how the value becomes JSON.

    Args:
        folder: that holds the file.
        name: of the file.
        identity: of the run or of the scene; empty: it has none.
        in_run: whether the folder is that of a run, which this process must own to write there.

    Attributes:
        what: the value in messages, with its article, such as "the measurements"; in the plural.
        anew: in messages, what to do instead of restoring a damaged file, such as "measure anew".
        problem: why the value that is there could not be read; None: there is none, or it could be.
    """

    what: ClassVar[str]
    anew: ClassVar[str]

    def __init__(self, folder: Path, name: str, identity: str, *, in_run: bool) -> None:
        self._folder, self._name, self._identity, self._in_run = folder, name, identity, in_run
        self.problem: LuxelError | None = None
        self._content: bytes | None = None  # of the file, as last read or written
        self._stat: tuple[int, ...] | None = None

    @abstractmethod
    def empty(self) -> Value:
        """The value where there is no file."""
        ...

    @abstractmethod
    def body_of(self, value: Value) -> dict[str, Any]:
        """A value as JSON has it, without its checksum; with the identity."""
        ...

    @abstractmethod
    def parsed(self, raw: dict[str, Any]) -> Value:
        """The value of what `body_of` gave and `sealed` signed; checked, as anybody may have written it.

        Raises:
            JsonError: it is damaged, of a newer version, or of another run or scene.
        """
        ...

    @property
    def path(self) -> Path:
        """Of the file."""
        return self._folder / self._name

    def read(self) -> Value:
        """The value; the empty one where there is none, or there is a `problem`."""
        self.problem, self._stat, self._content = None, self._stat_now(), self._content_now()
        if self._content is None:
            return self.empty()
        try:
            return self.parsed(parse_object(self._content))
        except JsonError as error:
            self.problem = LuxelError(
                f"{self.path}: {self.what} cannot be used ({error}).",
                f"Restore the file from a copy, or {self.anew}: it then gets another name.",
            )
            return self.empty()

    def write(self, value: Value) -> None:
        """Writes a value instead of the one that was last read or written.

        A file that could not be read, or that luxel did not write, gets another name and stays.

        Raises:
            LuxelError: another program has changed the file, another process writes into the run folder, or the file
                cannot be written.
        """
        try:
            with own(self._folder) if self._in_run else nullcontext():
                if (there := self._content_now()) is not None and there != self._content:
                    raise LuxelError(
                        f"{self.path}: another program has changed it.",
                        f"Make the change again when the page shows {self.what} that are there now.",
                    )
                self._replace(value)
        except OwnedError as error:
            raise LuxelError(
                f"{self.what} are not saved yet: {error.problem}",
                "They are saved with the next change after that process has ended.",
            ) from error
        except OSError as error:
            raise LuxelError(
                f"{self.path}: cannot be written ({error.strerror or error}).",
                "Free some disk space, or check the permissions of the folder.",
            ) from error

    def _replace(self, value: Value) -> None:
        output = OutputFolder(self._folder)
        if os.path.lexists(self.path) and (self.problem is not None or not output.is_own(self._name)):
            output.set_aside(self._name)
        body = json.loads(json.dumps(self.body_of(value)))
        content = json.dumps(sealed(body), indent=1).encode()
        output.write(self._name, content)
        self.problem, self._content, self._stat = None, content, self._stat_now()

    @property
    def outdated(self) -> bool:
        """Whether another program has changed the file since it was last read or written."""
        now = self._stat_now()
        if now == self._stat:
            return False
        self._stat = now
        return self._content_now() != self._content

    def _content_now(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except OSError:
            return None

    def _stat_now(self) -> tuple[int, ...] | None:
        try:
            stat = self.path.stat()
            return stat.st_mtime_ns, stat.st_size, stat.st_ino
        except OSError:
            return None


def run_identity(folder: Path) -> str:
    """The identity of a run; empty: it has none, or its config.json cannot be read."""
    with contextlib.suppress(OSError, JsonError):
        identity = identity_in(read_object(folder / CONFIG))
        return "" if identity is None else identity.id
    return ""
