"""The `luxel` script: a command, and the end of its process."""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn

from luxel.viewer.process import signals


def main() -> int:
    """The command of this process's arguments, see `luxel.viewer.cli.main`."""
    from luxel.viewer.cli import main

    return main()


def run() -> NoReturn:
    """Runs the command of this process's arguments and ends the process with its exit status.

    What was to happen at the end happens: threads end their work, the functions of `atexit` run, output is written. The
    objects that torch's import made are not freed one by one, which takes half a second, but by the system at once.
    A signal ends it without a traceback, whenever it comes.
    """
    status = 0
    try:
        signals.raise_at_signals()
        from luxel.viewer.process import streams

        streams.wrap_outputs(streams.open_standard_descriptors())
        status = main()
    except KeyboardInterrupt as error:
        status = _interrupted(error)
    except Exception:
        number = signals.received()
        if number is None:
            raise
        status = _interrupted(signals.Ended(number))  # an import that a signal broke off
    _end(status)


def _interrupted(error: KeyboardInterrupt) -> int:
    print(signals.line_about(error), file=sys.stderr)
    return signals.exit_status(error)


def _end(status: int) -> NoReturn:
    """Ends the process; a signal no longer waits for threads."""
    import atexit

    from luxel.viewer.process import streams

    try:
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  # waits, as Python does before it frees
        atexit._run_exitfuncs()
    except KeyboardInterrupt as error:
        status = status or signals.exit_status(error)
    signals.ignore_signals()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(streams.LOST if status == 0 and streams.was_lost() else status)


if __name__ == "__main__":
    run()
