"""Adam over all parameter groups in one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

_GROUPS = "Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs"
_OPTIONS = "float beta1, float beta2, float eps, Tensor? visible"
define(f"adam_({_GROUPS}, float[] lrs, int step, {_OPTIONS}) -> ()")
define(f"scheduled_adam_({_GROUPS}, int[] places, Tensor schedule, {_OPTIONS}, Tensor? skip) -> ()")


def adam_schedule(lrs: Sequence[float], step: int, betas: tuple[float, float] = (0.9, 0.999)) -> list[float]:
    """The numbers of a step that a captured Adam reads from the device.

    Args:
        lrs: learning rates.
        step: t, 1 at the first step.
        betas: decay of the two moments, each in [0, 1).

    Returns:
        the learning rates, 1 - beta1^t, 1 - beta2^t.

    Raises:
        ValueError: step < 1.
    """
    if step < 1:
        raise ValueError(f"adam_schedule: step must be at least 1, got {step}")
    return [*lrs, 1 - betas[0] ** step, 1 - betas[1] ** step]


def fused_adam_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    lrs: Sequence[float],
    step: int,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-15,
    visible: Tensor | None = None,
) -> None:
    """One step of Adam in place on every parameter group (Kingma & Ba 2015, algorithm 1).

    Equal to ``torch.optim.Adam`` without weight decay. With ``visible``, primitives that no camera observed retain
    their parameters and moments (as a sparse Adam does).

    Args:
        params: one tensor per group, contiguous, float32 (float64 on the CPU too), each [N, ...].
        grads, exp_avgs, exp_avg_sqs: the same shapes; moments start at 0.
        lrs: learning rate per group.
        step: 1 at the first call; the bias corrections follow from it.
        betas: decay of the two moments, each in [0, 1).
        eps: added to the root of the second moment.
        visible: bool or uint8 [N], the same for all groups; None: all are updated.

    Raises:
        ValueError: shapes, types or devices do not fit, or step < 1.
    """
    if not params:  # no tensor, no backend to dispatch to
        _check((params, grads, exp_avgs, exp_avg_sqs), lrs, step, visible)
        return
    with torch.no_grad():
        torch.ops.luxel.adam_(
            list(params),
            list(grads),
            list(exp_avgs),
            list(exp_avg_sqs),
            list(lrs),
            step,
            *betas,
            eps,
            visible,
        )


def scheduled_adam_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    rate_indices: Sequence[int],
    schedule: Tensor,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-15,
    visible: Tensor | None = None,
    skip: Tensor | None = None,
) -> None:
    """`fused_adam_` with learning rates and step that lie on the device, so that a captured call can be replayed.

    Args:
        params, grads, exp_avgs, exp_avg_sqs, betas, eps, visible: as in `fused_adam_`; at least one group.
        rate_indices: index of each group's learning rate in the schedule.
        schedule: [R + 2], see `adam_schedule`, of the type and on the device of the parameters.
        skip: int32 [1]; where it is not 0 nothing is changed.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    with torch.no_grad():
        torch.ops.luxel.scheduled_adam_(
            list(params),
            list(grads),
            list(exp_avgs),
            list(exp_avg_sqs),
            list(rate_indices),
            schedule,
            *betas,
            eps,
            visible,
            skip,
        )


Groups = tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]]


