"""What the tensors of a checkpoint of a neural field must be, compared before anything is restored."""

from __future__ import annotations

from luxel.render.fields.application import Application
from luxel.render.runs.checkpoint import Checkpoint
from luxel.render.runs.tensor_schema import (
    FLOATS,
    TensorSchema,
    like,
    require_generator,
    require_tensors,
)

OF_DATA = ("auxiliary", "auxiliary_exp_avg", "auxiliary_exp_avg_sq")  # prefixes; known once data are there


def require_field_tensors(checkpoint: Checkpoint, application: Application) -> None:
    """Checks all tensors that a `luxel.render.fields.training.FieldTrainer` restores.

    Args:
        application: of the configuration of the run, with any parameters.

    Raises:
        CheckpointError: one is missing or cannot be restored; the message names it.
    """
    tensors = checkpoint.tensors
    parameters = {name: p.detach() for name, p in application.named_parameters()}
    schema = {
        f"field.{name}": like(t, finite=name in parameters) for name, t in application.state_dict().items()
    }
    for name, parameter in parameters.items():
        schema[f"moved.{name}"] = like(parameter, finite=True)
        schema[f"exp_avg.{name}"] = like(parameter)
        schema[f"exp_avg_sq.{name}"] = like(parameter, positive=True)
    for name, tensor in tensors.items():
        if name.partition(".")[0] in OF_DATA:
            schema[name] = TensorSchema((None,) * tensor.dim(), FLOATS, True)
    require_tensors(tensors, schema)
    require_generator(tensors)
