"""The `luxel` script: a command, and the end of its process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn

from luxel.viewer.cli import main

FLUSH_FAILED = 120  # as Python's own end has it


def run() -> NoReturn:
    """Runs the command of this process's arguments and ends the process with its exit status.

    What was to happen at the end happens: threads end their work, the functions of `atexit` run, output is written. The
    objects that torch's import made are not freed one by one, which takes half a second, but by the system at once.
    """
    status = main()
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  # waits, as Python does before it frees
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:  # `luxel ... | head`
        pass
    except OSError:
        status = status or FLUSH_FAILED
    os._exit(status)


if __name__ == "__main__":
    run()
