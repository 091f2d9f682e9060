"""Which convexes touch which tile, nearest first."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.reference.raster.bin_splats import TILE, list_tiles_reference
from luxel.render.reference.raster.project_convexes import ConvexSplats


@torch.no_grad()
def bin_convexes_reference(splats: ConvexSplats, width: int, height: int) -> tuple[Tensor, Tensor]:
    """Lists the convexes of each tile by the depth of their centroids; ties keep the order of the convexes.

    A convex belongs to a tile if the polygon {q: L_j(q) <= reach for all j}, outside of which its alpha is below
    1/255, meets the rectangle of the tile's pixel centres: neither an edge of the one nor of the other separates them.

    Args:
        splats: V visible convexes.
        width, height: image size in pixels.

    Returns:
        instances [M] and ranges [T, 2] as `bin_splats_reference` gives them.
    """
    real = torch.arange(splats.corners.shape[1], device=splats.edges.device) < splats.edges[:, None]

    def meets(which: Tensor, column: Tensor, row: Tensor) -> Tensor:
        near = torch.stack([column, row], -1) * TILE + 0.5
        far = near + (TILE - 1)
        inside_box = ((splats.low[which] <= far) & (splats.high[which] >= near)).all(-1)
        normal, corner = splats.normals[which], splats.corners[which]
        least = torch.where(normal > 0, near[:, None], far[:, None])  # the rectangle's innermost corner
        value = (normal * (least - corner)).sum(-1)
        return inside_box & ((value <= splats.reach[which, None]) | ~real[which]).all(-1)

    return list_tiles_reference(splats.low, splats.high, splats.depth, meets, width, height)
