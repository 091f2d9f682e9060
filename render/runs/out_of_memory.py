"""The end of a run that memory ran out of: what is saved, and how to continue with less."""

from __future__ import annotations

import contextlib
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints.checkpoint import available


def save_what_is_possible(run: Any) -> None:
    """Tries to write a checkpoint of a run after memory ran out; a failure is reported, and nothing is raised."""
    try:
        run.synchronize()
        run.loop.final_checkpoint(run)
    except Exception as error:
        with contextlib.suppress(Exception):
            run.say(f"The last steps could not be saved ({str(error) or type(error).__name__}).")


def out_of_memory(run: Any, remedy: str) -> LuxelError:
    """The error that ends a run, which names the newest checkpoint.

    Args:
        run: a `luxel.render.runs.loop.Run` with its controls.
        remedy: what needs less memory, a sentence.
    """
    where = "the GPU" if run.device.type == "cuda" else "this machine"
    newest = available(run.folder.checkpoints)
    if not newest:
        return LuxelError(
            f"{run.folder.path}: memory of {where} ran out at step {run.steps_done}, before a checkpoint was saved.",
            remedy,
        )
    step, path = newest[0]
    return LuxelError(
        f"{run.folder.path}: memory of {where} ran out at step {run.steps_done}. The newest checkpoint is of step "
        f"{step}: {path}.",
        f"{remedy} To continue the run: luxel train --resume {run.folder.path}",
    )
