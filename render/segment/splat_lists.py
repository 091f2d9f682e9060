"""Primitives as lists of splats per tile: what the votes and the label images of segmentation start from."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.blend_splats import BlendSettings
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster.pipeline import (
    DILATION,
    MAX_ALPHA,
    TileLists,
    bin_tiles,
    project,
    viewing,
    with_capacity,
)


class SplatLists(NamedTuple):
    """Splats of N primitives on the screens of C cameras, and the lists of the tiles.

    Args:
        splats: [C, N, R].
        lists: see `luxel.render.raster.pipeline.TileLists`.
        settings: image size, cap on alpha and policy.
    """

    splats: Tensor
    lists: TileLists
    settings: BlendSettings


@torch.no_grad()
def splat_lists(
    scene: Parameters,
    camera: Camera,
    time: float | Tensor | None = None,
    *,
    antialiased: bool = False,
    dilation: float = DILATION,
    max_alpha: float = MAX_ALPHA,
) -> SplatLists:
    """Projects primitives and lists them per tile; colours are evaluated to degree 0 only.

    Args:
        scene: N primitives.
        camera: a camera or C of them.
        time, antialiased, dilation, max_alpha: see `luxel.render.raster.rasterize.rasterize`.

    Raises:
        ValueError: a scene that moves without a time, or times of another shape.
    """
    view = viewing(scene, camera, time=time, sh_degree=0, antialiased=antialiased, dilation=dilation)
    projected = project(scene, view)
    settings = BlendSettings(
        scene.policy, camera.width, camera.height, max_alpha, absolute=False, deterministic=False
    )

    def bin_with(visible: int, instances: int) -> TileLists:
        return bin_tiles(projected, settings, visible_capacity=visible, capacity=instances)

    lists = with_capacity(bin_with, projected, settings)
    return SplatLists(projected.splats, lists, settings)
