"""Parameters that stop being numbers while a run trains: removed where they are few, else the run ends."""

from __future__ import annotations

from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.primitives.non_finite import non_finite
from luxel.render.train.densify.situation import finite

MAX_REMOVED = 0.01  # largest share of the primitives that is removed at once


def check_parameters(run: Any) -> None:
    """Removes primitives with a parameter that is not finite, and says so; called where the host waits anyway.

    It comes before each change of the set of primitives, each evaluation and each checkpoint: none of them holds such
    primitives, and the newest checkpoint of a run that ends here is the last good one.

    Args:
        run: a `luxel.render.train.Trainer` of which the device has finished all steps.

    Raises:
        LuxelError: more than a hundredth of the primitives is not finite.
    """
    scene = run.store.scene
    if bool(finite(scene).all()) or (broken := non_finite(scene)) is None:
        return
    said, step = broken.in_words(scene), run.steps_done
    if broken.count > MAX_REMOVED * scene.count:
        raise LuxelError(
            f"Training diverged by step {step}: {said}.",
            f"Lower the learning rates. {_remedy(run)}",
        )
    run.say(f"Step {step}: {said}; they are removed.")
    run.folder.log({"step": step, "non_finite": broken.counts})
    run.densifier.select(~broken.rows)


def check_loss(run: Any) -> None:
    """Removes primitives that are not finite after a loss that is not, once until a loss is finite again.

    Raises:
        LuxelError: no loss was finite since the last call.
    """
    run.monitor.recover(run.steps_done, f"Lower the learning rates. {_remedy(run)}")
    run.say(f"The loss is {run.monitor.loss} at step {run.steps_done}: non-finite rows are removed.")
    run.densifier.remove_non_finite()


def _remedy(run: Any) -> str:
    """What can be done with the checkpoints of a run that has diverged."""
    if any(run.folder.checkpoints.glob("step-*.json")):
        return f"The last checkpoint is from before: luxel train --resume {run.folder.path}"
    return "There is no checkpoint from before: start a new run."
