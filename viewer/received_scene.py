"""The scene of a run that trains in another process, received now and then until the run has saved one itself."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.viewer.attach import NoAnswerError, RunConnection, RunEnded

EVERY = 5.0  # seconds, at least, between two copies
SHARE = 0.05  # largest fraction of time that copies take


class ReceivedScene:
    """A copy of the scene in a temporary folder, which is deleted by `close`.

    Args:
        run: folder of the run.

    Attributes:
        run: see above.
        path: of the copy, which is there where ``step`` is not None.
        step: of the scene that was received last; None: none was.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._folder = tempfile.TemporaryDirectory(prefix="luxel-received-")
        self.path = Path(self._folder.name) / "scene.ply"
        self.step: int | None = None
        self._next, self._refused = 0.0, False

    @property
    def is_needed(self) -> bool:
        """Whether the run has saved no scene yet."""
        from luxel.render.runs.checkpoints.checkpoint import available  # loads torch

        return not (self.run / "scene.ply").exists() and not available(self.run / "checkpoints")

    def follow(self, connection: RunConnection) -> None:
        """Asks for a copy where one is needed and due.

        Raises:
            RunEnded, NoAnswerError: as `RunConnection.request`.
        """
        started = time.monotonic()
        if self._refused or started < self._next or not self.is_needed:
            return
        coming = self.path.with_name("coming.ply")
        try:
            step = connection.request("copy", path=str(coming))
            os.replace(coming, self.path)
        except (RunEnded, NoAnswerError):
            raise
        except (LuxelError, OSError):  # another version, a neural field, or a full disk: it goes on without
            self._refused = True
            return
        self.step = step if isinstance(step, int) else 0
        took = time.monotonic() - started
        self._next = started + max(EVERY, took / SHARE)

    def close(self) -> None:
        """Deletes the copy."""
        self._folder.cleanup()
