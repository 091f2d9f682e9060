"""The folder of a run: config.json, metrics.jsonl, checkpoints/, renders/ and the trained scene."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.native import cpu_instructions
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, available, delete_incomplete, save
from luxel.render.runs.folder.earlier_versions import RESULTS, adopt_earlier_version, is_sealed_config
from luxel.render.runs.folder.metrics_log import MetricsLog
from luxel.render.runs.folder.owner import is_gone, own
from luxel.render.runs.folder.provenance import ENTRY as PROOF
from luxel.render.runs.folder.provenance import proof_of_origin
from luxel.render.runs.folder.results import write_result
from luxel.render.runs.folder.run_config import FILE, has_config, read_config_file
from luxel.render.runs.identity import CPU, FORMAT, KEY, Identity, identity_in
from luxel.render.runs.memory import is_out_of_memory
from luxel.render.runs.strict_json import DIGEST, finite, sealed
from luxel.render.storage.batch import Batch
from luxel.render.storage.descriptors import ForeignFileError, make_folders
from luxel.render.storage.folder import OutputFolder

CHECKPOINTS = "checkpoints"
RESERVED = ("format", KEY, PROOF, DIGEST)  # entries of config.json that `RunFolder.write_config` makes


class Config(Protocol):
    """The configuration of a run."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        ...


