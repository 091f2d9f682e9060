"""Small finished runs, and the commands that read one, for the parts that change what a command reads."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

import luxel.viewer.commands.inspect
import luxel.viewer.web.opening
from luxel.render.errors import LuxelError
from luxel.render.raster.rasterize import rasterize
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot, write_toy_capture

from .processes import Child, start

HANG, MEMORY = 60.0, 3 << 30  # seconds; bytes of address space beyond those of the idle process
TRAIN = {
    "splats": "knot --steps 6 --eval-every 0 --no-lpips --save-renders 0 --checkpoints.every 3 --device cpu",
    "image": "landscape --field image --steps 4 --batch 64 --log2-entries 6 --max-size 24 --checkpoint-every 2 "
    "--device cpu",
}
COMMANDS = {
    "splats": ("resume", "eval", "export", "open"),
    "image": ("resume", "eval", "open"),
}


def prepare_runs(work: Path) -> None:
    """Writes a capture and trains the runs, each in a process of its own."""
    torch.set_num_threads(1)
    shared = work / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    if not (shared / "knot").exists():
        pid = os.fork()
        if pid == 0:
            cameras = ring_cameras(6, width=24, height=20)
            knot = torus_knot(60)
            write_toy_capture(
                shared / "knot", lambda g, c: rasterize(g, c).rgb.numpy(), gaussians=knot, cameras=cameras
            )
            os._exit(0)
        os.waitpid(pid, 0)
    for name, words in TRAIN.items():
        if not (shared / name).exists():
            arguments = [str(shared / "knot") if word == "knot" else word for word in words.split()]
            child = start(["train", *arguments, "--run", str(shared / name)], shared / f"{name}.txt")
            if child.wait():
                raise RuntimeError(f"the undisturbed run failed: {child.text()}")


def use(
    command: str, kind: str, run: Path, folder: Path, before: Callable[[], object] = lambda: None
) -> Child:
    """Starts a command on a run, with bounded memory.

    Args:
        command: one of `COMMANDS`.
        kind: of the run, a key of `TRAIN`.
        run: its folder.
        folder: for what is written.
        before: called in the new process first.
    """
    longer = ["--steps", "7"]
    arguments = {
        "resume": ["train", "--resume", str(run), "--device", "cpu", *longer],
        "eval": ["eval", str(run), "--device", "cpu", "--out", str(folder / "report")],
        "export": ["export", str(run), "--out", str(folder / "out.ply")],
        "open": ["view", str(run)],
    }[command]
    return start(arguments, folder / "output.txt", partial(_enter, command, run, before))


def _enter(command: str, run: Path, before: Callable[[], object]) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    before()
    if command == "open":  # what `luxel view` does before it serves the page
        try:
            session = luxel.viewer.web.opening.open_session(run, torch.device("cpu"), "luxel", None)
            session.status()
            status = 0
        except LuxelError as error:
            print(f"luxel: {error.problem}", file=sys.stderr)
            status = 2
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def copied(shared: Path, kind: str, folder: Path) -> Path:
    """A copy of a run."""
    return Path(shutil.copytree(shared / kind, folder / "run"))


def judge(child: Child) -> tuple[str, bool]:
    """How a command ended, and whether it may end so: with success, or with status 2 and a message."""
    started = time.monotonic()
    try:
        child.wait(HANG)
    except TimeoutError:
        return f"no end after {time.monotonic() - started:.0f} s", False
    if child.crashed:
        return "traceback", False
    if child.status == 0:
        return "used", True
    if child.status == 2 and "luxel:" in child.text():
        return "refused", True
    return f"status {child.status}", False
