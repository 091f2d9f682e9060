"""The process in which COLMAP works; see `luxel.scenes.captures.colmap_process.launch`, which starts it."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.launch import REQUEST, RESULT, SETTINGS
from luxel.scenes.errors import CaptureError

PACKAGE = "luxel.scenes.captures.colmap_process"
TASKS = {
    "reconstruct": f"{PACKAGE}.reconstruction",
    "triangulate": f"{PACKAGE}.triangulation",
    "refine_poses": f"{PACKAGE}.pose_adjustment",
    "map_panoramas": f"{PACKAGE}.panorama_mapping",
}  # module that has a function of the same name
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Runs the task that standard input names; standard output gets events as lines of JSON."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent has them too, and decides
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what COLMAP prints is no event

    def send(**event: Any) -> None:
        events.write(json.dumps(event).encode() + b"\n")
        events.flush()

    request = json.loads(sys.stdin.buffer.readline())
    _end_with(request["parent"])
    try:
        for name in SETTINGS:
            setattr(features, name, request["settings"][name])
        folder = Path(request["folder"])
        with np.load(folder / REQUEST, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        task = getattr(importlib.import_module(TASKS[request["task"]]), request["task"])
        result = task(
            folder,
            lambda stage, fraction: send(progress=stage, fraction=float(fraction)),
            **request["arguments"],
            **arrays,
        )
        with open(folder / RESULT, "wb") as file:
            np.savez(file, allow_pickle=False, **result)
        send(done=True)
    except CaptureError as error:
        send(problem=error.problem, remedy=error.remedy)
    except Exception as error:
        send(failure=f"{type(error).__name__}: {' '.join(str(error).split())}"[:400])


def _end_with(parent: int) -> None:
    """This process ends with its parent, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="luxel-parent", daemon=True).start()


if __name__ == "__main__":
    main()
