"""The rasterizer of surfels in plain torch: project, bin, sort, blend. Any float type, any device, autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.surfels import Surfels
from luxel.render.reference.raster.bin_splats import list_tiles_reference
from luxel.render.reference.raster.blend_gaussians import Blended
from luxel.render.reference.raster.blend_surfels import blend_surfels_reference
from luxel.render.reference.raster.project_surfels import project_surfels_reference
from luxel.render.reference.raster.rasterize import ReferenceFrame, blend_tiles_reference, each_camera


def rasterize_surfels_reference(
    surfels: Surfels,
    camera: Camera,
    *,
    background: Tensor | None = None,
    sh_degree: int | None = None,
    max_alpha: float = 0.99,
    depth: bool = False,
    normals: bool = False,
    features: Tensor | None = None,
    tiles: Sequence[int] | None = None,
) -> ReferenceFrame:
    """Renders surfels; arguments and results are those of `rasterize_reference`.

    Depths are those of the intersections, see `blend_surfels_reference`. The features are preceded by the blended
    square of the depth. Tiles list the surfels whose box they meet.
    """

    def draw(camera: Camera, behind: Tensor | None, _: int) -> ReferenceFrame:
        planes = project_surfels_reference(surfels, camera, sh_degree=sh_degree)
        z = planes.depth[:, None]
        values = [z, z * z, planes.rgb, planes.normal]
        if features is not None:
            values.append(features.to(planes.rgb)[planes.index])
        rows = [planes.mean2d, planes.centre, planes.tangents, planes.opacity, planes.depth]
        rows.append(torch.cat(values, -1))

        def blend(pixels: Tensor, *row: Tensor) -> Blended:
            return blend_surfels_reference(camera, pixels, *row, max_alpha=max_alpha)

        lists = list_tiles_reference(
            planes.low, planes.high, planes.depth, _everywhere, camera.width, camera.height
        )
        blended = blend_tiles_reference(blend, rows, lists, camera, None, tiles)
        image, alpha = blended.image, 1 - blended.transmittance
        rgb = image[..., 2:5]
        if behind is not None:
            rgb = rgb + blended.transmittance[..., None] * behind.to(rgb)
        return ReferenceFrame(
            rgb=rgb,
            alpha=alpha,
            depth=image[..., 0] / alpha.clamp_min(1e-10) if depth else None,
            median_depth=blended.median_depth if depth else None,
            normals=image[..., 5:8] if normals else None,
            features=torch.cat([image[..., 1:2], image[..., 8:]], -1),
            count=blended.count,
            margin=blended.margin,
            splats=[planes],
        )

    return each_camera(draw, camera, background)


def _everywhere(which: Tensor, column: Tensor, row: Tensor) -> Tensor:
    return torch.ones_like(which, dtype=torch.bool)
