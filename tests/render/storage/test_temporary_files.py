"""The journal of temporary files: a later process removes those of a process that was killed, and nothing else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from luxel.render.storage import journal as module
from luxel.render.storage.journal import Journal, temporary_name

WORKER = """
import os, sys, time
from pathlib import Path
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.journal import scratch_folder
folder = Path(sys.argv[1])
with OutputFolder(folder).writing("scene.ply") as draft, scratch_folder(folder) as scratch:
    draft.file.write(b"part")
    draft.file.flush()
    (scratch / "below").mkdir()
    (scratch / "below" / "file").write_text("x")
    print("ready", flush=True)
    if sys.argv[2] == "wait":
        time.sleep(600)
"""


def worker(folder: Path, state: Path, what: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), what],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder to write into, and one for the state."""
    for name in ("run", "state"):
        (tmp_path / name).mkdir()
    return tmp_path / "run", tmp_path / "state"


def temporary(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if module.TEMPORARY.fullmatch(name))


def test_names_are_random_and_recognised() -> None:
    assert temporary_name() != temporary_name()
    assert all(module.TEMPORARY.fullmatch(temporary_name(suffix)) for suffix in ("", ".png", ".tar.gz"))


def test_what_a_killed_process_leaves_is_removed_and_nothing_else(folders: tuple[Path, Path]) -> None:
    run, state = folders
    decoys = [".luxel-0123456789abcdef", ".luxel-0123456789abcdef.png", "notes.tmp", ".part-1"]
    for name in decoys:
        (run / name).write_text("mine")
    process = worker(run, state, "wait")
    try:
        assert len(temporary(run)) == 4
        assert Journal(state / "luxel" / "temporary").sweep() == 0 and len(temporary(run)) == 4
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(temporary(run)) == 4
    assert Journal(state / "luxel" / "temporary").sweep() == 2
    assert sorted(name for name in os.listdir(run) if name != ".luxel-manifest.jsonl") == sorted(decoys)
    assert os.listdir(state / "luxel" / "temporary") == []


def test_a_process_that_ends_leaves_neither_files_nor_a_journal(folders: tuple[Path, Path]) -> None:
    run, state = folders
    assert worker(run, state, "end").wait() == 0
    assert temporary(run) == [] and (run / "scene.ply").read_bytes() == b"part"
    assert os.listdir(state / "luxel" / "temporary") == []


def journal_of(folder: Path, *paths: Path, **changes: str | int) -> Path:
    """The journal of a process that has ended, or of another machine."""
    parts = {"host": module._host(), "boot": module._boot(), "pid": os.getpid(), "start": 1, **changes}
    path = folder / "{host}-{boot}-{pid}-{start}.jsonl".format(**parts)
    path.write_text("".join(json.dumps({"made": str(name)}) + "\n" for name in paths))
    return path


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A temporary file that is noted."""
    path = tmp_path / temporary_name()
    path.write_text("part")
    return path


def test_a_process_number_that_was_given_again(tmp_path: Path, left: Path) -> None:
    """This process has the number, but began at another time."""
    state = tmp_path / "state"
    state.mkdir()
    journal_of(state, left, start=module._start_of(os.getpid()))
    assert Journal(state).sweep() == 0 and left.exists()
    journal_of(state, left, start=module._start_of(os.getpid()) + 1)
    assert Journal(state).sweep() == 1 and not left.exists()


def test_an_earlier_boot_has_no_processes(tmp_path: Path, left: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    journal_of(state, left, boot="01234567", start=module._start_of(os.getpid()))
    assert Journal(state).sweep() == 1 and not left.exists()


def test_other_machines_and_containers_are_left_alone(
    tmp_path: Path, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    other = journal_of(state, left, host="01234567")
    assert Journal(state).sweep() == 0 and left.exists() and other.exists()
    before, readlink = module._host(), os.readlink
    monkeypatch.setattr(os, "readlink", lambda p: "pid:[7]" if str(p).endswith("ns/pid") else readlink(p))
    module._host.cache_clear()
    try:
        assert module._host() != before
    finally:
        monkeypatch.undo()
        module._host.cache_clear()


def test_only_temporary_names_and_no_links_are_removed(tmp_path: Path) -> None:
    state, victim = tmp_path / "state", tmp_path / "victim"
    state.mkdir()
    victim.mkdir()
    (victim / "file").write_text("precious")
    link = tmp_path / temporary_name()
    link.symlink_to(victim)
    scratch = tmp_path / temporary_name()
    scratch.mkdir()
    (scratch / "link").symlink_to(victim)
    pipe = tmp_path / temporary_name()
    os.mkfifo(pipe)
    journal_of(state, victim, victim / "file", link, scratch, pipe, tmp_path / "gone", Path("x\0y"))
    assert Journal(state).sweep() == 1
    assert (victim / "file").read_text() == "precious" and link.is_symlink() and not scratch.exists()


def test_damaged_journals_are_passed_over(tmp_path: Path, left: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    path = journal_of(state, left)
    path.write_bytes(b"[]\nnull\n{\n\xff\n" + path.read_bytes() + b'{"made": "/a')
    os.mkfifo(state / journal_of(state, start=2).name.replace("-2.", "-3."))
    assert Journal(state).sweep() == 1 and not left.exists()


def test_a_child_leaves_the_journal_of_its_parent(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.note(tmp_path / "a")
    journal.forget(tmp_path / "a")
    (path,) = tmp_path.iterdir()
    pid = os.fork()
    if pid == 0:
        journal.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert path.exists()
    journal.close()
    assert not path.exists()


def test_without_a_folder_nothing_is_noted_and_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(None)
    journal.note(tmp_path / "a")
    journal.forget(tmp_path / "a")
    journal.close()
    assert journal.sweep() == 0 and os.listdir(tmp_path) == []


def test_scratch_folders_are_private_and_removed(tmp_path: Path) -> None:
    with module.scratch_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700 and re.match(r"\.luxel-", folder.name)
        (folder / "x").mkdir()
        (folder / "x" / "y").write_text("z")
    assert os.listdir(tmp_path) == []
    with pytest.raises(KeyError), module.scratch_folder(tmp_path) as folder:
        raise KeyError
    assert os.listdir(tmp_path) == []


def test_the_journal_is_empty_when_nothing_is_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for name in ("a", "b"):
        journal.note(tmp_path / name)
    (path,) = tmp_path.iterdir()
    journal.forget(tmp_path / "a")
    assert [json.loads(line) for line in path.read_text().splitlines()][-1] == {"gone": str(tmp_path / "a")}
    journal.forget(tmp_path / "b")
    assert path.stat().st_size == 0 and path.stat().st_mode & 0o777 == 0o600
    journal.close()


def test_start_times_are_those_of_the_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert module._start_of(child.pid) >= module._start_of(os.getpid()) > 0
    child.communicate(b"\n")
    while module._start_of(child.pid) >= 0:
        time.sleep(0.01)
