"""The state of a training run of primitives: what a checkpoint holds, and how a run continues from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from torch import Tensor

from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.parameters import Parameters
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError
from luxel.render.runs.checkpoints.resume import say_other_instructions
from luxel.render.runs.checkpoints.tensor_schema import (
    FLOATS,
    TensorSchema,
    like,
    require_generator,
    require_tensors,
    wrong_tensor,
)
from luxel.render.runs.identity import views_digest
from luxel.render.train.densify.situation import finite
from luxel.render.train.monitor.divergence import MAX_REMOVED
from luxel.render.train.store.stores import restored_store
from luxel.render.train.views.exposure import SHARED, TABLES, WIDTHS

MAX_STEPS, MAX_SECONDS, MAX_HALVINGS, MAX_DEGREE = 10**12, 1e12, 32, 3
Decibels = Annotated[float, msgspec.Meta(ge=-1e4, le=1e4)]


class State(msgspec.Struct):
    """The entries of a checkpoint's state, alongside its tensors."""

    config: dict[str, Any]
    adam_steps: Annotated[int, msgspec.Meta(ge=0, le=MAX_STEPS)]
    train_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
    psnr: Decibels | None
    train_views: list[str]
    test_psnr: Decibels | None = None
    halvings: Annotated[int, msgspec.Meta(ge=0, le=MAX_HALVINGS)] | None = None
    sh_degree: Annotated[int, msgspec.Meta(ge=0, le=MAX_DEGREE)] = 0


def state_of(run: Any) -> Checkpoint:
    """The complete state of a `luxel.render.train.Trainer` of which the device has finished all steps."""
    tensors = run.store.tensors() | {"generator": run.generator.get_state()}
    tensors["statistics"] = run.densifier.statistics.data
    if run.auxiliary is not None:
        tensors |= run.auxiliary.tensors(run.store)
    tensors |= run.models.tensors()
    state = {
        "config": run.config.to_dict(),
        "adam_steps": run.store.steps,
        "train_seconds": run.train_seconds,
        "psnr": run.monitor.psnr,
        "test_psnr": run.test_psnr,
        "halvings": run.halvings,
        "sh_degree": run.timeline.at(run.steps_done).sh_degree,
        "train_views": [view.name for view in run.train_views],
    }
    return Checkpoint(run.steps_done, tensors, state)


def restore(run: Any, start: Checkpoint) -> None:
    """Gives a `luxel.render.train.Trainer` the primitives, moments, statistics and counters of a checkpoint."""
    tensors = {name: t.to(run.device) for name, t in start.tensors.items() if name != "generator"}
    parameters = PRIMITIVES[run.config.primitive].engine.parameters
    run.take(restored_store(tensors, start.state["adam_steps"], parameters, run.config))
    run.densifier.statistics.data.copy_(tensors["statistics"])
    if run.auxiliary is not None:
        run.auxiliary.restore(tensors, run.store)
    run.models.restore(tensors)
    if start.tensors["generator"].numel() == run.generator.get_state().numel():
        run.generator.set_state(start.tensors["generator"])
    else:
        run.say("Resumed on a different device type; random state was reset.")
    say_other_instructions(start, run.device, run.say)
    run.loop.steps_done, run.loop.train_seconds = start.step, float(start.state["train_seconds"])
    run.monitor.psnr = start.state["psnr"]
    run.halvings = start.state.get("halvings")
    run.reached_sh_degree = start.state.get("sh_degree", 0)
    run.folder.trim_log(start.step)


def write_config(run: Any, about: dict[str, Any]) -> None:
    """Writes the config.json of a `luxel.render.train.Trainer`.

    Args:
        about: entries next to those that every run has.
    """
    names = {"train": [v.name for v in run.train_views], "test": [v.name for v in run.test_views]}
    own = {"seed": run.config.seed, "device": str(run.device), "extent": run.extent, "views": names}
    about = {"background": run.background, **about}
    run.folder.write_config(run.config, {**own, **about}, views_digest(run.train_views))


def require_primitives(checkpoint: Checkpoint, kind: type[Parameters]) -> Parameters:
    """The primitives of a checkpoint, checked.

    Args:
        kind: their class.

    Raises:
        CheckpointError: a parameter is missing, or has another type or shape.
    """
    named: dict[str, Tensor] = {}
    for name in kind.names:
        stored = f"gaussians.{name}"  # whatever the primitive
        tensor = checkpoint.tensors.get(stored)
        if tensor is None:
            raise wrong_tensor(stored, "is missing")
        require_tensors(checkpoint.tensors, {stored: TensorSchema((None,) * tensor.dim())})
        named[name] = tensor
    if len({tensor.dtype for tensor in named.values()}) > 1:
        raise CheckpointError(
            "its tensors gaussians.* are of different types.", "Resume from another, or start a new run."
        )
    try:
        return kind(**named)
    except (ValueError, IndexError) as error:
        raise wrong_tensor("gaussians.*", f"do not fit together: {error}") from error


def require_trainer_tensors(checkpoint: Checkpoint, kind: type[Parameters]) -> None:
    """Checks all tensors that a `luxel.render.train.Trainer` restores.

    Args:
        checkpoint: with a state of type `luxel.render.train.state.State`.
        kind: class of the primitives.

    Raises:
        CheckpointError: one is missing or cannot be restored; the message names it.
    """
    scene = require_primitives(checkpoint, kind)
    if scene.count == 0:
        raise wrong_tensor("gaussians.opacity_logits", "holds no primitives")
    if int((~finite(scene)).sum()) > MAX_REMOVED * scene.count:
        raise wrong_tensor("gaussians.*", "hold numbers that are not finite")
    schema = {"statistics": TensorSchema((scene.count, 4))}
    for name, tensor in scene.tensors().items():
        schema[f"exp_avg.{name}"] = like(tensor)
        schema[f"exp_avg_sq.{name}"] = like(tensor, positive=True)
    views = len(checkpoint.state["train_views"])
    require_tensors(checkpoint.tensors, schema | _of_views(checkpoint.state["config"], views))
    require_generator(checkpoint.tensors)


def _of_views(config: Mapping[str, Any], views: int) -> dict[str, TensorSchema]:
    """The tables of what is learnt of the training views, as the configuration in the checkpoint asks for them."""
    sizes: dict[str, tuple[int | None, int]] = {}
    exposure = config.get("exposure")
    if isinstance(exposure, str) and exposure in TABLES:
        sizes[TABLES[exposure]] = views, WIDTHS[exposure]
        if exposure == "camera":
            sizes["exposure.cameras"] = None, SHARED
    if config.get("refine_poses") is True:
        sizes["poses"] = views, 6
    if config.get("rolling_shutter") is True:
        sizes["shutters"] = views, 6
    schema = {}
    for name, shape in sizes.items():
        for moment in ("values", "exp_avg", "exp_avg_sq"):
            schema[f"{name}.{moment}"] = TensorSchema(shape, FLOATS, True, moment == "exp_avg_sq")
    return schema
