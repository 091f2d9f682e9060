"""Links at every path that a command writes, replaces or deletes: what they lead to stays as it is."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from .events import Event, read_events
from .scenarios import Scenario, Stage

CHANGES = {
    "open",
    "write",
    "content",
    "size",
    "rename",
    "link",
    "symlink",
    "unlink",
    "mkdir",
    "rmdir",
    "special",
}
LINKS = ("link to a file", "link to nothing", "hard link", "link to a folder")
# Files as a person has them, of names that luxel gives or once swept.
DECOYS = (
    "holiday.png",
    "empty.png",
    "00000.png",
    "000-mine.jpg",
    "images/001-mine.jpg",
    "step-00000999.safetensors",
    "step-00000999.json",
    ".notes.part",
    "thesis.tmp",
    "index.html",
)
PRECIOUS = b"precious\n"


@dataclass(frozen=True)
class Attack:
    """A link in the place of a path.

    Args:
        scenario: command that is run.
        path: relative to the tree.
        link: one of `LINKS`.
    """

    scenario: Scenario
    path: str
    link: str

    @property
    def order(self) -> str:
        """For samples that are always the same."""
        return hashlib.sha256(f"{self.scenario.name} {self.path} {self.link}".encode()).hexdigest()


def changed_paths(events: list[Event], tree: Path, inside: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Files and folders below some folders of a tree that a record changes; folders: those on the way too."""
    files, folders = set(), set()
    for event in events:
        if event.call not in CHANGES:
            continue
        for path in (event.path, event.to if event.call == "rename" else ""):
            name = os.path.relpath(path, tree) if path.startswith(f"{tree}/") else ""
            around = next((folder for folder in inside if name.startswith(f"{folder}/")), None)
            if around is None:
                continue
            (folders if event.call in ("mkdir", "rmdir") else files).add(name)
            parents = [str(parent) for parent in Path(name).parents]
            folders.update(parent for parent in parents if parent.startswith(f"{around}/"))
    return files - folders, folders


def attacks_on(stage: Stage, scenario: Scenario) -> list[Attack]:
    """All attacks on a command: by what two runs of it change, which leaves random names out."""
    if not scenario.inside:
        return []
    both = []
    for number in range(2):
        stage.reset()
        record = stage.folder / f"record-{number}"
        shutil.rmtree(record, ignore_errors=True)
        done = stage.run(scenario, record)
        if done.crashed or done.status not in scenario.statuses:
            raise RuntimeError(f"{scenario.name}: status {done.status}: {done.text[-500:]}")
        both.append(changed_paths(read_events(record), stage.tree, scenario.inside))
    files, folders = (first & second for first, second in zip(*both, strict=True))
    attacks = [Attack(scenario, path, link) for path in sorted(files) for link in LINKS[:3]]
    return attacks + [Attack(scenario, path, LINKS[3]) for path in sorted(folders)]


def attack(stage: Stage, planned: Attack) -> str:
    """Runs a command on a tree with one link; returns what is wrong, or nothing."""
    tree, victim = stage.reset(), stage.folder / "victim"
    shutil.rmtree(victim, ignore_errors=True)
    victim.mkdir()
    for name in DECOYS:
        (victim / name).parent.mkdir(exist_ok=True)
        (victim / name).write_bytes(b"" if name.startswith("empty") else PRECIOUS + name.encode())
    put_link(planned, tree / planned.path, victim)
    before = listing(victim)
    done = stage.run(planned.scenario, seconds=60)
    about = f"{planned.scenario.name}, {planned.path} as {planned.link}"
    if (after := listing(victim)) != before:
        names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        return f"{about}: {', '.join(names)} changed outside"
    if done.crashed:
        return f"{about}: status {done.status}: {done.text[-600:]}"
    if done.status not in planned.scenario.statuses and not is_named(planned, done.text, tree):
        return f"{about}: refused without naming it: {done.text[-600:]}"
    return ""


def is_named(planned: Attack, text: str, tree: Path) -> bool:
    """Whether a refusal names the link, or the folder with it that the command was given."""
    inside = [
        str(tree / folder) for folder in planned.scenario.inside if planned.path.startswith(f"{folder}/")
    ]
    return any(name in text for name in (Path(planned.path).name, *inside))


def put_link(planned: Attack, path: Path, victim: Path) -> None:
    """Puts the link in its place; what was there is what it leads to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if planned.link == "link to a folder":
        if path.is_dir():
            shutil.copytree(path, victim, dirs_exist_ok=True)
            shutil.rmtree(path)
        path.symlink_to(victim)
        return
    target = victim / "target"
    if planned.link != "link to nothing":
        target.write_bytes(path.read_bytes() if path.is_file() else PRECIOUS)
    path.unlink(missing_ok=True)
    if planned.link == "hard link":
        os.link(target, path)
    else:
        path.symlink_to(target)


def listing(folder: Path) -> dict[str, tuple[int, str]]:
    """Everything below a folder: mode and content by name."""
    out = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
        out[str(path.relative_to(folder))] = (mode, content)
    return out
