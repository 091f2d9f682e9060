"""Stage: Adam on what is learnt of the views of a step."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

MAX_DIRECTIONS = 8

define(
    "view_adam_(Tensor(a!) values, Tensor(b!) first, Tensor(c!) second, Tensor? common, Tensor views, "
    "Tensor gradients, Tensor schedule, Tensor skip, float beta1, float beta2, float eps, Tensor? centre, "
    "float penalty) -> ()"
)


def view_adam_(
    values: Tensor,
    first: Tensor,
    second: Tensor,
    common: Tensor | None,
    views: Tensor,
    gradients: Tensor,
    schedule: Tensor,
    skip: Tensor,
    *,
    betas: tuple[float, float],
    eps: float,
    centre: Tensor | None = None,
    penalty: float = 0.0,
) -> None:
    """One step of Adam, in place, on the rows of a table that a step saw; then what all views share is taken out.

    See `luxel.render.reference.train.view_models.view_adam_reference`.

    Args:
        values, first, second: parameters and moments of all views, float32 [V, P], contiguous.
        common: orthonormal directions of the space of all values that are taken out, float32 [V P, at most 8]; None:
            the mean over the views of each parameter.
        views: of the step, int64 [B]; the gradients of one that is there twice are added.
        gradients: float32 [B, P].
        schedule: step size and divisor of the second moment, float32 [2].
        skip: int32 [1]; where it is not 0 nothing changes.
        betas, eps: of Adam.
        centre: where the penalty is 0, float32 [V, P]; None: at 0.
        penalty: times the distance of the values from there is added to their gradients.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    torch.ops.luxel.view_adam_(
        values, first, second, common, views, gradients, schedule, skip, *betas, eps, centre, penalty
    )


def _run(
    values: Tensor,
    first: Tensor,
    second: Tensor,
    common: Tensor | None,
    views: Tensor,
    gradients: Tensor,
    schedule: Tensor,
    skip: Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    centre: Tensor | None,
    penalty: float,
) -> None:
    if values.dim() != 2 or not all(t.is_contiguous() for t in (values, first, second)):
        raise ValueError(
            f"view_adam: values, first and second must be [V, P], contiguous, got {list(values.shape)}"
        )
    count, width = values.shape
    directions = 0 if common is None else common.shape[-1]
    if directions > MAX_DIRECTIONS:
        raise ValueError(f"view_adam: common must have at most {MAX_DIRECTIONS} columns, got {directions}")
    real = torch.float32
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "values": (values, real, (count, width)),
        "first": (first, real, (count, width)),
        "second": (second, real, (count, width)),
        "common": (common, real, (count * width, directions)),
        "centre": (centre, real, (count, width)),
        "views": (views, torch.int64, (len(views),)),
        "gradients": (gradients, real, (len(views), width)),
        "schedule": (schedule, real, (2,)),
        "skip": (skip, torch.int32, (1,)),
    }
    require("view_adam", values.device, expected)
    common = None if common is None else common.contiguous()
    library_for(values.device).call(
        "view_adam",
        values.device,
        real,
        values=values,
        first=first,
        second=second,
        common=values
        if common is not None and not directions
        else common,  # no directions: any address but none
        centre=None if centre is None else centre.contiguous(),
        of_step=views.contiguous(),
        gradients=gradients.contiguous(),
        schedule=schedule.contiguous(),
        skip=skip,
        views=count,
        width=width,
        directions=directions,
        views_of_step=len(views),
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        penalty=penalty,
    )


register_implementation("view_adam_", _run, lambda *_: None)
