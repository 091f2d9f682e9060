"""Colours for pixels that do not count: those of what is around them."""

from __future__ import annotations

import torch
import torch.nn.functional as nn
from torch import Tensor


def filled(rgb: Tensor, counts: Tensor) -> Tensor:
    """An image whose pixels that do not count get the colours of those nearby that do, smoothly.

    The windows of SSIM that reach over their border then see the contrast of the image, not that of a hole.
    Averages over squares of doubling sides are taken until no hole is left, and holes get them, interpolated, from
    coarse to fine (as in Gortler et al. 1996, "The Lumigraph", section 3.6).

    Args:
        rgb: uint8 [H, W, 3].
        counts: bool [H, W].

    Returns:
        uint8 [H, W, 3]; ``rgb`` itself where all pixels count or none does.
    """
    if counts.all() or not counts.any():
        return rgb
    height, width = counts.shape
    known = torch.zeros(height + height % 2, width + width % 2, 4, dtype=torch.uint8)
    known[:height, :width, :3] = torch.where(counts[..., None], rgb, 0)
    known[:height, :width, 3] = counts
    quarters = [known[i::2, j::2].to(torch.int16) for i in (0, 1) for j in (0, 1)]
    sums = sum(quarters[1:], quarters[0]).permute(2, 0, 1)[None].float()
    half = _without_holes(sums[:, :3], sums[:, 3:])[0].round().to(torch.uint8)
    rows, columns = (~counts).nonzero(as_tuple=True)
    out = rgb.clone()
    out[rows, columns] = half[:, rows // 2, columns // 2].T
    return out


def _without_holes(sums: Tensor, number: Tensor) -> Tensor:
    """Mean colours [1, 3, h, w] from sums of the same shape and how many pixels they are of, [1, 1, h, w]."""
    own = sums / number.clamp_min(1e-6)
    if bool((number > 0).all()):
        return own
    coarse = _without_holes(*(nn.avg_pool2d(part, 2, ceil_mode=True) for part in (sums, number)))
    height, width = sums.shape[2:]
    finer = nn.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)
    return torch.where(number > 0, own, finer[..., :height, :width])
