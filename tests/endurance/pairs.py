"""Part pairs: two processes on one run folder; one owner, files of one run, and the other names the owner."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

from .processes import Child, digest, duration, start, train_arguments, trial_folder

WRITERS, READERS = ("train", "resume"), ("export", "eval", "view")


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Starts two processes at a random distance in time."""
    shared, folder = work / "shared", trial_folder(work)
    try:
        return _attempt(shared, folder, random)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attempt(shared: Path, folder: Path, random: Random) -> dict[str, Any]:
    kind, second = random.choice(["gaussians", "field"]), random.choice(WRITERS * 2 + READERS)
    run, long = folder / "run", duration(shared, kind)
    offset = random.choice((random.uniform(0, 0.1), random.uniform(0, long)))
    arguments = {
        "train": train_arguments(kind, shared, run),
        "resume": ["train", "--resume", str(run), "--device", "cpu"],
        "export": ["export", str(run), "--out", str(folder / "out.safetensors")],
        "eval": ["eval", str(run), "--device", "cpu"],
        "view": ["view", str(run), "--device", "cpu", "--port", str(20000 + random.randrange(20000))],
    }
    children = [start(arguments["train"], folder / "first.txt")]
    time.sleep(offset)
    ended = children[0].poll() is not None
    other = folder / "other"
    other.mkdir()
    children.append(start(arguments[second], other / "second.txt"))
    if second == "view":
        time.sleep(0.7)
        children[1].kill(signal.SIGINT)
    statuses = [child.wait(60) for child in children]
    problem = _problem(children, second, ended, run, digest(shared / kind))
    text = " / ".join(child.text()[-250:] for child in children) if problem else ""
    return {
        "outcome": problem or _outcome(children, second, ended),
        "ok": not problem,
        "pair": f"train+{second}",
        "kind": kind,
        "offset": round(offset, 3),
        "statuses": statuses,
        "detail": text,
    }


def _problem(children: list[Child], second: str, ended: bool, run: Path, expected: str) -> str:
    first, other = children
    if first.crashed or other.crashed:
        return "traceback"
    if second in WRITERS and not ended:
        if first.status == 0 == other.status:
            return (
                ""
                if second == "resume" and str(run) in other.text() and digest(run) == expected
                else "two owners"
            )
        if first.status and other.status:
            return "no owner"
    elif first.status:
        return "the training failed"
    if other.status not in (0, 1, 2, 130):
        return f"status {other.status}"
    loser = first if first.status else other
    if loser.status and str(run) not in loser.text():
        return "the folder is not named"
    return "" if digest(run) == expected else "the scene differs from the single run's"


def _outcome(children: list[Child], second: str, ended: bool) -> str:
    first, other = children
    if ended:
        return "one after the other"
    if second in READERS:
        return "read beside the owner" if other.status in (0, 130) else "nothing to read yet, refused"
    loser, owner = (first, other) if first.status else (other, first)
    if not loser.status:
        return "resumed after the end of the other"
    return (
        "one owner, named to the other" if str(owner.pid) in loser.text() else "one owner, the other refused"
    )
