"""Part damage: any file of a run folder is damaged; a command gives the same result, says what it took, or refuses."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

from tests import run_damage

from .processes import RUNS, Child, digest, prepare_shared, start, trial_folder

JSON = (".json", ".jsonl")


def prepare(work: Path) -> None:
    """Trains the runs, and exports them undamaged."""
    prepare_shared(work)
    for kind in ("gaussians", "convexes"):
        out = work / "shared" / f"{kind}.ply"
        start(
            ["export", str(work / "shared" / kind), "--out", str(out)], work / "shared" / "export.txt"
        ).wait()


def trial(work: Path, random: Random) -> dict[str, Any]:
    """Damages a copy of a run and uses it."""
    folder = trial_folder(work)
    try:
        return _attempt(work / "shared", folder, random)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attempt(shared: Path, folder: Path, random: Random) -> dict[str, Any]:
    kind = random.choice(list(RUNS))
    run = folder / "run"
    shutil.copytree(shared / kind, run)
    damage, names = _damage(run, shared, kind, random)
    command = random.choice(["resume", "resume", "eval"] if kind == "field" else ["resume", "export", "eval"])
    out = folder / "out.ply"
    arguments = {
        "resume": ["train", "--resume", str(run), "--device", "cpu"],
        "export": ["export", str(run), "--out", str(out)],
        "eval": ["eval", str(run), "--device", "cpu"],
    }
    child = start(arguments[command], folder / "output.txt")
    child.wait()
    about = {"kind": kind, "command": command, "damage": damage, "files": names, "status": child.status}
    same = True
    if child.status == 0 and command == "resume":
        same = digest(run) == digest(shared / kind)
    if child.status == 0 and command == "export":
        same = out.read_bytes() == (shared / f"{kind}.ply").read_bytes()
    outcome, ok = _judge(child, run, same, [Path(name).name for name in names])
    return {**about, "outcome": outcome, "ok": ok, "detail": "" if ok else child.text()[-500:]}


def _judge(child: Child, run: Path, same: bool, names: list[str]) -> tuple[str, bool]:
    text = "".join(child.text().split())  # lines may be wrapped
    if child.crashed:
        return "traceback", False
    said = any(name in text for name in names) or "stepslost" in text
    if child.status == 0:
        if same:
            return ("same result, damage said" if said else "same result"), True
        return ("another state, said", True) if said else ("silent substitution", False)
    if child.status != 2:
        return f"status {child.status}", False
    return ("refused, file named", True) if str(run) in text else ("refused without the file", False)


def _damage(run: Path, shared: Path, kind: str, random: Random) -> tuple[str, list[str]]:
    files = run_damage.files_of(run)
    name = random.choice([f for f in files if f.suffix in (*JSON, ".safetensors", ".ply")] * 4 + files)
    path, chosen = run / name, random.random()
    if chosen < 0.15:
        other = random.choice([f for f in files if f != name])
        run_damage.swap(path, run / other)
        return "swap", [str(name), str(other)]
    if chosen < 0.3:
        foreign = shared / random.choice([k for k in RUNS if k != kind])
        shutil.copy(foreign / random.choice(run_damage.files_of(foreign)), path)
        return "foreign", [str(name)]
    if path.suffix in JSON and chosen < 0.7:
        run_damage.mutate(path, random)
        return "mutate", [str(name)]
    function = random.choice(run_damage.DAMAGES)
    if path.stat().st_size < 2:
        function = run_damage.delete
    function(path, random)
    return function.__name__, [str(name)]
