"""The entropy of opacities in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor


def opacity_entropy_reference(opacity_logits: Tensor, visible: Tensor, of_others: float = 0.01) -> Tensor:
    """The mean of -o ln o, which drives opacities to 0 or 1 (Duan et al. 2024, entropy loss).

    Args:
        opacity_logits: of o = sigmoid(logit), clamped to [1e-3, 1 - 1e-3], beyond which there is no gradient, [N].
            Rows that are not finite are left out.
        visible: bool, seen by a camera of the batch, [N].
        of_others: weight of the mean over those that are not visible.

    Returns:
        One number, 0 where there is nothing to take a mean of.
    """
    live = opacity_logits.isfinite()
    o = torch.where(live, opacity_logits, 0.0).sigmoid().clamp(1e-3, 1 - 1e-3)
    each = -o * o.log()
    return mean_where(each, visible & live) + of_others * mean_where(each, live & ~visible)


def mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of the rows in a mask, 0 if there are none; no rows are selected, so the host need not wait."""
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp_min(1)