def _check(groups: Groups, rates: Sequence[float], step: int, visible: Tensor | None) -> None:
    params, grads, exp_avgs, exp_avg_sqs = groups
    counts = [len(params), len(grads), len(exp_avgs), len(exp_avg_sqs), len(rates)]
    if len(set(counts)) > 1:
        raise ValueError(f"adam: params, grads, exp_avgs, exp_avg_sqs and rates differ in length: {counts}")
    if step < 1:
        raise ValueError(f"adam: step must be at least 1, got {step}")
    if not params:
        return
    device, dtype = params[0].device, params[0].dtype
    if dtype not in ((torch.float32, torch.float64) if device.type == "cpu" else (torch.float32,)):
        raise ValueError(f"adam: params must be float32, or float64 on the CPU, got {dtype} on {device}")
    for group, tensors in enumerate(zip(params, grads, exp_avgs, exp_avg_sqs, strict=True)):
        for name, tensor in zip(("params", "grads", "exp_avgs", "exp_avg_sqs"), tensors, strict=True):
            if tensor.shape != tensors[0].shape:
                raise ValueError(
                    f"adam: {name}[{group}] must be {list(tensors[0].shape)} like params[{group}], "
                    f"got {list(tensor.shape)}"
                )
            if tensor.dtype != dtype or tensor.device != device:
                raise ValueError(
                    f"adam: {name}[{group}] must be {dtype} on {device}, "
                    f"got {tensor.dtype} on {tensor.device}"
                )
            if name != "grads" and not tensor.is_contiguous():
                raise ValueError(f"adam: {name}[{group}] is updated in place and must be contiguous")
        if visible is not None and tensors[0].shape[:1] != visible.shape:
            raise ValueError(
                f"adam: visible must be [N] = {list(tensors[0].shape[:1])} of params[{group}], "
                f"got {list(visible.shape)}"
            )
    if visible is not None and (visible.dtype not in (torch.bool, torch.uint8) or visible.device != device):
        raise ValueError(
            f"adam: visible must be bool or uint8 on {device}, got {visible.dtype} on {visible.device}"
        )


def _run(
    groups: Groups,
    lrs: Sequence[float],
    beta1: float,
    beta2: float,
    eps: float,
    visible: Tensor | None,
    **more: Any,
) -> None:
    """Calls the stage; ``lrs``: of each group the learning rate, or its position in the schedule."""
    rows, rates, retained = [], [], []
    for param, grad, mean, square, rate in zip(*groups, lrs, strict=True):
        if param.numel() == 0:
            continue
        dense = grad.contiguous()
        retained.append(dense)  # the table holds bare addresses: what they point to must outlive the call
        stride = param.numel() // param.shape[0] if param.dim() else 1
        addresses = [t.data_ptr() for t in (param, dense, mean, square)]
        rows.append([*addresses, param.numel(), stride, int(rate) if "schedule" in more else 0])
        rates.append(float(rate))
    if not rows:
        return
    first = groups[0][0]
    library_for(first.device).call(
        "adam",
        first.device,
        first.dtype,
        table=torch.tensor(rows, dtype=torch.int64),
        lrs=torch.tensor(rates, dtype=torch.float64),
        visible=None if visible is None else visible.contiguous(),
        groups=len(rows),
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        **more,
    )


def _update(*args: Any) -> None:
    groups, (lrs, step, beta1, beta2, eps, visible) = args[:4], args[4:]
    _check(groups, lrs, step, visible)
    _run(groups, lrs, beta1, beta2, eps, visible, step=step)


def _update_fake(*args: Any) -> None:
    _check(args[:4], args[4], args[5], args[9])


def _check_schedule(*args: Any) -> None:
    groups, (rate_indices, schedule, _, _, _, visible, skip) = args[:4], args[4:]
    _check(groups, rate_indices, 1, visible)
    first = groups[0][0]
    expected = {
        "schedule": (schedule, first.dtype, (schedule.numel(),)),
        "skip": (skip, torch.int32, (1,)),
    }
    require("scheduled_adam_", first.device, expected)
    if rate_indices and not (min(rate_indices) >= 0 and max(rate_indices) < schedule.numel() - 2):
        raise ValueError(
            f"scheduled_adam_: rate_indices must be 0 to {schedule.numel() - 3}, the rates of schedule, "
            f"got {list(rate_indices)}"
        )


def _scheduled(*args: Any) -> None:
    _check_schedule(*args)
    groups, (rate_indices, schedule, beta1, beta2, eps, visible, skip) = args[:4], args[4:]
    more = {"schedule": schedule.contiguous(), "skip": skip, "rates": schedule.numel() - 2}
    _run(groups, rate_indices, beta1, beta2, eps, visible, **more)


register_implementation("adam_", _update, _update_fake)
register_implementation("scheduled_adam_", _scheduled, _check_schedule)
