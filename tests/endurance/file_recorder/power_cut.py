"""Power cuts at every moment of a command: what it had reported as saved is there, and so is what was there before."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from .disk import Disk, Tree, digest, written_to
from .events import Event, read_events
from .scenarios import Scenario, Stage

PATH = re.compile(r"/[^\s'\",:;]+")
# Of a process while it runs; what they hold is of no use after it.
TRANSIENT = re.compile(r"(.*/)?(\.owner|attach\.json|\.[^/]*lock)")
LOG = re.compile(r"(.*/)?[^/]*\.jsonl")  # what was not flushed of its last lines may be lost
REFERENCE = re.compile(rb'(?:src|href)="([^":#?]+)"')
OPENED = 3  # trees of a scenario in which the run is resumed


@dataclass
class History:
    """What a path has named, in order.

    Args:
        versions: moment and digest; None: nothing. Only whole contents: those that got the name, were flushed, or
            were there at the end.
        reported: moment from which it must be there.
        beginning: of a log: what must be there of its content.
    """

    versions: list[tuple[int, str | None]] = field(default_factory=list)
    reported: int | None = None
    beginning: bytes = b""

    def allowed(self, moment: int) -> set[str | None]:
        """What may be there after a power cut at a moment."""
        since = -1 if self.reported is None else self.reported
        before = [version for at, version in self.versions if at <= since][-1:]
        return {*before, *(version for at, version in self.versions if since < at <= moment)}


@dataclass
class Outcome:
    """What the power cuts of one command did.

    Args:
        faults: what was lost or torn, one line for each path.
        moments: of power cuts.
        trees: different trees that were checked.
        reported: paths that were reported as saved.
        opened: trees in which the command that continues was run.
    """

    faults: dict[str, str] = field(default_factory=dict)
    moments: int = 0
    trees: int = 0
    reported: list[str] = field(default_factory=list)
    opened: int = 0


class Replay:
    """A record on the disk model, with the history of every path.

    Args:
        root: the tree as it was before.
    """

    def __init__(self, root: Path) -> None:
        self.disk = Disk(root)
        self.histories: dict[str, History] = {}
        self.reports = 0  # paths that were reported so far
        self._text = ""
        for name, content in self.disk.tree().items():
            self._add(name, -1, digest(content))
            self.histories[name].beginning = content or b""

    def _add(self, name: str, moment: int, version: str | None) -> None:
        history = self.histories.setdefault(name, History([(-2, None)]))
        if history.versions[-1][1] != version:
            history.versions.append((moment, version))

    def step(self, event: Event, moment: int) -> None:
        """Replays one event."""
        if event.call == "output":
            self._report(event.data.decode(errors="replace"), moment)
            return
        self.disk.apply(event)
        root = f"{self.disk.root}/"
        if LOG.fullmatch(event.path) and event.path.startswith(root):
            self._look_at_log(event.path.removeprefix(root), flushed=event.call == "sync")
        paths = [event.path, event.to] if event.call == "rename" else [event.path]
        if event.call in ("rename", "link", "unlink", "rmdir", "mkdir", "symlink", "sync"):
            for path in paths:
                if path.startswith(root):
                    self._look(path.removeprefix(root), moment)

    def _look_at_log(self, name: str, flushed: bool) -> None:
        history = self.histories.setdefault(name, History([(-2, None)]))
        node = self.disk.node(f"{self.disk.root}/{name}")
        content = bytes(node.content) if node is not None else b""
        history.beginning = content if flushed else _common(history.beginning, content)

    def _look(self, name: str, moment: int) -> None:
        node = self.disk.node(f"{self.disk.root}/{name}")
        if node is None:
            for other in [other for other in self.histories if other == name or other.startswith(f"{name}/")]:
                self._add(other, moment, None)
            return
        self._add(name, moment, "folder" if node.folder else digest(bytes(node.content)))
        for child in node.names if node.folder else ():
            self._look(f"{name}/{child}", moment)

    def _report(self, text: str, moment: int) -> None:
        """What a line names is saved, a folder with all that it holds."""
        self._text += text
        *lines, self._text = self._text.split("\n")
        root = f"{self.disk.root}/"
        paths = [match.group().rstrip(".)/") for line in lines for match in PATH.finditer(line)]
        for name in {path.removeprefix(root) for path in paths if path.startswith(root)}:
            node = self.disk.node(root + name)
            for other in self._below(name) if node is not None else ():
                self._look(other, moment)
                history = self.histories[other]
                if history.reported is None and history.versions[-1][1] is not None:
                    history.reported = moment
                    self.reports += 1

    def _below(self, name: str) -> list[str]:
        """The folders around a path, the path, what is below it, and what a page shows."""
        parents = [str(parent) for parent in Path(name).parents][:-1]
        node = self.disk.node(f"{self.disk.root}/{name}")
        if node is not None and name.endswith(".html"):
            parts = {Path(name).parent / os.fsdecode(part) for part in REFERENCE.findall(bytes(node.content))}
            parents += [str(part) for part in parts if self.disk.node(f"{self.disk.root}/{part}")]
        return [*parents, name, *(path for path in self.disk.tree() if path.startswith(f"{name}/"))]

    def faults(self, tree: Tree, moment: int) -> Iterator[tuple[str, str]]:
        """What a tree after a power cut lacks, or has torn: path and words."""
        for name, history in self.histories.items():
            if TRANSIENT.fullmatch(name):
                continue
            was_there = any(at == -1 for at, _ in history.versions)
            if not was_there and history.reported is None:
                continue
            if LOG.fullmatch(name) and (tree.get(name) or b"").startswith(history.beginning) and name in tree:
                continue
            content = digest(tree[name]) if name in tree else None
            if content not in history.allowed(moment):
                what = "is lost" if content is None else "is torn, or an older one"
                since = "there before" if history.reported is None else "reported as saved"
                yield name, f"{name} ({since}) {what} after a power cut at call {moment}"


def _common(first: bytes, second: bytes) -> bytes:
    """The common beginning of two contents."""
    size = min(len(first), len(second))
    while first[:size] != second[:size]:
        size //= 2
    while size < min(len(first), len(second)) and first[size] == second[size]:
        size += 1
    return first[:size]


def cut_power(
    stage: Stage, scenario: Scenario, random: Random, *, choices: int = 2, opened: int = OPENED
) -> Outcome:
    """Records a command, and cuts the power after each of its calls.

    Args:
        stage: where it runs.
        scenario: the command.
        random: for what of the changes that were not flushed is there.
        choices: random trees for each moment.
        opened: trees in which the run is resumed.
    """
    stage.reset()
    replay, record = Replay(stage.tree), stage.folder / "record"
    shutil.rmtree(record, ignore_errors=True)
    done = stage.run(scenario, record)
    if done.crashed or done.status not in scenario.statuses:
        raise RuntimeError(f"{scenario.name}: status {done.status}: {done.text[-500:]}")
    events = read_events(record)
    outcome, seen, openable = Outcome(moments=len(events)), set(), []
    for moment, event in enumerate(events):
        replay.step(event, moment)
        for tree in replay.disk.crash_trees(random, choices):
            names = tuple((name, digest(content)) for name, content in sorted(tree.items()))
            if (key := hash((names, replay.reports))) in seen:
                continue
            seen.add(key)
            for name, words in replay.faults(tree, moment):
                outcome.faults.setdefault(name, words)
            if scenario.opens and replay.histories.get(scenario.opens_after, History()).reported is not None:
                openable.append((moment, tree))
    recorded, actual = replay.disk.tree(), Disk(stage.tree).tree()
    if others := [name for name in {*recorded, *actual} if recorded.get(name, 0) != actual.get(name, 0)]:
        raise RuntimeError(f"{scenario.name}: the record does not lead to these files: {sorted(others)[:9]}")
    outcome.trees = len(seen)
    outcome.reported = sorted(name for name, known in replay.histories.items() if known.reported is not None)
    for moment, tree in random.sample(openable, min(opened, len(openable))):
        shutil.rmtree(stage.tree)
        written_to(tree, stage.tree)
        done = stage.run_line(scenario.opens)
        outcome.opened += 1
        if done.status or done.crashed:
            outcome.faults.setdefault(
                scenario.opens, f"after a power cut at call {moment}: {done.text[-400:]}"
            )
    return outcome
