"""The recorder and its disk model, and a sample of power cuts and links; all of them: ``python -m tests.endurance``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from file_recorder.commands import compiler
from file_recorder.disk import Disk, digest, written_to
from file_recorder.events import Event, read_events
from file_recorder.link_attacks import attack, attacks_on, listing
from file_recorder.power_cut import Replay, cut_power
from file_recorder.scenarios import HERE, SCENARIOS, Scenario, Stage

SCENARIO = {scenario.name: scenario for scenario in SCENARIOS}
POWER = ("train", "eval --out", "render film", "export html")  # the quick tests
SLOW_LINKS = 12  # attacks of each command in the slow tests
LINKS = {"resume": 2, "eval": 2}  # attacks of each in the quick tests

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the recorder is for Linux")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A capture, a run, and a process that runs commands under the recorder."""
    if compiler() is None:
        pytest.skip("no C compiler: the recorder of file changes cannot be built")
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()


def test_every_call_that_changes_files_is_recorded(stage: Stage, tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    (root / "old").write_text("as it was")
    disk = Disk(root)
    done = stage.commands.run(
        ["python", str(HERE / "file_calls.py"), str(root)], record=tmp_path / "record", roots=[root]
    )
    assert done.status == 0, done.text
    events = read_events(tmp_path / "record")
    for event in events:
        disk.apply(event)
    assert {n: digest(c) for n, c in disk.tree().items()} == {
        n: digest(c) for n, c in Disk(root).tree().items()
    }
    assert [event.data for event in events if event.call == "output"] == [f"saved {root}/plain\n".encode()]
    assert any(event.call == "shared" and event.path == f"{root}/mapped" for event in events)


class Calls:
    """Events of a process that writes below a folder."""

    def __init__(self, root: Path) -> None:
        self.replay, self.moment = Replay(root), 0

    def __call__(self, call: str, path: str = "", inode: str = "", **fields: object) -> None:
        to = f"{self.replay.disk.root}/{fields.pop('to')}" if "to" in fields else ""
        full = f"{self.replay.disk.root}/{path}" if path else str(self.replay.disk.root)
        self.replay.step(Event(call, full, inode, to, **fields), self.moment)  # pyright: ignore[reportArgumentType]
        self.moment += 1

    def report(self, name: str) -> None:
        text = f"scene: {self.replay.disk.root}/{name}\n"
        self.replay.step(Event("output", "1", data=text.encode()), self.moment)

    def faults(self) -> list[str]:
        trees = self.replay.disk.crash_trees(Random(0), 20)
        return sorted({name for tree in trees for name, _ in self.replay.faults(tree, self.moment)})


@pytest.mark.parametrize(
    ("left_out", "lost"), [("", []), ("content", ["b"]), ("folder", ["b"]), ("parent", ["new", "new/b"])]
)
def test_each_flush_that_is_left_out_is_noticed(tmp_path: Path, left_out: str, lost: list[str]) -> None:
    (tmp_path / "b").write_text("old")
    calls, folder = Calls(tmp_path), "new/" if left_out == "parent" else ""
    if folder:
        calls("mkdir", "new", "1:1")
    calls("open", f"{folder}part", "1:2", new=True)
    calls("write", f"{folder}part", "1:2", data=b"content")
    if left_out != "content":
        calls("sync", f"{folder}part", "1:2")
    calls("rename", f"{folder}part", "1:2", to=f"{folder}b")
    if left_out != "folder":
        calls("sync", "new" if folder else "", "1:1")
    calls.report(f"{folder}b")
    assert calls.faults() == lost


def test_files_that_were_there_are_not_truncated(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old")
    calls = Calls(tmp_path)
    status = (tmp_path / "b").stat()
    inode = f"{status.st_dev:x}:{status.st_ino:x}"
    calls("open", "b", inode, cut=True)
    calls("write", "b", inode, data=b"new")
    assert calls.faults() == ["b"]


def test_what_a_log_had_on_the_disk_stays(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    calls("open", "log.jsonl", "1:2", new=True)
    calls("write", "log.jsonl", "1:2", data=b"one\n")
    calls("sync", "log.jsonl", "1:2")
    calls("sync")
    calls.report("log.jsonl")
    calls("write", "log.jsonl", "1:2", at=4, data=b"two\n")
    assert calls.faults() == []
    calls("unlink", "log.jsonl")
    calls("open", "log.jsonl", "1:3", new=True)
    calls("write", "log.jsonl", "1:3", data=b"three\n")
    assert calls.faults() == []  # it was deleted by the program, and may be missing


def test_trees_are_written_as_they_are(tmp_path: Path) -> None:
    written_to({"a": None, "a/b": b"x", "link": b"-> a/b"}, tmp_path / "root")
    assert Disk(tmp_path / "root").tree() == {"a": None, "a/b": b"x", "link": b"-> a/b"}


def _slow_but(names: object) -> list[object]:
    assert isinstance(names, (tuple, dict))
    return [
        pytest.param(scenario, id=scenario.name, marks=() if scenario.name in names else pytest.mark.slow)
        for scenario in SCENARIOS
    ]


@pytest.mark.parametrize("scenario", _slow_but(POWER))
def test_what_was_reported_as_saved_survives_a_power_cut(stage: Stage, scenario: Scenario) -> None:
    outcome = cut_power(stage, scenario, Random(scenario.name), choices=1, opened=1)
    assert outcome.faults == {}
    assert outcome.trees > 3 and (outcome.reported or scenario.name in ("edit", "inspect posed"))
    assert bool(outcome.opened) == bool(scenario.opens)


@pytest.mark.parametrize("name", LINKS)
def test_links_in_runs_are_not_followed(stage: Stage, name: str) -> None:
    attacks = sorted(attacks_on(stage, SCENARIO[name]), key=lambda planned: planned.order)
    assert len(attacks) > 10
    assert [problem for planned in attacks[: LINKS[name]] if (problem := attack(stage, planned))] == []


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [pytest.param(s, id=s.name) for s in SCENARIOS if s.inside])
def test_no_link_is_followed(stage: Stage, scenario: Scenario) -> None:
    attacks = sorted(attacks_on(stage, scenario), key=lambda planned: planned.order)
    assert attacks
    assert [problem for planned in attacks[:SLOW_LINKS] if (problem := attack(stage, planned))] == []


def test_changes_outside_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    before = listing(tmp_path)
    (tmp_path / "a").write_text("y")
    assert listing(tmp_path) != before