class RunFolder:
    """The folder of one run. No other process may write into it while this object exists
    (`luxel.render.runs.folder.owner`).

    It replaces and deletes only what luxel wrote there (`luxel.render.storage`). Results of the run that were changed
    since are refused at once, before a training that could not save its own.

    Args:
        path: created if absent.
        say: receives messages about files that could not be written.

    Attributes:
        output: the folder as what is written into it goes through.
        body: content of config.json as `write_config` wrote it; None before.
        lost: what was lost as the folder was deleted during the run; empty: nothing.

    Raises:
        ForeignFileError: something that luxel did not write has the name of a result, or is a link.
        LuxelError: it cannot be created or written to, or another process is training there.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.checkpoints = Path(path), Path(path) / CHECKPOINTS
        self.output = OutputFolder(self.path, force=False, make=False)
        self._metrics = MetricsLog(self.output)
        self.say, self._reported = say, False
        self.body: dict[str, Any] | None = None
        self._identity: Identity | None = None
        self.lost = ""
        self._renewing = threading.Lock()  # results are written by several threads
        self._own()
        adopt_earlier_version(self.output)
        self.output.require(RESULTS)
        delete_incomplete(self.output, CHECKPOINTS)

    def _own(self) -> None:
        try:
            make_folders(self.path)
            self.output.make_folder(CHECKPOINTS)
        except OSError as error:
            raise LuxelError(
                f"{self.path}: the run folder cannot be written ({error.strerror or error}).",
                "Choose another folder (--run), or change its permissions.",
            ) from error
        self._release = weakref.finalize(self, own(self.path).release)

    def renew(self) -> None:
        """Makes the folder again if it was deleted or moved since the run began; called before something is saved.

        Raises:
            LuxelError: another process has made a run of its own there, or the folder cannot be made.
        """
        with self._renewing:
            if is_gone(self.path):
                self._made_again()

    def _made_again(self) -> None:
        there = self.path.exists()
        self.output.refresh()
        if there:
            self._require_same_run()
        self._own()
        if there:
            return
        self.lost = (
            f"{self.path}: this folder was deleted or moved while the run trained. What is saved from now on is in a "
            "new folder; earlier checkpoints, images and the log are not in it."
        )
        self.say(self.lost)
        if self.body is not None:
            self._write_body(self.body)

    def _require_same_run(self) -> None:
        """Raises LuxelError if another run has replaced this one; the folder is then not touched."""
        if self.body is None or not has_config(self.path):
            return
        other = identity_in(self.read_body(self.path, lambda message: None))
        if other is None or self._identity is None or other.id != self._identity.id:
            raise LuxelError(
                f"{self.path}: this folder holds another run now.",
                "Move it away before this run ends, so that it can be saved.",
            )

    def require_new(self) -> None:
        """Raises LuxelError if the folder holds checkpoints of a run, or a config.json that luxel did not write; else
        discards a metrics.jsonl left in it."""
        if available(self.checkpoints):
            raise LuxelError(
                f"{self.path}: this folder already holds a run.",
                f"Resume it (`luxel train --resume {self.path}`), or choose another folder.",
            )
        if not self.output.is_own(FILE) and is_sealed_config(self.path):  # of a run that could not start
            self.output.adopt([FILE])
        self.output.require([FILE])
        self._metrics.discard()

    def write_config(self, config: Config, about: dict[str, Any], capture: str = "") -> None:
        """Writes config.json: versions, the resolved configuration with its seed, and the entries of ``about``.

        A new run gets an `Identity`; a run that is resumed keeps its own.

        Args:
            capture: digest of what the run is trained on, for its identity.
        """
        try:
            version = importlib.metadata.version("luxel")
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
        versions = {"luxel": version, "torch": torch.__version__, "numpy": np.__version__}
        if str(about.get("device", "cpu")).startswith("cpu") and (instructions := cpu_instructions()):
            versions[CPU] = instructions
        about = {name: value for name, value in about.items() if name not in RESERVED}
        plain = finite(json.loads(json.dumps({"config": config.to_dict(), **about}, default=str)))
        self._identity = self._identity or self._identity_of_resumed(plain["config"], capture)
        proof = proof_of_origin(self.path, self._identity.id, plain)
        head = {"format": FORMAT, KEY: msgspec.to_builtins(self._identity), PROOF: proof}
        body = sealed({**head, "versions": versions, **plain})
        self._write_body(body)
        self.body = body

    def _write_body(self, body: dict[str, Any]) -> None:
        path = self.path / FILE
        try:
            if os.path.lexists(path) and not self.output.is_own(FILE):  # its copy in a checkpoint is used
                self.say(
                    f"{path}: was changed since luxel wrote it; it is {self.output.set_aside(FILE)} now."
                )
            self.output.write(FILE, json.dumps(body, indent=2).encode())
        except OSError as error:
            raise LuxelError(
                f"{path}: cannot be written ({error.strerror or error}).",
                "Free some disk space or choose another folder.",
            ) from error

    def _identity_of_resumed(self, config: dict[str, Any], capture: str) -> Identity:
        """The identity in the folder, or a new one, also for a run of a version that wrote none."""
        checkpoints = available(self.checkpoints)
        if checkpoints:
            with contextlib.suppress(LuxelError):  # checkpoints alone, without a config.json
                known = identity_in(self.read_body(self.path, lambda message: None))
                if known is not None:
                    return known
        return Identity.new(config, capture, checkpoints[0][0] if checkpoints else -1)

    @staticmethod
    def read_body(path: Path, say: Callable[[str], None] | None = None) -> dict[str, Any]:
        """The contents of config.json of a run; its configuration is the dictionary at "config".

        A config.json that is missing or damaged is replaced by the copy in the newest complete checkpoint.

        Args:
            say: receives a message where a copy is used, or where the run is of a version without checksums; None: it
                is printed to stderr, once in a process.

        Raises:
            LuxelError: there is no run, or its config.json cannot be read.
        """
        return read_config_file(Path(path), say)

    def log(self, entry: dict[str, Any]) -> None:
        """Appends one line to metrics.jsonl; a failure is reported once, and training continues."""
        try:
            self._metrics.append(entry)
        except (OSError, ForeignFileError) as error:
            reason = getattr(error, "strerror", None) or error
            self._report_once(f"metrics.jsonl cannot be written ({reason}); training continues without it.")

    def trim_log(self, step: int) -> None:
        """Drops the lines after ``step``, which a resumed run writes again; see `MetricsLog.trim`."""
        self._metrics.trim(step, self.say)

    def save_checkpoint(self, checkpoint: Checkpoint, keep: int) -> Path:
        """Writes a checkpoint, see `luxel.render.runs.checkpoints.checkpoint.save`, and notes how far the log goes.

        Raises:
            CheckpointError: it could not be written; older checkpoints are unchanged.
        """
        path = save(self.output, checkpoint, keep, CHECKPOINTS)
        with contextlib.suppress(OSError, ForeignFileError):
            self._metrics.note()
        return path

    @contextlib.contextmanager
    def saving_renders(self) -> Iterator[Callable[[str, np.ndarray], None]]:
        """A context in which renders are written; all get their names at its end.

        What it yields is called with a name and pixels, uint8 [H, W, 3], by any thread, and writes renders/NAME.png. A
        failure is reported once.
        """
        from PIL import Image

        batch = Batch(self.output)

        def save_render(name: str, pixels: np.ndarray) -> None:
            flat = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
            path = f"renders/{flat}.png"
            try:
                with batch.writing(path) as draft:  # fast compression, as the run waits for it
                    Image.fromarray(pixels).save(draft.file, "PNG", compress_level=1)
            except (OSError, ForeignFileError) as error:
                reason = error.problem if isinstance(error, ForeignFileError) else error.strerror or error
                self._report_once(f"{self.path / path} could not be written ({reason}).")

        try:
            yield save_render
            batch.commit()
        except (OSError, ForeignFileError) as error:
            self._report_once(f"{self.path / 'renders'} could not be written ({error}).")
        finally:
            batch.discard()

    def save_file(self, name: str, write: Callable[[Path], object], step: int) -> Path | None:
        """Writes a result of the run with ``write``, under a temporary name first, and a record with its checksum
        next to it (`luxel.render.runs.folder.results`); a failure is reported and returns None.

        Args:
            step: completed steps that it is the result of.
        """
        path = self.path / name
        try:
            self.renew()
            return write_result(self.output, name, write, step, self.body)
        except Exception as error:
            if not isinstance(error, OSError | LuxelError) and not is_out_of_memory(error):
                raise
            self.say(
                f"{path} could not be written ({'memory ran out' if is_out_of_memory(error) else error})."
            )
            return None

    def _report_once(self, message: str) -> None:
        if not self._reported:
            self._reported = True
            self.say(message)
