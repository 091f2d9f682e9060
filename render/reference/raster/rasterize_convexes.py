"""The rasterizer of convexes in plain torch: project, bin, sort, blend. Any float type, any device, autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.reference.raster.bin_convexes import bin_convexes_reference
from luxel.render.reference.raster.blend_convexes import blend_convexes_reference
from luxel.render.reference.raster.blend_gaussians import Blended
from luxel.render.reference.raster.project_convexes import project_convexes_reference
from luxel.render.reference.raster.rasterize import ReferenceFrame, blend_tiles_reference, each_camera


def rasterize_convexes_reference(
    convexes: Convexes,
    camera: Camera,
    *,
    background: Tensor | None = None,
    sh_degree: int | None = None,
    max_alpha: float = 0.99,
    depth: bool = False,
    features: Tensor | None = None,
    tiles: Sequence[int] | None = None,
) -> ReferenceFrame:
    """Renders convexes; arguments and results are those of `rasterize_reference`, less the normals.

    Depth is that of the centroids. For what has no gradient see `project_convexes_reference`.
    """

    def draw(camera: Camera, behind: Tensor | None, _: int) -> ReferenceFrame:
        splats = project_convexes_reference(convexes, camera, sh_degree=sh_degree)
        extra = [splats.rgb, splats.depth[:, None]]
        if features is not None:
            extra.append(features.to(splats.rgb)[splats.index])
        rows = [splats.corners, splats.normals, splats.edges, splats.delta, splats.sigma]
        rows += [splats.opacity, splats.depth, torch.cat(extra, -1)]

        def blend(pixels: Tensor, *row: Tensor) -> Blended:
            return blend_convexes_reference(pixels, *row, max_alpha=max_alpha)

        lists = bin_convexes_reference(splats, camera.width, camera.height)
        blended = blend_tiles_reference(blend, rows, lists, camera, behind, tiles)
        image, alpha = blended.image, 1 - blended.transmittance
        return ReferenceFrame(
            rgb=image[..., :3],
            alpha=alpha,
            depth=image[..., 3] / alpha.clamp_min(1e-10) if depth else None,
            median_depth=blended.median_depth if depth else None,
            normals=None,
            features=image[..., 4:] if features is not None else None,
            count=blended.count,
            margin=blended.margin,
            splats=[splats],
        )

    return each_camera(draw, camera, background)
