"""Adam over all parameter groups in one native call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation

define(
    "adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, float[] lrs,"
    " int step, float beta1, float beta2, float eps, Tensor? visible) -> ()"
)


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

    Equal to ``torch.optim.Adam`` without weight decay. With ``visible``, primitives that no camera saw keep
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
        _check(params, grads, exp_avgs, exp_avg_sqs, lrs, step, visible)
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


def _check(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    lrs: Sequence[float],
    step: int,
    visible: Tensor | None,
) -> None:
    counts = [len(params), len(grads), len(exp_avgs), len(exp_avg_sqs), len(lrs)]
    if len(set(counts)) > 1:
        raise ValueError(f"adam: params, grads, exp_avgs, exp_avg_sqs and lrs differ in length: {counts}")
    if step < 1:
        raise ValueError(f"adam: step must be at least 1, got {step}")
    if not params:
        return
    device, dtype = params[0].device, params[0].dtype
    if dtype not in ((torch.float32, torch.float64) if device.type == "cpu" else (torch.float32,)):
        raise ValueError(f"adam: {dtype} on {device.type} is not supported")
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


def _update(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    lrs: Sequence[float],
    step: int,
    beta1: float,
    beta2: float,
    eps: float,
    visible: Tensor | None,
) -> None:
    _check(params, grads, exp_avgs, exp_avg_sqs, lrs, step, visible)
    rows, rates, kept = [], [], []
    for param, grad, mean, square, lr in zip(params, grads, exp_avgs, exp_avg_sqs, lrs, strict=True):
        if param.numel() == 0:
            continue
        dense = grad.contiguous()
        kept.append(dense)  # the table holds bare addresses: what they point to must outlive the call
        stride = param.numel() // param.shape[0] if param.dim() else 1
        rows.append(
            [param.data_ptr(), dense.data_ptr(), mean.data_ptr(), square.data_ptr(), param.numel(), stride]
        )
        rates.append(lr)
    if not rows:
        return
    library_for(params[0].device).call(
        "adam",
        params[0].device,
        params[0].dtype,
        table=torch.tensor(rows, dtype=torch.int64),
        lrs=torch.tensor(rates, dtype=torch.float64),
        visible=None if visible is None else visible.contiguous(),
        step=step,
        groups=len(rows),
        beta1=beta1,
        beta2=beta2,
        eps=eps,
    )


def _fake_update(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    lrs: Sequence[float],
    step: int,
    beta1: float,
    beta2: float,
    eps: float,
    visible: Tensor | None,
) -> None:
    _check(params, grads, exp_avgs, exp_avg_sqs, lrs, step, visible)


register_implementation("adam_", _update, _fake_update)
