"""Front-to-back alpha blending of the convexes of one tile (Held et al. 2025)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.reference.raster.blend_gaussians import Blended, blend_reference


def blend_convexes_reference(
    pixels: Tensor,
    corners: Tensor,
    normals: Tensor,
    edges: Tensor,
    delta: Tensor,
    sigma: Tensor,
    opacity: Tensor,
    depth: Tensor,
    values: Tensor,
    *,
    max_alpha: float = 0.99,
    chunk: int = 512,
) -> Blended:
    """Blends M convexes, nearest first, at P pixels.

    As in `blend_gaussians_reference`, with alpha = min(max_alpha, opacity indicator).

    Args:
        pixels: centres, px, [P, 2].
        corners, normals, edges, delta, sigma, opacity, depth: the convexes, see `ConvexSplats`.
        values: what is blended, [M, D].
        max_alpha: cap of alpha, at most 1.
        chunk: convexes taken at a time, which bounds the memory (P x chunk x K).
    """

    def alpha(part: slice) -> tuple[Tensor, Tensor]:
        inside = indicator(pixels, corners[part], normals[part], edges[part], delta[part], sigma[part])
        return opacity[part] * inside, torch.ones_like(inside, dtype=torch.bool)

    return blend_reference(alpha, depth, values, pixels, max_alpha=max_alpha, chunk=chunk)


def indicator(
    pixels: Tensor, corners: Tensor, normals: Tensor, edges: Tensor, delta: Tensor, sigma: Tensor
) -> Tensor:
    """How far inside of a convex a pixel is, near 1 within and near 0 without.

    I(q) = sigmoid(-sigma phi(q)) with phi(q) = ln sum_j exp(delta L_j(q)), evaluated with the greatest term taken out,
    and L_j(q) = normal_j . (q - corner_j); delta and sigma have the factor z already.

    Args:
        pixels: px, [P, 2].
        corners, normals, edges, delta, sigma: see `ConvexSplats`.

    Returns:
        [P, M].
    """
    real = torch.arange(corners.shape[1], device=corners.device) < edges[:, None]
    dx, dy = (pixels[:, None, None] - corners).unbind(-1)
    distance = normals[..., 0] * dx + normals[..., 1] * dy  # [P, M, K]
    scaled = torch.where(real, delta[:, None] * distance, -torch.inf)
    return (-sigma * scaled.logsumexp(-1)).sigmoid()
