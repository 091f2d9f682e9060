"""Files of films and images: what they may replace, and the temporary name until they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.render.storage.drafts import Draft
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.single import writing_file, writing_unused

REMEDY = "Give another --out, or replace it with --force."


class OutputFile:
    """A file that is written under a temporary name, and replaces only what it may.

    Args:
        path: of the file.
        run: folder of a run; a file directly in it that luxel wrote and nobody changed is replaced. None: no run.
        force: replace any file of this name.
        numbered: where something has the name, write NAME-2, NAME-3, ... instead.

    Attributes:
        path: of the file; with ``numbered`` the one that it has got, after it was written.
    """

    def __init__(
        self, path: Path, *, run: Path | None = None, force: bool = False, numbered: bool = False
    ) -> None:
        self.path = path
        self._force, self._numbered = force, numbered
        inside = run is not None and os.path.abspath(path.parent) == os.path.abspath(run)
        self._folder = OutputFolder(path.parent, force=force) if inside else None

    def require(self) -> None:
        """Checks before long work that the file may be written.

        Raises:
            LuxelError: something that may not be replaced has its name.
        """
        if self._numbered:
            return
        if self._folder is not None:
            self._folder.require([self.path.name])
        elif not self._force and os.path.lexists(self.path):
            raise LuxelError(f"{self.path}: already exists.", REMEDY)

    @contextmanager
    def writing(self, suffix: str = "") -> Iterator[Draft]:
        """The temporary file; it gets its name when the context ends, and is removed where it ends with an exception.

        Raises:
            LuxelError: something that may not be replaced has the name by now.
            OSError: it cannot be written.
        """
        self.require()
        if self._folder is not None:
            with self._folder.writing(self.path.name, suffix) as draft:
                yield draft
        elif self._numbered:
            with writing_unused(self.path.parent, self.path.stem, self.path.suffix) as draft:
                yield draft
            self.path = draft.target or self.path
        else:
            try:
                with writing_file(self.path, replace=self._force, suffix=suffix) as draft:
                    yield draft
            except FileExistsError as error:
                raise LuxelError(f"{self.path}: another file has got this name meanwhile.", REMEDY) from error
