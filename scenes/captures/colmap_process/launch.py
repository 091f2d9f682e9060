"""Runs a task of COLMAP in a process of its own, whose end is a message.

COLMAP ends the process that it runs in where a check of its code fails, and may crash on a damaged database. The
request is a line of JSON and a file of arrays, progress and the outcome are lines of JSON, the result is a file of
arrays. The process ends at once with the one that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from luxel.scenes.captures.caching.capture_cache import load_arrays
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.errors import CaptureError

MODULE = "luxel.scenes.captures.colmap_process.main"
REQUEST, RESULT = "request.npz", "result.npz"
SETTINGS = ("SEED", "FEATURES", "FEATURE_IMAGE_SIZE")  # of luxel.scenes.captures.colmap_process.features
LONGEST_LINE = 1 << 20  # bytes that are read of a line of the process
LAST = 1 << 16  # bytes of its messages that are remembered
SHOWN = 240  # characters of them that are shown
REMEDY = (
    "Try again. If it happens again, leave out images that other programs cannot open, or give poses "
    "(COLMAP, transforms.json)."
)
KILLED = "The memory may not suffice: close other programs, or use fewer or smaller images."


def run_task(
    task: str, folder: Path, on_progress: Callable[[str, float], None], **arguments: Any
) -> dict[str, np.ndarray]:
    """The arrays that a task of COLMAP returns.

    Args:
        task: a name of `luxel.scenes.captures.colmap_process.main.TASKS`.
        folder: that it works in; also for the files of request and result.
        on_progress: called with (stage, fraction done in [0, 1]).
        arguments: of the task: arrays, and values that JSON has.

    Raises:
        CaptureError: by the task; or the process has ended or failed.
    """
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    with open(folder / REQUEST, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    (folder / RESULT).unlink(missing_ok=True)
    request = {
        "task": task,
        "folder": str(folder.absolute()),
        "parent": os.getpid(),
        "settings": {name: getattr(features, name) for name in SETTINGS},
        "arguments": {name: value for name, value in arguments.items() if name not in arrays},
    }
    # -P: modules that lie in the present folder, which may be a capture, are not imported.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        _converse(process, request, on_progress)
        return load_arrays(folder / RESULT)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read any more
                    pipe.close()


def _converse(
    process: subprocess.Popen[bytes], request: dict[str, Any], on_progress: Callable[[str, float], None]
) -> None:
    """Sends the request and follows the work until it is done; raises CaptureError otherwise."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    messages = _LastBytes(process.stderr)
    stage = "starting"
    with contextlib.suppress(BrokenPipeError):  # it has ended, as is visible below
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    while line := process.stdout.readline(LONGEST_LINE):
        event = _event(line)
        if "progress" in event:
            stage = event["progress"]
            on_progress(stage, event["fraction"])
        elif "problem" in event:
            raise CaptureError(event["problem"], event["remedy"])
        elif "failure" in event:
            raise CaptureError(f"COLMAP failed while {stage} ({event['failure']}).", REMEDY)
        elif "done" in event:
            return
    raise _ended(process.wait(), stage, messages.text())


def _event(line: bytes) -> dict[str, Any]:
    """What a line of the process says; empty where it says nothing that is known."""
    kinds: dict[str, dict[str, Any]] = {
        "progress": {"progress": str, "fraction": (int, float)},
        "problem": {"problem": str, "remedy": str},
        "failure": {"failure": str},
        "done": {"done": bool},
    }
    try:
        event = json.loads(line)
        for name, fields in kinds.items():
            if name in event and all(isinstance(event[field], kind) for field, kind in fields.items()):
                return {field: event[field] for field in fields}
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return {}


def _ended(status: int, stage: str, messages: str) -> CaptureError:
    """The error of a process that has ended before it was done."""
    how = f"with status {status}"
    if status < 0:
        try:
            how = f"with {signal.Signals(-status).name}"
        except ValueError:
            how = f"with signal {-status}"
    said = f": {messages}" if messages else ""
    return CaptureError(
        f"COLMAP ended {how} while {stage}{said}.", KILLED if -status == signal.SIGKILL else REMEDY
    )


class _LastBytes:
    """The end of what a process writes into a pipe, which is read by a thread.

    Args:
        pipe: of the process.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._bytes = pipe, b""
        self._thread = threading.Thread(target=self._read, name="luxel-colmap-messages", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), LAST):
                self._bytes = (self._bytes + chunk)[-LAST:]

    def text(self) -> str:
        """The last lines as one, without frames of the stack: those that say why, where there are any."""
        self._thread.join(1.0)
        text = self._bytes.decode("utf-8", "replace")
        lines = [
            " ".join("".join(c if c.isprintable() else " " for c in line).split())
            for line in text.splitlines()
        ]
        lines = [line for line in lines if line and not line.startswith(("@", "***", "PC: @"))]
        reasons = [line for line in lines if "Check failed" in line or "rror" in line]
        return " ".join((reasons or lines)[-2:])[:SHOWN].rstrip(".")
