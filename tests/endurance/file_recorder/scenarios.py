"""Commands that write files, each on a tree that was prepared for it: one line covers a new command or option."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .commands import Commands, Result

TRAINING = [
    "--eval-every",
    "0",
    "--no-lpips",
    "--save-renders",
    "1",
    "--checkpoints.every",
    "10",
    "--device",
    "cpu",
]
HERE = Path(__file__).resolve().parent
STEPS = 20  # of the run that is there before
VIEW = ["--width", "32", "--height", "24", "--frames", "3"]


@dataclass(frozen=True)
class Scenario:
    """A command on a copy of a prepared tree.

    Args:
        name: unique.
        arguments: as after `luxel`; {tree}: the copy, {capture}, {masks}: materials that are only read.
        inside: folders of the tree in which no link is followed: a run, a capture, a report.
        interrupt: file of the tree at whose coming the command gets SIGINT.
        slow: left out of the quick tests.
        opens: a command that must work in any tree after a power cut that followed the report of ``opens_after``.
        opens_after: path in the tree.
    """

    name: str
    arguments: tuple[str, ...]
    inside: tuple[str, ...] = ()
    interrupt: str = ""
    slow: bool = False
    opens: str = ""
    opens_after: str = ""

    @property
    def statuses(self) -> tuple[int, ...]:
        """Exit statuses that are expected."""
        return (0, 130) if self.interrupt else (0,)


def _scenario(name: str, line: str, *more: str, inside: str = "", **others: Any) -> Scenario:
    return Scenario(name, (*line.split(), *more), tuple(inside.split()), **others)


SCENARIOS = (
    _scenario(
        "train",
        "train {capture} --run {tree}/new/runs/a --steps 20",
        *TRAINING,
        inside="new/runs/a",
        opens="train {capture} --resume {tree}/new/runs/a --steps 22",
        opens_after="new/runs/a/scene.ply",
    ),
    _scenario(
        "resume",
        "train {capture} --resume {tree}/run --steps 40",
        inside="run",
        opens="train {capture} --resume {tree}/run --steps 42",
        opens_after="run/scene.ply",
    ),
    _scenario(
        "interrupted",
        "train {capture} --run {tree}/new/runs/b --steps 100000",
        *TRAINING,
        interrupt="new/runs/b/checkpoints/step-00000020.json",
        opens="train {capture} --resume {tree}/new/runs/b --steps 25",
        opens_after="new/runs/b/checkpoints",
    ),
    _scenario("eval", "eval {tree}/run --capture {capture} --no-lpips --device cpu", inside="run"),
    _scenario(
        "eval --out",
        "eval {tree}/run --capture {capture} --no-lpips --device cpu --out {tree}/new/report",
        inside="new/report",
    ),
    _scenario("render film", "render {tree}/run --device cpu --out {tree}/new/films/a.mp4", *VIEW),
    _scenario(
        "render images", "render {tree}/run --device cpu --out {tree}/new/frames", *VIEW, inside="new/frames"
    ),
    _scenario("inspect --out", "inspect {capture} --out {tree}/new/page", inside="new/page"),
    _scenario("segment", "segment {tree}/run --masks {masks} --capture {capture} --device cpu", inside="run"),
    _scenario("export ply", "export {tree}/run --out {tree}/new/scenes/a.ply"),
    _scenario("export html", "export {tree}/run --out {tree}/new/scenes/a.html"),
    _scenario("export spz", "export {tree}/run --out {tree}/new/scenes/a.spz", slow=True),
    _scenario("export sog", "export {tree}/run --out {tree}/new/scenes/a.sog", slow=True),
    _scenario("export glb", "export {tree}/run --out {tree}/new/scenes/a.glb", slow=True),
    _scenario("export splat", "export {tree}/run --out {tree}/new/scenes/a.splat", slow=True),
    _scenario("export safetensors", "export {tree}/run --out {tree}/new/scenes/a.safetensors", slow=True),
    _scenario("export over a file", "export {tree}/run --force --out {tree}/old.ply"),
    _scenario("export cameras", "export {tree}/run --cameras --out {tree}/new/sparse", slow=True),
    _scenario(
        "export mesh", "export {tree}/run --mesh --resolution 16 --out {tree}/new/scenes/a.obj", slow=True
    ),
    _scenario(
        "edit",
        f"python {HERE / 'edit_scene.py'} {{tree}}/run/scene.ply {{tree}}/edits",
        inside="edits",
        slow=True,
    ),
    _scenario(
        "inspect posed",
        "inspect {tree}/posed --points triangulate",
        inside="posed cache/luxel",
        slow=True,
    ),
)


class Stage:
    """Trees for scenarios, below one folder.

    Args:
        folder: for everything.
        python: interpreter whose luxel is run; default: this one.
    """

    def __init__(self, folder: Path, python: str | Path | None = None) -> None:
        self.folder = folder.resolve()
        self.tree = self.folder / "tree"
        self.template = self.folder / "template"
        self._options = {"python": python} if python is not None else {}
        self.commands = Commands(self.folder / "commands", **self._options)
        if not (self.template / "run" / "scene.ply").exists():
            self._prepare()

    def _prepare(self) -> None:
        shutil.rmtree(self.template, ignore_errors=True)
        self.template.mkdir()
        done = self.commands.run(["python", str(HERE / "materials.py"), str(self.folder)])
        if done.status:
            raise RuntimeError(f"the capture cannot be written: {done.text[-500:]}")
        run = ["--run", str(self.tree / "run"), "--steps", str(STEPS)]
        done = self.commands.run(["train", str(self.folder / "capture"), *run, *TRAINING])
        if done.status:
            raise RuntimeError(f"the undisturbed run failed: {done.text[-500:]}")
        shutil.move(self.tree / "run", self.template / "run")
        shutil.copy(self.template / "run" / "scene.ply", self.template / "old.ply")
        shutil.copytree(self.folder / "posed", self.template / "posed")
        shutil.rmtree(self.tree)

    def reset(self) -> Path:
        """Makes the tree anew; its path is always the same."""
        shutil.rmtree(self.tree, ignore_errors=True)
        shutil.copytree(self.template, self.tree, symlinks=True)
        return self.tree

    def run(self, scenario: Scenario, record: Path | None = None, seconds: float = 120) -> Result:
        """Runs a scenario on the tree as it is.

        Args:
            scenario: what to run.
            record: folder for the record of what it does below the tree; None: nothing is recorded.
            seconds: after which it is killed.
        """
        return self.commands.run(
            [self._filled(argument) for argument in scenario.arguments],
            record=record,
            roots=[self.tree],
            environment={"XDG_CACHE_HOME": str(self.tree / "cache")},
            interrupt=self.tree / scenario.interrupt if scenario.interrupt else None,
            seconds=seconds,
        )

    def run_line(self, line: str) -> Result:
        """Runs a command on the tree as it is."""
        cache = {"XDG_CACHE_HOME": str(self.tree / "cache")}
        return self.commands.run([self._filled(argument) for argument in line.split()], environment=cache)

    def _filled(self, argument: str) -> str:
        return argument.format(tree=self.tree, capture=self.folder / "capture", masks=self.folder / "masks")

    def close(self) -> None:
        """Ends the process that runs the commands."""
        self.commands.close()


_stages: dict[tuple[int, Path], Stage] = {}


def stage_of(work: Path) -> Stage:
    """The stage of this process below a folder."""
    key = (os.getpid(), work)
    if key not in _stages:
        _stages[key] = Stage(work / f"stage-{os.getpid()}")
    return _stages[key]
