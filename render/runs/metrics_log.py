"""Cuts metrics.jsonl back to the step that a run is resumed at."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from luxel.render.runs.strict_json import JsonError, parse_object

LONGEST = 1 << 20  # bytes of a line
DAMAGED = "metrics.damaged.jsonl"  # beside it: lines that were set aside


def trim(path: Path, step: int, say: Callable[[str], None]) -> None:
    """Drops the lines after ``step``; damaged ones are counted and appended to metrics.damaged.jsonl.

    A file that cannot be read or written is reported and left as it is.

    Args:
        path: of metrics.jsonl; may be absent.
        say: receives messages.
    """
    part, aside = path.with_name(f".{path.name}.part"), path.with_name(DAMAGED)
    try:
        if not path.exists():
            return
        count = 0
        with open(path, "rb") as file, open(part, "wb") as kept:
            while line := file.readline(LONGEST):
                line_step = _step_of(line)
                if line_step is None:
                    count += 1
                    with open(aside, "ab") as damaged:
                        damaged.write(line if len(line) == LONGEST else line.rstrip(b"\n") + b"\n")
                elif line_step <= step:
                    kept.write(line if line.endswith(b"\n") else line + b"\n")
        os.replace(part, path)
    except OSError as error:
        say(f"{path}: cannot be read or written ({error.strerror or error}); training continues.")
        return
    if count:
        lines = "1 line is" if count == 1 else f"{count:,} lines are"
        say(f"{path}: {lines} damaged; moved to {aside.name}. Training continues.")


def _step_of(line: bytes) -> int | None:
    """The step of a line; None: it is damaged."""
    try:
        step = parse_object(line).get("step")
    except JsonError:
        return None
    return step if type(step) is int and step >= 0 else None
