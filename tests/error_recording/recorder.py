"""Notes where the code makes an error of luxel, and in which test; `error_sites.py` reads the notes.

The standard library alone: child processes of tests import this before anything else (see sitecustomize.py).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

FOLDER = "LUXEL_ERROR_NOTES"  # the environment variable that names the folder of the notes


def install(errors: ModuleType) -> None:
    """Makes each error of luxel write a line to the folder of the notes.

    Args:
        errors: the module luxel.render.errors.
    """
    original = errors.LuxelError.__init__
    if hasattr(original, "noted"):
        return

    def noting(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is self:
            frame = frame.f_back  # of a derived class
        note(frame.f_code.co_filename, frame.f_lineno, self, command_of(frame))

    noting.noted = True  # type: ignore[attr-defined]
    errors.LuxelError.__init__ = noting


def command_of(frame: FrameType | None) -> str:
    """The command of `luxel` that runs; empty in other programs and in threads."""
    while frame:
        if frame.f_code.co_name == "run_guarded" and frame.f_code.co_filename.endswith("viewer/cli.py"):
            return frame.f_locals["name"]
        frame = frame.f_back
    return ""


_written: set[tuple[str, int, str, str]] = set()


def note(file: str, line: int, error: Any, command: str) -> None:
    """Writes a place, its message and the present test, once a process; at once, as the process may be killed."""
    folder = os.environ.get(FOLDER)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
    if not folder or not test or (file, line, error.problem, test) in _written:
        return
    _written.add((file, line, error.problem, test))
    with Path(folder, f"{os.getpid()}.jsonl").open("a") as notes:
        place = {"file": os.path.realpath(file), "line": line, "test": test, "command": command}
        notes.write(json.dumps({**place, "problem": error.problem, "remedy": error.remedy}) + "\n")
