"""Part decoys: a command writes into a folder with some files of the names that it writes; none is changed or deleted
without --force, and with it only those that it writes anew."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from tests.decoy_cases import CASES
from tests.decoy_tree import NAMES, DecoyTree

from .processes import start, trial_folder
from .small_runs import judge, prepare_runs

# Benchmarks take long where they are not refused, and the quick tests have all that they write.
TRIED = [
    case for case in CASES if not case.option.startswith(("bench", "demo")) and "{moving}" not in case.words
]
INPUTS = {"run": "splats", "field": "image", "capture": "knot", "image": "image.png", "maps": "maps"}


def prepare(work: Path) -> None:
    """Trains the runs, and writes an image and label maps."""
    prepare_runs(work)
    shared = work / "shared"
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(shared / "image.png")
    (shared / "maps").mkdir(exist_ok=True)
    for file in sorted((shared / "knot").rglob("*.png"))[:4]:
        labels = np.zeros(Image.open(file).size[::-1], np.uint8)
        labels[:, labels.shape[1] // 2 :] = 1
        Image.fromarray(labels).save(shared / "maps" / file.name)


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Runs a random case on random decoys, with or without --force."""
    folder = trial_folder(work)
    try:
        return _attempt(work / "shared", folder, random)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attempt(shared: Path, folder: Path, random: Random) -> dict[str, Any]:
    case, share = random.choice(TRIED), random.choice((0.02, 0.1, 0.5))
    forced = case.forced and random.random() < 0.5
    names = [name for name in NAMES if random.random() < share]
    names += [f"images/{random.randrange(40):03d}-{random.randrange(20):04d}-render.jpg" for _ in range(4)]
    names += [f"checkpoints/step-{random.randrange(10):08d}.json", f"{random.randrange(4):05d}.png"]
    places = {name: shared / file for name, file in INPUTS.items()} | {"place": folder / "place"}
    for name in ("run", "field"):
        if f"{{{name}}}" in case.words:
            places[name] = Path(shutil.copytree(places[name], folder / name))
    tree = DecoyTree(folder, places[case.place], names=names)
    words = [word.format(**places) for word in case.words.split()] + ["--force"] * forced
    child = start(words, folder / "output.txt")
    outcome, ok = judge(child)
    allowed = case.writes if forced else ""
    changed = [name for name in tree.changed() if not re.fullmatch(allowed, name)]
    if lost := [*changed, *tree.gone()]:
        outcome, ok = "files lost", False
    return {
        "outcome": {"used": "written"}.get(outcome, outcome),
        "ok": ok,
        "command": " ".join(case.words.split()[:1]) + " --force" * forced,
        "detail": "" if ok else f"{case.words}: {lost[:5]} {child.text()[-300:]}",
    }
