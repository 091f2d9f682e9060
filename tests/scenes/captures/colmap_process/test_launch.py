"""However the process of COLMAP ends, luxel gets a message, and the process never outlives luxel."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from luxel.scenes.captures.colmap_process import launch
from luxel.scenes.errors import CaptureError

HEAD = """
import json, os, signal, sys, time
request = json.loads(sys.stdin.buffer.readline())
def say(**event):
    print(json.dumps(event), flush=True)
say(progress="matching photographs", fraction=0.5)
"""
Run = Callable[[str], dict[str, np.ndarray]]


def ignore(stage: str, fraction: float) -> None:
    pass


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a stand-in for the process, which executes some lines."""
    modules = tmp_path / "modules"
    modules.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setattr(launch, "MODULE", "stand_in")

    def started(lines: str) -> dict[str, np.ndarray]:
        (modules / "stand_in.py").write_text(HEAD + lines)
        return launch.run_task("any", tmp_path, ignore, numbers=np.arange(3))

    return started


@pytest.mark.parametrize(
    ("lines", "problem", "remedy"),
    [
        (
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "COLMAP ended with SIGSEGV while matching photographs",
            "leave",
        ),
        (
            "os.write(2, b'Check failed: rows >= 0 \\x1b[2J\\nPC: @ 0x0\\n' + 99 * b'    @ 0x7f Error\\n'); os.abort()",
            "COLMAP ended with SIGABRT while matching photographs: Check failed: rows >= 0 [2J",
            "leave out images",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "COLMAP ended with SIGKILL while matching",
            "fewer or smaller",
        ),
        ("os.kill(os.getpid(), 40)", "COLMAP ended with signal 40 while matching photographs", "Try again"),
        ("sys.exit(3)", "COLMAP ended with status 3 while matching photographs", "Try again"),
        (
            "print('no event'); print('[1]'); print('{\"progress\": 3}'); print('9' * 3_000_000); sys.exit()",
            "COLMAP ended with status 0 while matching photographs",
            "Try again",
        ),
        (
            "say(failure='RuntimeError: no')",
            "COLMAP failed while matching photographs (RuntimeError: no)",
            "Try",
        ),
        ("say(problem='No poses.', remedy='Take more.')", "No poses.", "Take more."),
    ],
)
def test_the_end_of_the_process_is_a_message(run: Run, lines: str, problem: str, remedy: str) -> None:
    with pytest.raises(CaptureError) as caught:
        run(lines)
    assert problem in caught.value.problem and remedy in caught.value.remedy
    assert caught.value.problem.isprintable()


def test_a_process_that_ends_before_it_has_read_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "MODULE", "luxel.no_such_module")
    with pytest.raises(
        CaptureError, match=r"COLMAP ended with status 1 while starting: .*No module named luxel\."
    ):
        launch.run_task("any", tmp_path, ignore, names=["a" * 1000] * 1000)


def test_arrays_come_back(run: Run) -> None:
    lines = """
import numpy
given = numpy.load(os.path.join(request["folder"], "request.npz"))["numbers"]
numpy.savez(os.path.join(request["folder"], "result.npz"), twice=2 * given)
say(done=True)
"""
    assert run(lines)["twice"].tolist() == [0, 2, 4]


def test_an_interruption_ends_the_process_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen] = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[call-overload]
            started.append(self)

    def interrupt(stage: str, fraction: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(launch.subprocess, "Popen", Recorded)
    (tmp_path / "modules/stand_in.py").write_text(HEAD + "time.sleep(600)")
    with pytest.raises(KeyboardInterrupt):
        launch.run_task("any", tmp_path, interrupt)
    assert started[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_process_ends_with_luxel(tmp_path: Path, number: signal.Signals) -> None:
    """The real process, which has been given no request yet, or works: its parent is killed."""
    starter = (
        "import subprocess, sys, os\n"
        f"p = subprocess.Popen([sys.executable, '-P', '-m', {launch.MODULE!r}], stdin=subprocess.PIPE)\n"
        "print(p.pid, flush=True)\np.wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    """Whether a process exists and has not ended; nobody may have waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_modules_of_the_present_folder_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present folder may be a capture of a stranger."""
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    (tmp_path / "pycolmap.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaptureError):
        launch.run_task("triangulate", tmp_path, ignore, names=[], lenses=[], pairs=[])
    assert not (tmp_path / "imported").exists()


def test_a_process_without_its_parent_ends(tmp_path: Path) -> None:
    request = b'{"parent": 1, "task": "triangulate", "settings": {}, "folder": "", "arguments": {}}\n'
    process = subprocess.run(
        [sys.executable, "-P", "-m", launch.MODULE], input=request, capture_output=True, check=False
    )
    assert process.returncode == 1 and not process.stdout
