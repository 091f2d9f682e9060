"""Part ends: a signal or a lost output at each phase of a command; it ends like Ctrl-C, and nothing is lost.

Commands are forked from a process that has imported everything, and run as the script `luxel` does, with streams and
signals as it sets them. The signal comes where the code of a phase is reached.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

SIGNALS = ("INT", "TERM", "HUP", "none")
SINKS = ("normal", "closed", "full", "gone")
LOST = 120
SECONDS = 60.0  # after which a command hangs
OPTIONS = ["--steps", "30", "--eval-every", "0", "--no-lpips", "--save-renders", "1", "--device", "cpu"]
CHECKPOINTS = ["--checkpoints.every", "10"]


def _before(module: str, name: str, act: Callable[[], None]) -> None:
    """Calls ``act`` whenever a function is called."""
    import importlib

    *path, last = name.split(".")
    target: Any = importlib.import_module(module)
    for part in path:
        target = getattr(target, part)
    original = getattr(target, last)

    def acting(*args: Any, **options: Any) -> Any:
        act()
        return original(*args, **options)

    setattr(target, last, acting)


# Where the signal of a phase comes: module and function, and at which call.
PHASES: dict[str, tuple[str, str, int]] = {
    "start": ("luxel.viewer.cli", "parse", 1),
    "reading": ("luxel.viewer.scene_loading.capture_options", "open_capture", 1),
    "training": ("luxel.render.runs.loop", "TrainingLoop.step", 15),
    "checkpoint": ("luxel.render.runs.folder.run_folder", "save", 1),
    "evaluation": ("luxel.render.train.monitor.held_out", "evaluate", 1),
    "report": ("luxel.viewer.training.train_scene", "_conclude", 1),
    "film": ("luxel.viewer.films.encoders.video", "_padded", 3),
}
COMPLETE = ("evaluation", "report", "film")  # phases in which the run is saved whatever comes


@dataclass(frozen=True)
class Case:
    """One command.

    Args:
        signal: its name without SIG; none: the command ends by itself.
        phase: of `PHASES`, in which the signal comes.
        stdout, stderr: what becomes of the streams, of `SINKS`.
    """

    signal: str
    phase: str
    stdout: str = "normal"
    stderr: str = "normal"

    @property
    def status(self) -> int:
        """The exit status that is promised."""
        if self.signal != "none":
            return 128 + getattr(signal, f"SIG{self.signal}")
        return LOST if "full" in (self.stdout, self.stderr) else 0

    def command(self, capture: Path, finished: Path, folder: Path) -> list[str]:
        """Arguments of `luxel`; its results are below ``folder``."""
        if self.phase == "film":
            size = ["--frames", "5", "--width", "32", "--height", "24", "--device", "cpu"]
            return ["render", str(finished), "--out", str(folder / "film.mp4"), *size]
        return ["train", str(capture), "--run", str(folder / "run"), *OPTIONS, *CHECKPOINTS]


class Commands:
    """A process from which commands are forked; use as a context."""

    def __enter__(self) -> Commands:
        root = Path(__file__).resolve().parents[2]
        words = [sys.executable, "-c", "from tests.endurance.ends import serve; serve()"]
        self._server = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(10)
        self._server.stdout.close()

    def run(self, case: Case, arguments: list[str], folder: Path) -> int:
        """Runs a command; what it prints is in stdout.txt and stderr.txt of a folder. Returns its exit status, negative
        for a signal that killed it; -1000: it did not end."""
        assert self._server.stdin is not None and self._server.stdout is not None
        request = {
            "arguments": arguments,
            "folder": str(folder),
            "signal": case.signal,
            "phase": case.phase,
            "stdout": case.stdout,
            "stderr": case.stderr,
        }
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def serve() -> None:
    """The process of `Commands`: forks a command for each line of standard input, and prints its exit status."""
    import torch

    import luxel.render.train
    import luxel.viewer.commands.render
    import luxel.viewer.commands.train
    import luxel.viewer.films.encoders.video
    import luxel.viewer.training.train_scene  # noqa: F401

    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _command(request)
        end = time.monotonic() + SECONDS
        while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.01)
        if not ended[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(ended[1]) if ended[0] else -1000, flush=True)


def _command(request: dict[str, Any]) -> None:
    """Runs a command in the forked process, which ends with it."""
    from luxel.render.storage import journal
    from luxel.viewer import console

    folder = Path(request["folder"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for number, name in ((1, "stdout"), (2, "stderr")):
        _redirect(number, request[name], folder / f"{name}.txt")
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = None if request[name] == "closed" else open(number, "w", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
    sys.argv = ["luxel", *request["arguments"]]
    for name in SIGNALS[:-1]:  # which a background job ignores, and nohup
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL)
    journal._after_fork()
    if request["signal"] != "none":
        module, name, call = PHASES[request["phase"]]
        calls = [0]

        def act() -> None:
            calls[0] += 1
            if calls[0] == call:
                os.kill(os.getpid(), getattr(signal, f"SIG{request['signal']}"))

        _before(module, name, act)
    console.run()


def _redirect(number: int, sink: str, file: Path) -> None:
    if sink == "closed":
        os.close(number)
        return
    if sink == "gone":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        path = "/dev/full" if sink == "full" else str(file)
        writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(writer, number)
    os.close(writer)


def attempt(commands: Commands, case: Case, capture: Path, finished: Path, folder: Path) -> str:
    """Runs a case in an empty folder; returns what is wrong, empty: nothing."""
    status = commands.run(case, case.command(capture, finished, folder), folder)
    text = {name: _text(folder / f"{name}.txt") for name in ("stdout", "stderr")}
    printed = "".join(text.values())
    if "Traceback" in printed:
        return f"traceback: {printed[-600:]}"
    if status != case.status:
        return f"status {status}, not {case.status}: {printed[-300:]}"
    if left := [str(path) for path in folder.rglob(".luxel-*") if not path.name.endswith("manifest.jsonl")]:
        return f"temporary files: {left}"
    if case.signal != "none" and "normal" in (case.stdout, case.stderr) and not _is_said(case, printed):
        return f"no line about the end: {printed[-300:]}"
    if case.phase == "film":
        return "" if (folder / "film.mp4").exists() == (case.signal == "none") else "film: half, or missing"
    return _state_of_run(case, folder / "run")


def _is_said(case: Case, printed: str) -> bool:
    lines = ("Stopped at step", "Interrupted.", f"Ended by SIG{case.signal}", "its report was not written")
    return any(line in printed for line in lines) or (case.stderr != "normal" and case.phase != "training")


def _state_of_run(case: Case, run: Path) -> str:
    from luxel.render.runs.checkpoints.checkpoint import CheckpointError, load_newest

    if case.signal != "none" and case.phase in ("start", "reading"):
        return "" if not run.exists() else "the folder of a run that did not start"
    try:
        step = load_newest(run / "checkpoints", print).step
    except CheckpointError as error:
        return str(error)
    complete = case.signal == "none" or case.phase in COMPLETE
    expected = 30 if complete else 15 if case.phase == "training" else step
    if step != expected:
        return f"the checkpoint is of step {step}, not {expected}"
    return "" if (run / "scene.ply").is_file() else "there is no scene"


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def cases() -> Iterator[Case]:
    """All of them: each signal at each phase, with each fate of one of the streams, or of both."""
    for phase in PHASES:
        for name in SIGNALS:
            for sink in SINKS:
                yield Case(name, phase, stdout=sink)
                if sink != "normal":
                    yield Case(name, phase, stderr=sink)
                    yield Case(name, phase, stdout=sink, stderr=sink)


def make_inputs(work: Path) -> tuple[Path, Path]:
    """A capture and a finished run of it."""
    from .processes import prepare_shared

    prepare_shared(work)
    return work / "shared" / "knot", work / "shared" / "gaussians"


def trial(work: Path, random: Random) -> dict[str, Any]:
    """One case of all."""
    case = random.choice(list(cases()))
    folder = Path(tempfile.mkdtemp(dir=work, prefix="trial-"))
    try:
        with Commands() as commands:
            problem = attempt(commands, case, work / "shared" / "knot", work / "shared" / "gaussians", folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome = "ended as promised" if not problem else "not as promised"
    return {"outcome": outcome, "ok": not problem, "case": str(case), "detail": problem}
