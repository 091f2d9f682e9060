"""Distance of a backend's images and gradients from the float64 reference, and the limits for being ranked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import TILE
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster import Backend
from luxel.render.reference.raster.draw import draw_reference
from luxel.viewer.bench.raster.variants import CAPS, CameraSample, draw_with

MIN_PSNR = 60.0  # dB to the reference; images below it are not ranked
MAX_GRADIENT_ERROR = 1e-3  # relative; larger ones are marked
MAX_PSNR_LOSS = 0.1  # dB below the best up to which a training is ranked
CAP = 200.0  # dB of equal images


def psnr(image: Tensor, truth: Tensor) -> float:
    """10 log10(1 / mean squared difference), at most `CAP`; NaN where a value is not finite."""
    mean_square = (image.double() - truth.double()).square().mean().item()
    return (
        min(CAP, -10 * math.log10(mean_square)) if mean_square > 0 else CAP if mean_square == 0 else math.nan
    )


def good_enough(quality: dict[str, Any] | None) -> bool:
    """Whether a backend's image may be ranked: True where it was not measured, False for NaN."""
    return not quality or quality["psnr"] >= MIN_PSNR


def sample_tiles(camera: Camera, count: int) -> tuple[list[int], Tensor]:
    """``count`` random full tiles (the first where none is whole) and the mask of their pixels, [H, W]."""
    across, down = -(-camera.width // TILE), -(-camera.height // TILE)
    full = (camera.width // TILE, camera.height // TILE)
    every = torch.randperm(across * down, generator=torch.Generator().manual_seed(7)).tolist()
    tiles = [t for t in every if t % across < full[0] and t // across < full[1]][:count] or [0]
    mask = torch.zeros(camera.height, camera.width, dtype=torch.bool)
    for tile in tiles:
        row, column = divmod(tile, across)
        mask[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] = True
    return tiles, mask.to(camera.intrinsics.device)


def measure_quality(
    scene: Parameters, sample: CameraSample, backends: Sequence[Backend], tile_count: int
) -> dict[Backend, dict[str, Any]]:
    """Errors of each backend against the float64 reference, rendered with the backend's own cap of alpha.

    The reference draws a sample of tiles only: in plain torch a complete large image would take minutes.

    Args:
        tile_count: tiles of the image; half as many are used for the gradients.

    Returns:
        Per backend: psnr of the image (dB), gradients: ||g - h|| / ||h|| by parameter, for a random gradient of the
        image, and to_luxel: PSNR of the full image to luxel's with the same cap (other backends only).
    """
    camera = sample.camera
    exact, exact_camera = scene.to(torch.float64), camera.to(torch.float64)
    tiles, mask = sample_tiles(camera, tile_count)
    few, few_mask = sample_tiles(camera, max(1, tile_count // 2))
    generator = torch.Generator().manual_seed(11)
    g_image = torch.randn(camera.height, camera.width, 3, generator=generator).to(scene.device)
    g_image = g_image * few_mask[..., None]
    out: dict[Backend, dict[str, Any]] = {}
    for backend in backends:
        cap = CAPS[backend]
        with torch.no_grad():
            truth = draw_reference(exact, exact_camera, sample.time, max_alpha=cap, tiles=tiles).rgb
            image = draw_with(backend, scene, sample, cap)
            quality: dict[str, Any] = {
                "psnr": psnr(image[mask], truth[mask]),
                "mean": truth[mask].mean().item(),
            }
            if backend != "luxel":
                quality["to_luxel"] = psnr(image, draw_with("luxel", scene, sample, cap))
        expected = _gradients(
            exact,
            lambda g, cap=cap: draw_reference(g, exact_camera, sample.time, max_alpha=cap, tiles=few).rgb,
            g_image.double(),
        )
        actual = _gradients(scene, lambda g, b=backend, cap=cap: draw_with(b, g, sample, cap), g_image)
        quality["gradients"] = {name: _relative(actual[name], true) for name, true in expected.items()}
        out[backend] = quality
    return out


def _gradients(
    scene: Parameters, image_of: Callable[[Parameters], Tensor], g_image: Tensor
) -> dict[str, Tensor]:
    """The gradients of sum(image * g_image) with respect to the raw parameters."""
    leaves = scene.detach().requires_grad_()
    image = image_of(leaves)
    if image.requires_grad:  # not where the reference's tiles are empty
        image.backward(g_image)
    return {
        name: torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
        for name, tensor in leaves.tensors().items()
    }


def _relative(actual: Tensor, truth: Tensor) -> float:
    """||actual - truth|| / ||truth||, in float64; 0 where both are 0."""
    off, size = (actual.double() - truth.double()).norm().item(), truth.double().norm().item()
    return off / size if size > 0 else (0.0 if off == 0 else math.inf)
