"""The state of a training run of primitives: what a checkpoint holds, and how a run continues from one."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from luxel.render.primitives import PRIMITIVES
from luxel.render.runs.checkpoint import Checkpoint
from luxel.render.runs.identity import views_digest
from luxel.render.runs.resume import say_other_instructions
from luxel.render.train.optimizer import Optimizer

MAX_STEPS, MAX_SECONDS, MAX_HALVINGS = 10**12, 1e12, 32
Decibels = Annotated[float, msgspec.Meta(ge=-1e4, le=1e4)]


class State(msgspec.Struct):
    """The entries of a checkpoint's state, beside its tensors."""

    config: dict[str, Any]
    adam_steps: Annotated[int, msgspec.Meta(ge=0, le=MAX_STEPS)]
    train_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
    psnr: Decibels | None
    train_views: list[str]
    test_psnr: Decibels | None = None
    halvings: Annotated[int, msgspec.Meta(ge=0, le=MAX_HALVINGS)] | None = None


def state_of(run: Any) -> Checkpoint:
    """The complete state of a `luxel.render.train.Trainer` of which the device has finished all steps."""
    tensors = run.optimizer.tensors() | {"generator": run.generator.get_state()}
    tensors["statistics"] = run.densifier.statistics.data
    if run.auxiliary is not None:
        tensors |= run.auxiliary.tensors(run.optimizer)
    tensors |= run.models.tensors()
    state = {
        "config": run.config.to_dict(),
        "adam_steps": run.optimizer.steps,
        "train_seconds": run.train_seconds,
        "psnr": run.monitor.psnr,
        "test_psnr": run.test_psnr,
        "halvings": run.halvings,
        "train_views": [view.name for view in run.train_views],
    }
    return Checkpoint(run.steps_done, tensors, state)


def restore(run: Any, start: Checkpoint) -> None:
    """Gives a `luxel.render.train.Trainer` the primitives, moments, statistics and counters of a checkpoint."""
    tensors = {name: t.to(run.device) for name, t in start.tensors.items() if name != "generator"}
    parameters = PRIMITIVES[run.config.primitive].engine.parameters
    run.take(Optimizer.from_tensors(tensors, start.state["adam_steps"], parameters))
    run.densifier.statistics.data.copy_(tensors["statistics"])
    if run.auxiliary is not None:
        run.auxiliary.restore(tensors, run.optimizer)
    run.models.restore(tensors)
    if start.tensors["generator"].numel() == run.generator.get_state().numel():
        run.generator.set_state(start.tensors["generator"])
    else:
        run.say("Resumed on a different device type; random state was reset.")
    say_other_instructions(start, run.device, run.say)
    run.loop.steps_done, run.loop.train_seconds = start.step, float(start.state["train_seconds"])
    run.monitor.psnr = start.state["psnr"]
    run.halvings = start.state.get("halvings")
    run.folder.trim_log(start.step)


def write_config(run: Any, about: dict[str, Any]) -> None:
    """Writes the config.json of a `luxel.render.train.Trainer`.

    Args:
        about: entries beside those that every run has.
    """
    names = {"train": [v.name for v in run.train_views], "test": [v.name for v in run.test_views]}
    own = {"seed": run.config.seed, "device": str(run.device), "extent": run.extent, "views": names}
    about = {"background": run.background, **about}
    run.folder.write_config(run.config, {**own, **about}, views_digest(run.train_views))
