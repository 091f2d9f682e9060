"""The whole rasterizer in plain torch: project, bin, sort, blend. Any float type, any device, autograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.reference.bin_splats import TILE, bin_splats_reference
from luxel.render.reference.blend_gaussians import blend_gaussians_reference, tile_pixels
from luxel.render.reference.project_gaussians import Splats, project_gaussians_reference


class ReferenceFrame(NamedTuple):
    """The fields of `luxel.render.rasterize.Frame`, and two more for tests. [C, H, W, ...] for batched cameras."""

    rgb: Tensor  # [H, W, 3]
    alpha: Tensor  # [H, W]
    depth: Tensor | None  # [H, W]
    median_depth: Tensor | None  # [H, W]
    normals: Tensor | None  # [H, W, 3]
    features: Tensor | None  # [H, W, F]
    count: Tensor  # [H, W] int32
    margin: Tensor  # [H, W] relative distance from the nearest jump (alpha cut-off and cap, end of a pixel, median)
    splats: list[Splats]  # one per camera


def rasterize_reference(
    gaussians: Gaussians,
    camera: Camera,
    *,
    background: Tensor | None = None,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = 0.3,
    max_alpha: float = 0.99,
    depth: bool = False,
    normals: bool = False,
    features: Tensor | None = None,
    tiles: Sequence[int] | None = None,
) -> ReferenceFrame:
    """Renders Gaussians; the arguments and results are those of `luxel.render.rasterize.rasterize`.

    Args:
        tiles: numbers (row-major) of the 16x16 tiles to render; pixels of other tiles are 0. None: all. For large
            scenes, whose gradient is the sum of the gradients of groups of tiles.
    """
    options = {
        "sh_degree": sh_degree,
        "antialiased": antialiased,
        "dilation": dilation,
        "max_alpha": max_alpha,
        "depth": depth,
        "normals": normals,
        "features": features,
        "tiles": tiles,
    }
    if not camera.batched:
        return _rasterize_one(gaussians, camera, background, **options)
    batch = []
    for i in range(camera.world_to_cam.shape[0]):
        one = replace(camera, world_to_cam=camera.world_to_cam[i], intrinsics=camera.intrinsics[i])
        behind = background[i] if background is not None and background.dim() == 2 else background
        batch.append(_rasterize_one(gaussians, one, behind, **options))
    columns = zip(*(frame[:-1] for frame in batch), strict=True)
    stacked = [None if column[0] is None else torch.stack(column) for column in columns]
    return ReferenceFrame(*stacked, splats=[frame.splats[0] for frame in batch])  # pyright: ignore[reportArgumentType]


def _rasterize_one(
    gaussians: Gaussians,
    camera: Camera,
    background: Tensor | None,
    *,
    sh_degree: int | None,
    antialiased: bool,
    dilation: float,
    max_alpha: float,
    depth: bool,
    normals: bool,
    features: Tensor | None,
    tiles: Sequence[int] | None,
) -> ReferenceFrame:
    splats = project_gaussians_reference(
        gaussians, camera, sh_degree=sh_degree, antialiased=antialiased, dilation=dilation
    )
    extra = [splats.rgb, splats.depth[:, None], splats.normal]
    values = torch.cat([*extra, features.to(splats.rgb)[splats.index]] if features is not None else extra, -1)
    instances, ranges = bin_splats_reference(splats, camera.width, camera.height)
    spans = ranges.tolist()
    chosen = range(len(spans)) if tiles is None else sorted(set(tiles))

    # Gathered once and split: indexing inside of the loop would make a dense gradient per tile.
    picked = torch.cat([instances[slice(*spans[tile])] for tile in chosen])
    sizes = [spans[tile][1] - spans[tile][0] for tile in chosen]
    rows = [
        part[picked].split(sizes)
        for part in (splats.mean2d, splats.conic, splats.opacity, splats.depth, values)
    ]
    blended = [
        blend_gaussians_reference(tile_pixels(tile, camera.width, values), *row, max_alpha=max_alpha)
        for tile, *row in zip(chosen, *rows, strict=True)
    ]
    image, transmittance, median, count, margin = (
        _assemble(list(parts), list(chosen), camera) for parts in zip(*blended, strict=True)
    )

    rgb, alpha = image[..., :3], 1 - transmittance
    if tiles is not None:
        inside = _assemble([torch.ones_like(b.transmittance) for b in blended], list(chosen), camera)
        alpha, transmittance = alpha * inside, transmittance * inside
    if background is not None:
        rgb = rgb + transmittance[..., None] * background.to(rgb)
    return ReferenceFrame(
        rgb=rgb,
        alpha=alpha,
        depth=image[..., 3] / alpha.clamp_min(1e-10) if depth else None,
        median_depth=median if depth else None,
        normals=image[..., 4:7] if normals else None,
        features=image[..., 7:] if features is not None else None,
        count=count,
        margin=margin,
        splats=[splats],
    )


def _assemble(parts: list[Tensor], chosen: list[int], camera: Camera) -> Tensor:
    """Tiles of [TILE * TILE, ...] into an image [H, W, ...]; tiles that were not chosen are 0."""
    across, down = -(-camera.width // TILE), -(-camera.height // TILE)
    stack = torch.stack(parts)
    grid = stack.new_zeros(across * down, *stack.shape[1:])
    grid = grid.index_copy(0, torch.tensor(chosen, device=stack.device), stack)
    grid = grid.reshape(down, across, TILE, TILE, *stack.shape[2:]).transpose(1, 2)
    return grid.reshape(down * TILE, across * TILE, *stack.shape[2:])[: camera.height, : camera.width]
