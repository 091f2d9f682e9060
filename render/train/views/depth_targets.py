"""Known depth of training views as the device stores it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.metrics.depth import known_depth

COVERED = 128  # alpha below which a pixel shows the background
LARGEST = float(np.finfo(np.float16).max)


def stored_depth(view: View, alpha: Tensor | None, weight: Tensor | None, unit: float) -> Tensor:
    """The known depth of a view where its pixels count, float16 [H, W]; 0 elsewhere.

    Args:
        view: with its camera and depth.
        alpha, weight: uint8 [H, W] of its image. Where the weight is 0 or the alpha shows the background, no depth is
            known.
        unit: capture units of a value; half precision preserves 1e-3 of what is nearer than 65504 of them.

    Raises:
        LuxelError: see `luxel.render.metrics.depth.known_depth`.
    """
    depth = known_depth(view)
    if depth is None:
        return torch.zeros(view.camera.height, view.camera.width, dtype=torch.float16)
    stored = torch.from_numpy(np.minimum(depth / unit, LARGEST)).half()
    if weight is not None:
        stored[weight == 0] = 0
    if alpha is not None:
        stored[alpha < COVERED] = 0
    return stored


def halved_depth(depth: Tensor, times: int) -> Tensor:
    """Halves a depth map [H, W]: the lower median of the known depths of each 2 x 2 pixels, ``times`` times.

    So every depth of the result is one that was there, never one between two surfaces; 0 where none is known.
    """
    for _ in range(times):
        height, width = (side // 2 * 2 for side in depth.shape)
        four = [depth[i:height:2, j:width:2] for i in (0, 1) for j in (0, 1)]
        known = torch.stack([part > 0 for part in four]).sum(0)
        ranked = torch.stack([torch.where(part > 0, part, torch.inf) for part in four]).sort(0).values
        depth = torch.where(known > 2, ranked[1], torch.where(known > 0, ranked[0], 0.0))
    return depth
