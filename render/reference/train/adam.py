"""Adam in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


@torch.no_grad()
def adam_(
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
    """One step of Adam in place (Kingma & Ba 2015, algorithm 1); see `luxel.render.ops.train.adam.fused_adam_`."""
    beta1, beta2 = betas
    for param, grad, mean, square, lr in zip(params, grads, exp_avgs, exp_avg_sqs, lrs, strict=True):
        new_mean = beta1 * mean + (1 - beta1) * grad
        new_square = beta2 * square + (1 - beta2) * grad * grad
        unbiased = new_mean / (1 - beta1**step)
        new_param = param - lr * unbiased / ((new_square / (1 - beta2**step)).sqrt() + eps)
        for old, new in ((param, new_param), (mean, new_mean), (square, new_square)):
            if visible is None:
                old.copy_(new)
            else:
                old.copy_(torch.where(visible.bool().reshape(-1, *[1] * (old.dim() - 1)), new, old))
