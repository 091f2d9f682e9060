"""What the tensors of a checkpoint of primitives must be, compared before anything is restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from luxel.render.primitives.parameters import Parameters
from luxel.render.runs.checkpoint import Checkpoint, CheckpointError
from luxel.render.runs.tensor_schema import (
    FLOATS,
    TensorSchema,
    like,
    require_generator,
    require_tensors,
    wrong_tensor,
)
from luxel.render.train.densify.situation import finite
from luxel.render.train.divergence import MOST_REMOVED
from luxel.render.train.views.exposure import SHARED, TABLES, WIDTHS


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
    if int((~finite(scene)).sum()) > MOST_REMOVED * scene.count:
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
