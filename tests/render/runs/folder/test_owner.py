"""One process at a time writes into a run folder, and only what a run wrote is deleted there."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_run import ToyRun

from luxel.render.errors import LuxelError
from luxel.render.runs.folder import owner
from luxel.render.runs.folder.owner import CLAIM, OWNER, OwnedError, Owner, own
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.storage.descriptors import ForeignFileError
from luxel.render.storage.folder import OutputFolder
from luxel.render.train.config import Checkpoints
from luxel.scenes import save_scene

HOLD = """
import sys, time
from pathlib import Path
from luxel.render.errors import LuxelError
from luxel.render.runs.folder.owner import own
try:
    held = own(Path(sys.argv[1]))
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
except LuxelError as error:
    print(error.problem, flush=True)
"""


@pytest.fixture
def hold() -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts a process that owns a folder, and returns what it says first."""
    processes: list[subprocess.Popen[str]] = []

    def hold(folder: Path, seconds: float = 60) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", HOLD, str(folder), str(seconds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield hold
    for process in processes:
        process.kill()
        process.wait()


def test_a_second_process_is_told_who_owns_a_folder_until_that_one_is_killed(
    tmp_path: Path, hold: Callable[..., Any]
) -> None:
    process, said = hold(tmp_path)
    assert said == "held"
    with pytest.raises(OwnedError) as refusal:
        own(tmp_path)
    assert f"process {process.pid}" in refusal.value.problem and "-c" in refusal.value.problem
    assert f"kill {process.pid}" in refusal.value.remedy
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    own(tmp_path).release()


def test_a_folder_stays_owned_until_the_last_of_a_process_releases_it(
    tmp_path: Path, hold: Callable[..., Any]
) -> None:
    first, second = own(tmp_path), own(tmp_path)
    first.release()
    first.release()
    if (child := os.fork()) == 0:  # a worker of the owner, whose end must not end the ownership
        os._exit(0)
    os.waitpid(child, 0)
    assert f"process {os.getpid()}" in hold(tmp_path)[1]
    second.release()
    assert hold(tmp_path, 0)[1] == "held"


def _say(folder: Path, claim: bool = False, age: float = 0.0, **changes: Any) -> None:
    """Writes who owns a folder."""
    (folder / OWNER).write_text(json.dumps({**dataclasses.asdict(Owner.this()), **changes}))
    if claim:
        (folder / CLAIM).touch()
    then = time.time() - age
    for path in folder.iterdir():
        os.utime(path, (then, then))


def test_where_locks_end_at_the_machine_the_last_touch_of_an_owner_counts(tmp_path: Path) -> None:
    _say(tmp_path, host="another-machine", age=owner.STALE - 20)
    with pytest.raises(OwnedError, match="on another-machine"):
        own(tmp_path)
    _say(tmp_path, host="another-machine", age=owner.STALE + 20)
    own(tmp_path).release()


@pytest.mark.parametrize(
    ("changes", "age", "refused"),
    [
        ({"pid": 1}, 1e6, True),
        ({"pid": 2**22 + 1}, 0, False),
        ({"pid": 1, "boot": "before"}, 0, False),
        ({"host": "another-machine"}, 30, True),
        ({"host": "another-machine"}, 90, False),
    ],
)
def test_without_locks_the_claim_of_an_owner_that_has_ended_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], age: float, refused: bool
) -> None:
    monkeypatch.setattr(owner, "_flock", lambda file: None)
    _say(tmp_path, claim=True, age=age, **changes)
    if refused:
        with pytest.raises(OwnedError):
            own(tmp_path)
        assert (tmp_path / CLAIM).exists()
        return
    with own(tmp_path):
        assert (tmp_path / CLAIM).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [OWNER]


def test_damaged_names_of_owners_and_folders_of_others_are_no_tracebacks(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"host": 3}', "[" * 5000, "\0" * 9000):
        (tmp_path / OWNER).write_text(text)
        own(tmp_path).release()
        others = sorted(path.read_text() for path in tmp_path.glob(f"{OWNER}.before-*"))
        assert not text or text in others, "what others wrote there is not lost"
    (tmp_path / OWNER).unlink()
    (tmp_path / OWNER).mkdir()
    with pytest.raises(ForeignFileError, match="this is a folder") as error:
        own(tmp_path)
    assert "another folder" in error.value.remedy


def test_what_is_no_folder_cannot_be_owned(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(
        LuxelError, match=r"file: the run folder cannot be written \(Not a directory"
    ) as error:
        own(tmp_path / "file")
    assert "--run" in error.value.remedy


def test_a_link_or_a_second_name_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work")
    for number, make in enumerate((os.symlink, os.link)):
        (tmp_path / str(number)).mkdir()
        make(victim, tmp_path / str(number) / OWNER)
        with pytest.raises(ForeignFileError, match=OWNER):
            own(tmp_path / str(number))
    assert victim.read_text() == "years of work"


def test_options_of_the_command_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/luxel", "train", "photos", "--token", "a-secret-of-the-user"])
    with own(tmp_path):
        text = (tmp_path / OWNER).read_text()
    assert "luxel train" in text and "secret" not in text


def test_only_what_a_run_wrote_is_deleted_as_it_begins(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    output.write(
        "checkpoints/step-00000007.safetensors", b"of a process that was killed before it wrote the JSON"
    )
    others = [
        ".scene.part.ply",
        "mine.tmp",
        ".part-1",
        "checkpoints/step-00000003.safetensors",
        "checkpoints/.step-00000007.json.part",
        "eval/report.json.tmp",
        "renders/a.png",
        ".luxel-0123456789abcdef.png",
    ]
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    RunFolder(tmp_path, print)
    assert not (tmp_path / "checkpoints/step-00000007.safetensors").exists()
    assert [name for name in others if not (tmp_path / name).exists()] == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_deleted_during_training_is_made_again_and_said(tmp_path: Path, replaced: bool) -> None:
    toy, folder = ToyRun(), tmp_path / "run"
    config = toy.config(steps=12, checkpoints=Checkpoints(every=5, minutes=0))
    trainer = toy.trainer(folder, config, export=lambda scene, path: save_scene(path, scene))

    def delete(run: Any) -> None:
        if run.steps_done == 7:
            run.loop.saver.wait()
            shutil.move(folder, tmp_path / "moved")
            if replaced:
                toy.trainer(tmp_path / "other", toy.config(seed=5))
                shutil.copytree(tmp_path / "other", folder)

    result = trainer.run(delete, progress=False)
    assert (tmp_path / "moved" / "checkpoints" / "step-00000005.json").exists()
    if replaced:
        assert result.scene is None and result.checkpoint is None
        assert any("holds another run now" in line for line in toy.said)
        assert not list(folder.glob("**/step-*"))
        return
    assert result.checkpoint is not None and result.checkpoint.exists()
    assert result.scene is not None and result.scene.exists()
    assert "deleted or moved" in trainer.folder.lost and trainer.folder.lost in toy.said
    assert (folder / "config.json").read_bytes() == (tmp_path / "moved" / "config.json").read_bytes()
    assert toy.resume(folder, overrides={"steps": 14}).steps_done == 12
