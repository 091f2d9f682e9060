"""The entire rasterizer in plain torch: project, bin, sort, blend. Any float type, any device, autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.reference.raster.bin_splats import TILE, bin_splats_reference
from luxel.render.reference.raster.blend_gaussians import Blended, blend_gaussians_reference, tile_pixels
from luxel.render.reference.raster.project_gaussians import Splats, project_gaussians_reference


class ReferenceFrame(NamedTuple):
    """Images as of `luxel.render.raster.rasterize.Frame`, and two fields for tests.

    [C, H, W, ...] for batched cameras.
    """

    rgb: Tensor  # [H, W, 3]
    alpha: Tensor  # [H, W]
    depth: Tensor | None  # [H, W]
    median_depth: Tensor | None  # [H, W]
    normals: Tensor | None  # [H, W, 3]
    features: Tensor | None  # [H, W, F]
    count: Tensor  # [H, W] int32
    margin: Tensor  # [H, W] relative distance from the nearest jump (alpha cut-off and cap, end of a pixel, median)
    splats: list[Any]  # one per camera: the result of the projection


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
    """Renders Gaussians; the arguments and results are those of `luxel.render.raster.rasterize.rasterize`.

    Args:
        tiles: numbers (row-major) of the 16x16 tiles to render; pixels of other tiles are 0. None: all. For large
            scenes, whose gradient is the sum of the gradients of groups of tiles.
    """

    def draw(camera: Camera, behind: Tensor | None, _: int) -> ReferenceFrame:
        splats = project_gaussians_reference(
            gaussians, camera, sh_degree=sh_degree, antialiased=antialiased, dilation=dilation
        )
        return draw_splats_reference(
            splats,
            camera,
            behind,
            max_alpha=max_alpha,
            depth=depth,
            normals=normals,
            features=features,
            tiles=tiles,
        )

    return each_camera(draw, camera, background)


def each_camera(
    draw: Callable[[Camera, Tensor | None, int], ReferenceFrame], camera: Camera, background: Tensor | None
) -> ReferenceFrame:
    """The frame that ``draw`` gives of a camera, its background and its number; of a batch all frames, stacked."""
    if not camera.batched:
        return draw(camera, background, 0)
    batch = []
    for i in range(camera.world_to_cam.shape[0]):
        one = camera.one(i)
        behind = background[i] if background is not None and background.dim() == 2 else background
        batch.append(draw(one, behind, i))
    columns = zip(*(frame[:-1] for frame in batch), strict=True)
    stacked = [None if column[0] is None else torch.stack(column) for column in columns]
    return ReferenceFrame(*stacked, splats=[frame.splats[0] for frame in batch])  # pyright: ignore[reportArgumentType]


def draw_splats_reference(
    splats: Splats,
    camera: Camera,
    background: Tensor | None,
    *,
    max_alpha: float,
    depth: bool,
    normals: bool,
    features: Tensor | None,
    tiles: Sequence[int] | None,
) -> ReferenceFrame:
    """The stages after project: bin, sort, blend."""
    extra = [splats.rgb, splats.depth[:, None], splats.normal]
    values = torch.cat([*extra, features.to(splats.rgb)[splats.index]] if features is not None else extra, -1)
    lists = bin_splats_reference(splats, camera.width, camera.height)
    rows = [splats.mean2d, splats.conic, splats.opacity, splats.depth, values]

    def blend(pixels: Tensor, *row: Tensor) -> Blended:
        return blend_gaussians_reference(pixels, *row, max_alpha=max_alpha)

    blended = blend_tiles_reference(blend, rows, lists, camera, background, tiles)
    image, alpha = blended.image, 1 - blended.transmittance
    return ReferenceFrame(
        rgb=image[..., :3],
        alpha=alpha,
        depth=image[..., 3] / alpha.clamp_min(1e-10) if depth else None,
        median_depth=blended.median_depth if depth else None,
        normals=image[..., 4:7] if normals else None,
        features=image[..., 7:] if features is not None else None,
        count=blended.count,
        margin=blended.margin,
        splats=[splats],
    )


def blend_tiles_reference(
    blend: Callable[..., Blended],
    rows: Sequence[Tensor],
    lists: tuple[Tensor, Tensor],
    camera: Camera,
    background: Tensor | None,
    tiles: Sequence[int] | None,
) -> Blended:
    """Blends tile after tile into images.

    Args:
        blend: given pixel centres and the rows of a tile's splats, nearest first.
        rows: tensors with one row per splat, [V, ...]; values come last, colours first among them.
        lists: instances and ranges, as `bin_splats_reference` gives them.
        camera: for the size.
        background: colour behind everything, [3], or None.
        tiles: numbers of the tiles to draw, or None for all.

    Returns:
        Fields of [H, W, ...]; pixels of other tiles have colour 0 and transmittance 1.
    """
    instances, ranges = lists
    spans = ranges.tolist()
    chosen = range(len(spans)) if tiles is None else sorted(set(tiles))

    # Gathered once and split: indexing inside of the loop would make a dense gradient per tile.
    picked = torch.cat([instances[slice(*spans[tile])] for tile in chosen])
    sizes = [spans[tile][1] - spans[tile][0] for tile in chosen]
    parts = [row[picked].split(sizes) for row in rows]
    blended = [
        blend(tile_pixels(tile, camera.width, rows[-1]), *row)
        for tile, *row in zip(chosen, *parts, strict=True)
    ]
    image, transmittance, median, count, margin = (
        _assemble(list(fields), list(chosen), camera) for fields in zip(*blended, strict=True)
    )
    if background is not None:
        behind = transmittance[..., None] * background.to(image)
        image = torch.cat([image[..., :3] + behind, image[..., 3:]], -1)
    if tiles is not None:
        inside = _assemble([torch.ones_like(b.transmittance) for b in blended], list(chosen), camera)
        transmittance = transmittance + (1 - inside)
    return Blended(image, transmittance, median, count, margin)


def _assemble(parts: list[Tensor], chosen: list[int], camera: Camera) -> Tensor:
    """Tiles of [TILE * TILE, ...] into an image [H, W, ...]; tiles that were not chosen are 0."""
    across, down = -(-camera.width // TILE), -(-camera.height // TILE)
    stack = torch.stack(parts)
    grid = stack.new_zeros(across * down, *stack.shape[1:])
    grid = grid.index_copy(0, torch.tensor(chosen, device=stack.device), stack)
    grid = grid.reshape(down, across, TILE, TILE, *stack.shape[2:]).transpose(1, 2)
    return grid.reshape(down * TILE, across * TILE, *stack.shape[2:])[: camera.height, : camera.width]
