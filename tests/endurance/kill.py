"""Part kill: kill -9 at random moments of training, resuming and export; the scene is that of the unbroken run."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random
from typing import Any

from .processes import STARTED_AT, Child, digest, duration, newest_step, start, train_arguments, trial_folder


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Trains, kills once to three times, resumes to the end and compares."""
    shared, folder = work / "shared", trial_folder(work)
    try:
        return _attempt(shared, folder, random)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attempt(shared: Path, folder: Path, random: Random) -> dict[str, Any]:
    kind = random.choice(["gaussians", "gaussians", "convexes", "field"])
    run, kills, moments = folder / "run", 0, []
    about: dict[str, Any] = {"kind": kind, "ok": False}
    fresh, resume = train_arguments(kind, shared, run), ["train", "--resume", str(run), "--device", "cpu"]
    planned = random.choice((1, 1, 2))
    while True:
        resuming = newest_step(run) >= 0
        before = newest_step(run)
        (folder / STARTED_AT).unlink(missing_ok=True)
        child = start(resume if resuming else fresh, folder / "output.txt")
        if kills < planned:
            time.sleep(random.uniform(0.02, duration(shared, kind) * (0.9 if resuming else 1.05)))
            alive = child.poll() is None
            child.kill()
            kills += alive
            moments += ["resume" if resuming else "train"] * alive
            planned = planned if alive else kills
        else:
            child.wait()
        problem = _problem(child, folder, before if resuming else -1)
        if problem:
            return {**about, "outcome": problem, "kills": moments, "detail": child.text()[-400:]}
        if child.status == 0:
            break
    if digest(run) != digest(shared / kind):
        return {**about, "outcome": "the scene differs", "kills": moments}
    if kills == 0:
        return {**about, "outcome": _kill_export(run, folder, random), "kills": ["export"], "ok": True}
    return {**about, "outcome": f"bitwise equal after {kills} kill(s)", "kills": moments, "ok": True}


def _problem(child: Child, folder: Path, before: int) -> str:
    """What is wrong with a process that was killed, or that ended."""
    if child.crashed:
        return "traceback"
    if child.status not in (0, -9):
        return "resume failed" if before >= 0 else "training failed"
    at = folder / STARTED_AT
    if before >= 0 and at.exists() and at.read_text() and int(at.read_text()) != before:
        return f"resumed at step {at.read_text()}, the newest checkpoint was {before}"
    return ""


def _kill_export(run: Path, folder: Path, random: Random) -> str:
    """Kills an export; a second one must replace what is left, and be the same as an undisturbed one."""
    if not (run / "scene.ply").exists():  # a field of an image has no other format
        return "bitwise equal, ended before the kill"
    out, other = folder / "out.ply", folder / "other.ply"
    child = start(["export", str(run), "--out", str(out)], folder / "export.txt")
    time.sleep(random.uniform(0.01, 0.12))
    child.kill()
    for path, force in ((out, ["--force"]), (other, [])):
        child = start(["export", str(run), "--out", str(path), *force], folder / "export.txt")
        if child.wait():
            raise RuntimeError(f"export failed after a kill: {child.text()[-300:]}")
    if out.read_bytes() != other.read_bytes():
        raise RuntimeError("an export after a kill differs")
    return "export repeated after a kill"
