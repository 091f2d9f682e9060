"""Runs commands of luxel that come as lines of JSON, each in a fork of this process; see `Commands`.

A file of its own: it runs with the interpreter whose luxel is meant, where this package is not.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import runpy
import signal
import sys
import time
import traceback
from typing import Any

CRASHED = 70
COMMANDS = ("train", "eval", "export", "render", "inspect", "segment", "view")


def serve(library: str) -> None:
    """Answers each line of standard input by one with the exit status."""
    main = importlib.import_module("luxel.viewer.cli").main
    for name in COMMANDS:
        importlib.import_module(f"luxel.viewer.commands.{name}")
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(request, library, main)
        print(json.dumps({"status": wait(pid, request["seconds"], request["interrupt"])}), flush=True)


def wait(pid: int, seconds: float, interrupt: str | None) -> int:
    """The exit status of a child, which is killed after some seconds, and interrupted when a file is there."""
    end = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if interrupt is not None and os.path.exists(interrupt):
            interrupt = os.kill(pid, signal.SIGINT)
        if time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.003)


def run(request: dict[str, Any], library: str, main: Any) -> None:
    """Runs one command in this process, and ends it."""
    status = CRASHED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.update(request["environment"])
        file = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        if request["record"]:
            os.environ["LUXEL_RECORDER_LOG"] = request["record"]
            os.environ["LUXEL_RECORDER_ROOTS"] = "\n".join(request["roots"])
            start = ctypes.CDLL(library).recorder_start
            if not start(os.fsencode(request["record"]), os.fsencode("\n".join(request["roots"]))):
                raise OSError("the recorder cannot write its record")
        sys.stdout, sys.stderr = open(1, "w", 1, closefd=False), open(2, "w", 1, closefd=False)  # noqa: SIM115
        status = command(request["arguments"], main)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        with contextlib.suppress(Exception):
            import atexit

            atexit._run_exitfuncs()
        os._exit(status)


def command(arguments: list[str], main: Any) -> int:
    """Runs a command of luxel, or with "python" first a file."""
    if arguments[0] == "python":
        sys.argv = arguments[1:]
        runpy.run_path(arguments[1], run_name="__main__")
        return 0
    sys.argv = ["luxel", *arguments]
    return main(arguments)


if __name__ == "__main__":
    serve(sys.argv[1])
