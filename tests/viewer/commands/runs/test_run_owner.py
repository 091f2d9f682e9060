"""Several commands on one run folder, and folders that cannot be continued."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bad_input import Refused

from luxel.viewer.cli import main

TRAIN = [sys.executable, "-m", "luxel.viewer.console", "train"]
SHORT = ["--device", "cpu", "--no-lpips", "--save-renders", "0"]


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a training in a process of its own, which does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        words = [*TRAIN, *map(str, arguments), *SHORT]
        started.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def _until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.slow
def test_of_two_trainings_on_one_folder_one_trains_and_one_is_told_who(
    start: Callable[..., subprocess.Popen[str]], toy_capture: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "two"
    options = [toy_capture, "--run", folder, "--steps", "100000", "--checkpoints.every", "20"]
    first = start(*options)
    time.sleep(0.3)
    second = start(*options)
    by_pid = {first.pid: first, second.pid: second}
    _until(lambda: any(process.poll() is not None for process in by_pid.values()), "both train")
    refused = next(process for process in by_pid.values() if process.poll() is not None)
    (trains,) = [process for process in by_pid.values() if process is not refused]
    said = refused.communicate()[1]
    assert refused.returncode not in (0, None) and "Traceback" not in said
    assert f"process {trains.pid}" in said and "--run" in said
    _until(lambda: list(folder.glob("checkpoints/*.json")), "there is no checkpoint")
    resumed = start("--resume", folder)
    said = resumed.communicate(timeout=60)[1]
    assert resumed.returncode not in (0, None) and f"process {trains.pid}" in said
    assert main(["export", str(folder), "--out", str(tmp_path / "meanwhile.ply")]) == 0
    assert trains.poll() is None, "it goes on"
    os.kill(trains.pid, signal.SIGKILL)
    trains.wait()
    assert main(["train", "--resume", str(folder), "--steps", "1", *SHORT]) == 0, "the lock ended with it"


@pytest.mark.slow
def test_status_says_that_the_folder_was_deleted_while_training(
    toy_capture: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    options = ["--run", str(folder), "--steps", "600", "--checkpoints.every", "10", *SHORT]

    def delete() -> None:
        while not list(folder.glob("checkpoints/*.json")):
            time.sleep(0.02)
        folder.rename(tmp_path / "gone")  # at once: a removal file by file races with the training's own

    thread = threading.Thread(target=delete)
    thread.start()
    status = main(["train", str(toy_capture), *options])
    thread.join()
    assert status == 1
    assert f"{folder}: this folder was deleted or moved" in capfd.readouterr().err
    assert (folder / "scene.ply").exists()


def test_a_folder_with_a_scene_alone_names_ways_that_work(
    run: Path, capture: Path, refused: Refused, tmp_path: Path
) -> None:
    shutil.rmtree(run / "checkpoints")
    said = refused("train", "--resume", run, names="there is no checkpoint")
    assert "another folder (--run)" in said
    assert main(["export", str(run), "--out", str(tmp_path / "other.ply")]) == 0
    options = ["--steps", "2", *SHORT]
    assert main(["train", str(capture), "--run", str(tmp_path / "another"), *options]) == 0
    said = refused("train", capture, "--run", run, names=f"move {run / 'scene.ply'} elsewhere")
    assert "--resume" not in said
    (run / "scene.ply").rename(tmp_path / "scene.ply")
    assert main(["train", str(capture), "--run", str(run), *options]) == 0


def test_two_unnamed_runs_that_begin_at_once_get_two_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from luxel.viewer.scene_loading import runs

    monkeypatch.chdir(tmp_path)
    first = runs.unused_path(Path("runs"), "a")
    answers = [first, first, tmp_path / "runs" / "a-2"]
    monkeypatch.setattr(runs, "unused_path", lambda folder, stem: answers.pop(0))
    assert runs.new_run_folder("a", None) == Path("runs/a")
    assert runs.new_run_folder("a", None) == tmp_path / "runs" / "a-2"
    assert (tmp_path / "runs" / "a").is_dir()


def test_temporary_files_of_an_ended_process_do_not_keep_a_folder_from_use(tmp_path: Path) -> None:
    """As on a full disk, where a training may end while a render is being written."""
    run, environment = tmp_path / "run", {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    leave = (
        "import os, sys; from pathlib import Path; from luxel.render.storage.folder import OutputFolder\n"
        "with OutputFolder(Path(sys.argv[1])).writing('renders/0.png'): os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", leave, str(run)], env=environment, check=False)
    assert len(left := list((run / "renders").iterdir())) == 1
    use = (
        "import sys; from pathlib import Path; from luxel.viewer.scene_loading.runs import new_run_folder\n"
        "new_run_folder('a', Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", use, str(run)], env=environment, check=True)
    assert not left[0].exists()


@pytest.mark.parametrize("name", ["scene.ply", "renders/0.png.part"])
def test_files_of_a_training_that_goes_on_are_no_other_files(tmp_path: Path, name: str) -> None:
    """Its first files have their names before the manifest names them."""
    from luxel.render.runs.folder.owner import own

    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    begin = (
        "import sys; from pathlib import Path; from luxel.viewer.scene_loading.runs import new_run_folder\n"
        "new_run_folder('a', Path(sys.argv[1]))"
    )

    def refusal() -> str:
        return subprocess.run(
            [sys.executable, "-c", begin, str(tmp_path)], capture_output=True, text=True
        ).stderr

    owner = own(tmp_path)
    assert f"process {os.getpid()}" in refusal()
    owner.release()
    said = refusal()
    assert "RunError" in said and f"process {os.getpid()}" not in said
