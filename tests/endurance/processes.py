"""Real processes of the `luxel` command, forked from one that has imported everything: they start in milliseconds."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import luxel.viewer.commands.eval
import luxel.viewer.commands.export
import luxel.viewer.commands.train
import luxel.viewer.commands.view  # noqa: F401
from luxel.render.raster.rasterize import rasterize
from luxel.render.runs.loop import TrainingLoop
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot, write_toy_capture
from luxel.viewer.cli import main

CRASHED = 70  # exit status after an exception that the command did not handle
STARTED_AT = "resumed-at"  # file beside the output that holds the step at which a run continued
COMMON = ["--device", "cpu"]
SPLATS = ["--eval-every", "0", "--no-lpips", "--save-renders", "1", "--checkpoints.every", "20", *COMMON]
FIELD = ["--batch", "256", "--log2-entries", "8", "--max-size", "64", "--checkpoint-every", "20", *COMMON]
RUNS: dict[str, list[str]] = {  # arguments of `luxel train` without --run
    "gaussians": ["CAPTURE", "--steps", "200", *SPLATS],
    "convexes": ["CAPTURE", "--primitive", "convexes", "--steps", "80", *SPLATS],
    "field": ["landscape", "--field", "image", "--steps", "200", *FIELD],
}
TRACEBACK = re.compile(r"Traceback \(most recent call last\)")


@dataclass
class Child:
    """A running command; its standard output and errors go to a file."""

    pid: int
    output: Path
    status: int | None = None

    def poll(self) -> int | None:
        """The exit status (negative: a signal), or None while it runs."""
        if self.status is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.status = os.waitstatus_to_exitcode(ended[1])
        return self.status

    def wait(self, seconds: float = 60) -> int:
        """Waits for the end; a process that does not end is killed and reported as a hang.

        Raises:
            TimeoutError: it did not end.
        """
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError(f"no end after {seconds} s: {self.text()[-300:]}")
            time.sleep(0.005)
        assert self.status is not None
        return self.status

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal, and after kill -9 waits for the end."""
        if self.poll() is None:
            os.kill(self.pid, number)
            if number == signal.SIGKILL:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def text(self) -> str:
        """What it has printed."""
        return self.output.read_text(errors="replace")

    @property
    def crashed(self) -> bool:
        """Whether an exception was not handled."""
        return self.poll() == CRASHED or TRACEBACK.search(self.text()) is not None


def start(arguments: Sequence[str], output: Path, prepare: Callable[[], object] | None = None) -> Child:
    """Starts a command in a forked process, of which this one holds no threads.

    Args:
        arguments: as after `luxel`.
        output: file for what it prints.
        prepare: called in the new process before the command.
    """
    pid = os.fork()
    if pid:
        return Child(pid, output)
    status = CRASHED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = open(1, "w", 1, closefd=False), open(2, "w", 1, closefd=False)  # noqa: SIM115
        sys.argv = ["luxel", *arguments]
        _record_resumed_step(output.with_name(STARTED_AT))
        if prepare is not None:
            prepare()
        status = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _record_resumed_step(file: Path) -> None:
    original = TrainingLoop.resume_at

    def resume_at(self: TrainingLoop, step: int, train_seconds: float) -> None:
        file.write_text(str(step))
        original(self, step, train_seconds)

    TrainingLoop.resume_at = resume_at


def train_arguments(kind: str, shared: Path, run: Path) -> list[str]:
    """Arguments that train one of `RUNS`."""
    return [
        "train",
        *(str(shared / "knot") if a == "CAPTURE" else a for a in RUNS[kind]),
        "--run",
        str(run),
    ]


def digest(run: Path) -> str:
    """SHA-256 of the finished scene; empty where there is none."""
    for name in ("scene.ply", "field.safetensors"):
        if (run / name).exists():
            return hashlib.sha256((run / name).read_bytes()).hexdigest()
    return ""


def newest_step(run: Path) -> int:
    """Step of the newest checkpoint, -1 without one."""
    return max((int(p.stem[5:]) for p in (run / "checkpoints").glob("step-*.json")), default=-1)


def trial_folder(work: Path) -> Path:
    """A new folder for one trial."""
    return Path(tempfile.mkdtemp(dir=work, prefix="trial-"))


def prepare_shared(work: Path) -> None:
    """Writes a capture and trains every run of `RUNS` without disturbance, in processes of their own."""
    torch.set_num_threads(1)
    shared = work / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    if not (shared / "knot" / "transforms.json").exists():
        pid = os.fork()
        if pid == 0:
            cameras = ring_cameras(8, width=32, height=24)
            write_toy_capture(
                shared / "knot",
                lambda g, c: rasterize(g, c).rgb.numpy(),
                gaussians=torus_knot(300),
                cameras=cameras,
            )
            os._exit(0)
        os.waitpid(pid, 0)
    for kind in RUNS:
        run = shared / kind
        if not digest(run) or not (shared / f"{kind}.seconds").exists():
            shutil.rmtree(run, ignore_errors=True)
            started = time.monotonic()
            child = start(train_arguments(kind, shared, run), shared / f"{kind}.txt")
            if child.wait():
                raise RuntimeError(f"the undisturbed run failed: {child.text()}")
            (shared / f"{kind}.seconds").write_text(str(time.monotonic() - started))


def duration(shared: Path, kind: str) -> float:
    """Seconds of the undisturbed run."""
    return float((shared / f"{kind}.seconds").read_text())
