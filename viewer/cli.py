"""The `luxel` command: finds the command by name, reads its options with tyro, and speaks plainly of errors."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Any

COMMANDS = {
    "train": ("Train", "Trains a scene from a capture: photos, a COLMAP model, or a posed data set."),
    "view": ("ViewScene", "Shows a run or a scene file in the browser."),
    "eval": ("Eval", "Measures a run on its held-out views; table, JSON and a page of pictures."),
    "render": ("Render", "Renders a camera path to an MP4 or a folder of PNG files."),
    "export": ("Export", "Writes a scene as another format, a mesh, or moment by moment."),
    "bench": ("Bench", "Measures the rasterizer or training on this machine, alone or against gsplat."),
    "demo": ("Demo", "Trains the packaged tankard in about a minute and shows it; needs nothing else."),
    "doctor": ("Doctor", "Says what is installed, which backend runs, and what is missing."),
}
BAD_INPUT, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: as after `luxel` on the command line; None: those of this process.

    Returns:
        The exit status: 0 done, 1 done and something is wrong (doctor), 2 bad input or usage, 130 interrupted.
    """
    # Read when torch is imported. Threads that spin at the end of a parallel loop lose most of a CPU to each other as
    # soon as anything else runs, a viewer's render for one: 5 to 10 times fewer steps were seen.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if given else BAD_INPUT
    if given[0] in ("-V", "--version"):
        print(f"luxel {_version()}")
        return 0
    name, rest = given[0], given[1:]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean `luxel {near[0]}`?" if near else "`luxel --help` lists the commands."
        return _complain(f"{name!r} is no command of luxel.", hint)
    return run_guarded(name, rest)


def run_guarded(name: str, arguments: Sequence[str]) -> int:
    """Runs a command by name; errors a person can act on become one message on stderr."""
    from luxel.render.errors import LuxelError

    try:
        return _run(name, arguments)
    except LuxelError as error:
        return _complain(error.problem, error.remedy)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `luxel eval ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as end:  # tyro: 0 after --help, 2 after a wrong option
        return end.code if isinstance(end.code, int) else BAD_INPUT if end.code else 0
    except OSError as error:
        if error.filename is None:
            raise
        return _complain(
            f"{error.filename}: {error.strerror}.", _OS_REMEDY.get(type(error), "Check that path.")
        )
    except (MemoryError, RuntimeError) as error:
        if type(error).__name__ != "OutOfMemoryError" and not (
            isinstance(error, MemoryError) or "can't allocate memory" in str(error)
        ):
            raise
        where = "The GPU" if type(error).__name__ == "OutOfMemoryError" else "This machine"
        return _complain(
            f"{where} ran out of memory.",
            "Use smaller images (--max-size 1200) or fewer Gaussians (--max-gaussians 500000).",
        )


_OS_REMEDY = {
    FileNotFoundError: "Check the spelling of the path.",
    PermissionError: "Give a path that you may read and write.",
    IsADirectoryError: "Give a file, not a folder.",
    NotADirectoryError: "Give a folder, not a file.",
}


def _run(name: str, arguments: Sequence[str]) -> int:
    import tyro

    kind: Any = getattr(importlib.import_module(f"luxel.viewer.commands.{name}"), COMMANDS[name][0])
    if hasattr(kind, "variant"):  # one command for several kinds of things, each with options of its own
        kind = kind.variant(arguments)
    options: dict[str, Any] = {
        "prog": f"luxel {name}",
        "args": list(arguments),
        "description": inspect.getdoc(kind),
    }
    if hasattr(kind, "defaults"):  # a run that is resumed brings the values of its options
        options["default"] = kind.defaults(options["args"])
    return tyro.cli(kind, **options).execute()


def _complain(problem: str, remedy: str) -> int:
    """One message, one remedy, no traceback."""
    print(f"luxel: {problem.rstrip()}", file=sys.stderr)
    if remedy:
        print(f"  {remedy.strip()}", file=sys.stderr)
    return BAD_INPUT


def _version() -> str:
    try:
        return importlib.metadata.version("luxel")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _overview() -> str:
    lines = [
        f"luxel {_version()}: turns photographs into a scene that you look at in the browser.",
        "",
        "usage: luxel COMMAND [OPTIONS]          luxel COMMAND --help explains each",
        "",
    ]
    lines += [f"  {name:<8} {text}" for name, (_, text) in COMMANDS.items()]
    lines += [
        "",
        "To start:",
        "  luxel demo                            nothing else is needed",
        "  luxel train my-photos/ --view         a folder of photographs, watched while it trains",
        "  luxel train my-photos/ --steps 7000 --run runs/first",
        "  luxel train photo.jpg --field image   a neural field of an image, a mesh, a volume or a capture",
        "  luxel eval runs/first                 how good it is, as numbers and as a page",
        "  luxel render runs/first --out tour.mp4",
        "",
        "Scenes are served on this machine only. Errors end with status 2 and say what to do.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
