"""Part paths: any file that a command reads becomes a pipe, a device, a folder or a giant."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from .processes import trial_folder
from .small_runs import COMMANDS, copied, judge, prepare_runs, use

GIANT = 20 << 30  # bytes, sparse
WRITTEN = 64 << 20  # bytes that a command may write
READS = "reads.json"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


def _giant(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(GIANT)


REPLACEMENTS: dict[str, Callable[[Path], None]] = {
    "pipe": _pipe,
    "device": _device,
    "folder": _folder,
    "giant": _giant,
}


def prepare(work: Path) -> None:
    """Trains the runs, and traces which of their files each command opens."""
    prepare_runs(work)
    shared, reads = work / "shared", {}
    for kind, commands in COMMANDS.items():
        for command in commands:
            folder = trial_folder(work)
            run, trace = copied(shared, kind, folder), folder / "trace.txt"
            child = use(command, kind, run, folder, partial(_trace, trace))
            if judge(child) != ("used", True):
                raise RuntimeError(f"{command} of an undamaged run: {child.text()}")
            opened = {Path(line).name for line in trace.read_text().splitlines()}
            files = (path for path in (shared / kind).rglob("*") if path.is_file() and path.name in opened)
            reads[f"{kind} {command}"] = sorted(str(path.relative_to(shared / kind)) for path in files)
            shutil.rmtree(folder)
    (shared / READS).write_text(json.dumps(reads))


def _trace(file: Path) -> None:
    """Notes the names of all files that this process opens or examines, whatever folder they are in."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            os.write(out, os.fsencode(arguments[0]) + b"\n")

    sys.addaudithook(note)


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Replaces a file of a copy of a run, and uses the run."""
    reads = json.loads((work / "shared" / READS).read_text())
    kind, command = random.choice(sorted(reads)).split()
    name, how = random.choice(reads[f"{kind} {command}"]), random.choice(sorted(REPLACEMENTS))
    folder = trial_folder(work)
    try:
        run = copied(work / "shared", kind, folder)
        (run / name).unlink()
        REPLACEMENTS[how](run / name)
        before = _stored(folder)
        child = use(command, kind, run, folder)
        outcome, ok = judge(child)
        if _stored(folder) - before > WRITTEN:
            outcome, ok = "wrote too much", False
        detail = "" if ok else child.text()[-800:]
        return {
            "kind": kind,
            "command": command,
            "file": name,
            "how": how,
            "outcome": outcome,
            "ok": ok,
            "detail": detail,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stored(folder: Path) -> int:
    """Bytes on the disk of all files below a folder; holes do not count."""
    return sum(512 * path.lstat().st_blocks for path in folder.rglob("*"))
