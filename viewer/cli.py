"""The `luxel` command: finds the command by name, reads its options with tyro, prints errors without tracebacks."""

from __future__ import annotations

import difflib
import gc
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any

from luxel.viewer.commands import warm_start
from luxel.viewer.process.signals import exit_status, line_about
from luxel.viewer.web.access.free_memory import limit_heaps

COMMANDS = {
    "train": ("Train", "Trains a scene on photographs, a COLMAP model or a posed data set."),
    "inspect": ("Inspect", "Checks a capture before training: poses, sharpness, exposure, masks."),
    "view": ("ViewScene", "Shows a run or a scene file in the browser."),
    "eval": ("Eval", "Evaluates a run on its held-out views: PSNR, SSIM, LPIPS, a report."),
    "render": ("Render", "Renders a camera path to an MP4 video or PNG files."),
    "export": ("Export", "Writes a scene in another format or as a mesh."),
    "segment": ("Segment", "Labels the objects of a run from clicks, boxes or masks."),
    "bench": ("Bench", "Measures speed and quality on this machine, alone or against gsplat."),
    "demo": ("Demo", "Trains and shows the packaged capture; a minute, no download."),
    "doctor": ("Doctor", "Checks the installation and says how to fix what is missing."),
}
SERVING = ("train", "view", "demo")  # commands whose process may serve the viewer
# Commands that need torch whatever is asked of them.
COMPUTING = (*SERVING, "eval", "render", "segment", "inspect")
BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: as after `luxel` on the command line; None: those of this process.

    Returns:
        The exit status: 0 done, 1 a check of `doctor`, a part of a benchmark or saving a run failed, 2 bad input or
        usage, 130, 143 or 129 ended by SIGINT (Ctrl-C), SIGTERM or SIGHUP.
    """
    # Read when torch is imported. Threads that spin at the end of a parallel loop take the CPU from everything else
    # that runs, such as the renders of the viewer.
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
        return _complain(f"there is no command {name!r}.", hint)
    if name in SERVING:  # at once: threads that have a heap already keep it
        limit_heaps()
    if name in COMPUTING:
        warm_start.begin(rest)
    return run_guarded(name, rest)


def run_guarded(name: str, arguments: Sequence[str]) -> int:
    """Runs a command by name; a LuxelError becomes one message on stderr."""
    from luxel.render.errors import LuxelError
    from luxel.render.runs.notices import forget_printed

    forget_printed()
    try:
        command = parse(name, arguments)
        if name in COMPUTING:
            _import_torch()
        return command.execute()
    except LuxelError as error:
        return _complain(error.problem, error.remedy)
    except KeyboardInterrupt as error:
        print(line_about(error), file=sys.stderr)
        return exit_status(error)
    except BrokenPipeError:  # `luxel eval ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as end:  # tyro: 0 after --help, 2 after a wrong option
        if end.code == BAD_INPUT:
            from luxel.viewer.commands.option_aliases import names_here

            for line in names_here(name, arguments):
                print(line, file=sys.stderr)
        return end.code if isinstance(end.code, int) else BAD_INPUT if end.code else 0
    except Exception as error:
        from luxel.render.runs.memory import is_out_of_memory, where_memory_ran_out

        if is_out_of_memory(error):
            where = where_memory_ran_out(error)
            return _complain(f"{where} ran out of memory.", _memory_remedy(name, arguments))
        if isinstance(error, ImportError) and not (error.name or "").startswith("luxel"):
            return _complain(
                f"a package cannot be imported ({error}).",
                "`luxel doctor` says what is missing; where memory is limited (ulimit -v), allow more.",
            )
        if not isinstance(error, OSError) or error.filename is None:
            raise
        return _complain(
            f"{error.filename}: {error.strerror}.", _OS_REMEDY.get(type(error), "Check that path.")
        )


def _import_torch() -> None:
    """Imports torch without looking for garbage meanwhile, of which its 200,000 objects hold none: a tenth sooner.

    Later searches pass over these objects.
    """
    if "torch" in sys.modules:
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module("torch")
    except ImportError:  # the command says what is missing
        return
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


_OS_REMEDY = {
    FileNotFoundError: "Check the spelling of the path.",
    PermissionError: "Give a path that you may read and write.",
    IsADirectoryError: "Give a file, not a folder.",
    NotADirectoryError: "Give a folder, not a file.",
}


_MEMORY_REMEDY = {
    "train": "Use smaller images (--max-size 1200), fewer Gaussians (--max-gaussians 500000) or fewer views per step "
    "(--batch 1).",
    "eval": "Use smaller images (--max-size 1200), or a device with more memory (--device cpu).",
    "render": "Use smaller images (--width 1280), or a device with more memory (--device cpu).",
    "export": "End other programs; with --mesh, use fewer cells (--resolution 128).",
    "bench": "Measure smaller images or scenes; `luxel bench --help` and the help of its subcommands list the options.",
}


def _memory_remedy(name: str, arguments: Sequence[str]) -> str:
    """What helps against a lack of memory, in the options of a command."""
    from luxel.viewer.commands.train_field import TrainField

    if name == "train" and TrainField.is_meant(arguments):
        return "Use fewer samples per step (--batch 65536) or smaller tables (--log2-entries 17)."
    return _MEMORY_REMEDY.get(name, "End other programs, or use a device with more memory (--device cpu).")


def parse(name: str, arguments: Sequence[str]) -> Any:
    """The command with its options, which are within their bounds.

    Raises:
        LuxelError: an option is empty or out of bounds, or a path cannot be one; the message names it.
        SystemExit: help was asked for, or there is no such option.
    """
    import tyro

    from luxel.render.bounds import check_all, unchecked
    from luxel.viewer.help_texts import description, join_option_lines
    from luxel.viewer.options import option_name, prepare_paths, refuse_empty
    from luxel.viewer.process.streams import rendered_outputs

    refuse_empty(arguments)
    command: Any = getattr(importlib.import_module(f"luxel.viewer.commands.{name}"), COMMANDS[name][0])
    if hasattr(command, "variant"):  # a command whose options depend on what it is used for
        command = command.variant(arguments)
    options: dict[str, Any] = {
        "prog": f"luxel {name}",
        "args": list(arguments),
        "description": description(command),
    }
    if {"-h", "--help"} & set(arguments):
        join_option_lines(command)
    if hasattr(command, "defaults"):  # for example the options of a run that is resumed
        options["default"] = command.defaults(options["args"])
    with unchecked(), rendered_outputs():
        made = tyro.cli(command, **options)
    prepare_paths(made)
    check_all(made, naming=option_name)
    return made


def _complain(problem: str, remedy: str) -> int:
    """Prints a problem and its remedy to stderr; returns the exit status."""
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
        f"luxel {_version()}: 3D scenes and neural fields from photographs",
        "",
        "usage: luxel COMMAND [OPTIONS]     (luxel COMMAND --help lists its options)",
        "",
    ]
    lines += [f"  {name:<8} {text}" for name, (_, text) in COMMANDS.items()]
    lines += [
        "",
        "To start:",
        "  luxel demo                             a first scene, without data of your own",
        "  luxel train photos/ --view             trains on photographs, with a viewer",
        "  luxel train photos/ --run runs/first   trains into a folder that you choose",
        "  luxel train photo.jpg --field image    trains a neural field of an image",
        "  luxel view runs/first                  opens it in the browser",
        "  luxel render runs/first --out tour.mp4",
        "",
        "Exit status: 0 done, 1 a check failed, 2 wrong input or usage, 130 interrupted.",
    ]
    return "\n".join(lines)
