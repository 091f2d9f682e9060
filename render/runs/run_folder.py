"""The folder of a run: config.json, metrics.jsonl, checkpoints/, renders/ and the trained scene."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoint import available, flush


class Config(Protocol):
    """The configuration of a run."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        ...


class RunFolder:
    """The folder of one run.

    Args:
        path: created if absent.
        say: receives messages about files that could not be written.

    Raises:
        LuxelError: it cannot be created or written to.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.checkpoints = Path(path), Path(path) / "checkpoints"
        self.say, self._reported = say, False
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.write_bytes(b"luxel")
            probe.unlink()
        except OSError as error:
            raise LuxelError(
                f"{self.path}: the run folder cannot be written ({error.strerror or error}).",
                "Choose another folder (--run), or change its permissions.",
            ) from error

    def require_new(self) -> None:
        """Raises LuxelError if the folder holds checkpoints of a run; else removes a metrics.jsonl left in it."""
        if available(self.checkpoints):
            raise LuxelError(
                f"{self.path}: this folder already holds a run.",
                f"Resume it (`luxel train --resume {self.path}`), or choose another folder.",
            )
        (self.path / "metrics.jsonl").unlink(missing_ok=True)

    def write_config(self, config: Config, about: dict[str, Any]) -> None:
        """Writes config.json: versions, the resolved configuration with its seed, and the entries of ``about``."""
        try:
            version = importlib.metadata.version("luxel")
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
        versions = {"luxel": version, "torch": torch.__version__, "numpy": np.__version__}
        body = {"versions": versions, "config": config.to_dict(), **about}
        part = self.path / ".config.json.part"
        try:
            with open(part, "wb") as file:
                file.write(json.dumps(body, indent=2, default=str).encode())
                flush(file)
            os.replace(part, self.path / "config.json")
        except OSError as error:
            raise LuxelError(
                f"{self.path / 'config.json'}: cannot be written ({error.strerror or error}).",
                "Free some disk space or choose another folder.",
            ) from error

    @staticmethod
    def read_body(path: Path) -> dict[str, Any]:
        """The contents of config.json of a run; its configuration is the dictionary at "config".

        Raises:
            LuxelError: there is no run, or its config.json cannot be read.
        """
        file = Path(path) / "config.json"
        try:
            body = json.loads(file.read_bytes())
            dict(body["config"])
        except FileNotFoundError as error:
            raise LuxelError(
                f"{file}: not found.",
                "Point --resume at the folder that `luxel train` printed when it started.",
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LuxelError(
                f"{file}: cannot be read as the configuration of a run ({type(error).__name__}: {error}).",
                "Restore that file, or start a new run.",
            ) from error
        return body

    def log(self, entry: dict[str, Any]) -> None:
        """Appends one line to metrics.jsonl; a failure is reported once, and training continues."""
        try:
            with open(self.path / "metrics.jsonl", "a") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            self._report_once(
                f"metrics.jsonl cannot be written ({error.strerror or error}); training continues without it."
            )

    def trim_log(self, step: int) -> None:
        """Drops the lines after ``step``, which a resumed run writes again, and an incomplete line."""
        file = self.path / "metrics.jsonl"
        if not file.is_file():
            return
        lines = []
        for line in file.read_text(errors="replace").splitlines():
            try:
                if int(json.loads(line)["step"]) <= step:
                    lines.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue
        part = self.path / ".metrics.jsonl.part"
        try:
            part.write_text("".join(lines))
            os.replace(part, file)
        except OSError as error:
            self.say(f"metrics.jsonl cannot be written ({error.strerror or error}).")

    def save_render(self, name: str, image: Tensor, render: Tensor) -> None:
        """Writes renders/NAME.png: the ground truth on the left, the render on the right; [H, W, 3] in [0, 1]
        each."""
        from PIL import Image

        both = torch.cat([image, render], 1).detach().clamp(0, 1).mul(255).add(0.5).to(torch.uint8)
        flat = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
        path = self.path / "renders" / f"{flat}.png"
        try:
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(both.cpu().numpy()).save(path)
        except OSError as error:
            self._report_once(f"{path} could not be written ({error.strerror or error}).")

    def save_file(self, name: str, write: Callable[[Path], object]) -> Path | None:
        """Writes a file with ``write``, under a temporary name first; a failure is reported and returns None."""
        path = self.path / name
        part = path.with_name(f".{path.stem}.part{path.suffix}")
        try:
            write(part)
            os.replace(part, path)
        except (OSError, LuxelError) as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            self.say(f"{path} could not be written ({error}).")
            return None
        return path

    def _report_once(self, message: str) -> None:
        if not self._reported:
            self._reported = True
            self.say(message)
