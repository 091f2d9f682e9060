"""Depth that is known of views, and how far the depth of a render is from it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.ops.train.depth_loss import depth_loss

COVERED = 0.5  # alpha of an image above which a pixel shows a surface


class DepthErrors(NamedTuple):
    """How far a rendered depth is from the known one, over the pixels where it is known; NaN where it is at none.

    A pixel where nothing is rendered counts as depth 0.
    """

    mean: float = math.nan  # of |d - k|, capture units
    relative: float = math.nan  # mean of |d - k| / k
    median: float = math.nan  # of |d - k| / k


def known_depth(view: View) -> np.ndarray | None:
    """The known depth of a view, float32 [H, W] along z in capture units, 0 where it is not known; None: there is none.

    Raises:
        LuxelError: it has another size than the camera, or negative or infinite values.
    """
    if view.depth is None:
        return None
    depth, shape = view.depth(), (view.camera.height, view.camera.width)
    if depth.shape != shape or depth.dtype.kind != "f" or not (np.isfinite(depth) & (depth >= 0)).all():
        raise LuxelError(
            f"{view.path or view.name}: its depth is {depth.dtype} {list(depth.shape)}, and must be "
            f"float {list(shape)}, at least 0 and finite.",
            "Correct what reads the depth of the view.",
        )
    return depth.astype(np.float32, copy=False)


@torch.no_grad()
def depth_errors(
    depth: Tensor, alpha: Tensor, view: View, weight: Tensor | None = None, *, fits: bool = False
) -> DepthErrors:
    """Compares a rendered depth with what is known of the view.

    Args:
        depth: mean z of what covers each pixel, [H, W], capture units.
        alpha: coverage of the render, [H, W].
        view: with the known depth. Pixels count where it is known, and where its image shows a surface.
        weight: of the pixels of its image, [H, W]; those of 0 do not count. None: all count.
        fits: the known depths are of unknown scale, see `luxel.render.ops.train.depth_loss.depth_loss`; they are fitted
            to the rendered ones first.

    Raises:
        LuxelError: see `known_depth`.
    """
    given = known_depth(view)
    if given is None:
        return DepthErrors()
    known = torch.from_numpy(given).to(depth)
    cutout = view.read().alpha
    if cutout is not None:
        known = torch.where(torch.from_numpy(cutout > 255 * COVERED).to(known.device), known, 0)
    if weight is not None:
        known = torch.where(weight > 0, known, 0)
    if fits:
        one = torch.ones(1, dtype=depth.dtype, device=depth.device)
        inputs = ((depth * alpha)[None], (1 - alpha)[None], known[None])
        scale, shift = depth_loss(*inputs, None, one, fits=True).fit[0]
        inverse = scale / known + shift
        known = torch.where((known > 0) & (inverse > 0), 1 / inverse, 0)
    here = known > 0
    if not bool(here.any()):
        return DepthErrors()
    off = (depth[here] - known[here]).abs()
    relative = off / known[here]
    return DepthErrors(float(off.mean()), float(relative.mean()), float(relative.median()))
