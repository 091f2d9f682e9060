"""Alpha of images that leave luxel."""

from __future__ import annotations

import torch
from torch import Tensor

MIN_ALPHA = 1e-4  # less has no colour that a byte could tell


def with_straight_alpha(rgb: Tensor, alpha: Tensor) -> Tensor:
    """Colours that are not multiplied by their alpha, as files have them.

    Args:
        rgb: rendered over black, [H, W, 3].
        alpha: [H, W].

    Returns:
        [H, W, 4]; colours may be above 1.
    """
    return torch.cat([rgb / alpha.clamp_min(MIN_ALPHA)[..., None], alpha[..., None]], -1)
