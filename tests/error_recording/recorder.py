"""Notes where the code makes an error of luxel, and in which test; `error_sites.py` reads the notes.

The standard library alone: child processes of tests import this before anything else (see sitecustomize.py).
"""

from __future__ import annotations

import json
import os
import sys
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
        note(frame, self.problem, self.remedy, command_of(frame))

    noting.noted = True  # type: ignore[attr-defined]
    errors.LuxelError.__init__ = noting


def command_of(frame: FrameType | None) -> str:
    """The command of `luxel` that runs; empty in other programs and in threads."""
    while frame:
        if frame.f_code.co_name == "run_guarded" and frame.f_code.co_filename.endswith("viewer/cli.py"):
            return frame.f_locals["name"]
        frame = frame.f_back
    return ""


_open = os.open
_written: set[tuple[str, int, str, str]] = set()


def note(frame: FrameType, problem: str, remedy: str, command: str) -> None:
    """Writes a place, its message and the present test, once a process; at once, as the process may be killed."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    folder = os.environ.get(FOLDER)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
    if not folder or not test or (file, line, problem, test) in _written:
        return
    _written.add((file, line, problem, test))
    place = {"file": os.path.realpath(file), "line": line, "test": test, "command": command}
    text = json.dumps({**place, "problem": problem, "remedy": remedy}) + "\n"
    # Tests replace Path.open and the like by functions that fail.
    notes = _open(f"{folder}/{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(notes, text.encode())
    os.close(notes)
