"""Part disk: the disk is full at a random write; nothing beyond the last checkpoint is lost.

As root the run folder lies on a small tmpfs. Otherwise the n-th fsync or rename of the process fails with ENOSPC.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from .processes import STARTED_AT, digest, newest_step, start, train_arguments, trial_folder

SPACE = re.compile(r"disk|space|No space left", re.IGNORECASE)


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Trains until the disk is full and beyond, gives space back, resumes and compares."""
    folder = trial_folder(work)
    disk = folder / "disk"
    disk.mkdir()
    kilobytes = random.choice((random.randint(4, 200), random.randint(200, 1000)))
    mounted = _mount(disk, f"size={kilobytes}k")
    try:
        prepare = None if mounted else _failing(random.randint(1, 30))
        result = _attempt(work / "shared", folder, random, mounted, prepare)
        return {**result, "kilobytes": kilobytes if mounted else None}
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _mount(disk: Path, options: str) -> bool:
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    return subprocess.run(command, capture_output=True).returncode == 0


def _failing(number: int) -> Callable[[], None]:
    """Makes the calls of fsync and rename fail from one of them on."""

    def install() -> None:
        left = [number]

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return function(*arguments, **options)

            return call

        os.fsync, os.replace, os.rename = wrap(os.fsync), wrap(os.replace), wrap(os.rename)

    return install


def _attempt(
    shared: Path, folder: Path, random: Random, mounted: bool, prepare: Callable[[], None] | None
) -> dict[str, Any]:
    kind = random.choice(["gaussians", "gaussians", "convexes", "field"])
    run, at = folder / "disk" / "run", folder / STARTED_AT
    arguments = train_arguments(kind, shared, run)
    child = start(arguments, folder / "full.txt", prepare)
    status, text = child.wait(), child.text()
    about: dict[str, Any] = {"kind": kind, "status": status, "ok": False}
    if child.crashed:
        return {**about, "outcome": "traceback", "detail": text[-500:]}
    same = digest(run) == digest(shared / kind)
    if status == 0 and not SPACE.search(text):
        return {**about, "outcome": "enough space" if same else "the scene differs in silence", "ok": same}
    if not SPACE.search(text):
        return {**about, "outcome": "disk space is not named", "detail": text[-500:]}
    if status == 0 and not same:
        return {**about, "outcome": "status 0 without the scene", "detail": text[-500:]}
    if mounted:
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder / "disk")], check=True)
    before = newest_step(run)
    about["scene"] = "equal" if same else "missing" if not digest(run) else "other"
    if before < 0:  # as the message about a scene without checkpoints says
        for name in ("scene.ply", "field.safetensors"):
            if (run / name).exists():
                shutil.move(run / name, folder / name)
    again = ["train", "--resume", str(run), "--device", "cpu"] if before >= 0 else arguments
    child = start(again, folder / "again.txt")
    if child.wait() or child.crashed:
        return {**about, "outcome": "no continuation", "step": before, "detail": child.text()[-500:]}
    if before >= 0 and at.exists() and int(at.read_text()) != before:
        return {
            **about,
            "outcome": "steps before the newest checkpoint repeated",
            "detail": child.text()[-500:],
        }
    if digest(run) != digest(shared / kind):
        return {**about, "outcome": "the scene differs", "detail": child.text()[-500:]}
    how = "resumed" if before >= 0 else "trained again"
    return {**about, "outcome": f"full disk named, {how}, bitwise equal", "ok": True}
