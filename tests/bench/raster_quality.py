"""The two rasterizers behind one kind of call, and how far their images and gradients are from float64.

Used by `raster_against_gsplat.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import rasterize
from luxel.render.reference.rasterize import rasterize_reference

GSPLAT_MAX_ALPHA = 0.999  # fixed in its kernels


def render_luxel(
    gaussians: Gaussians, camera: Camera, max_alpha: float = 0.99, room: int | None = None
) -> Tensor:
    """luxel's image, [H, W, 3]; with ``room`` for (tile, splat) pairs the host waits for nothing."""
    return rasterize(gaussians, camera, sh_degree=3, max_alpha=max_alpha, max_instances=room).rgb


def activated(gaussians: Gaussians) -> dict[str, Tensor]:
    """The parameters as gsplat takes them."""
    return {
        "means": gaussians.means,
        "quats": gaussians.quats,
        "scales": gaussians.scales,
        "opacities": gaussians.opacities,
        "colors": torch.cat([gaussians.sh_dc[:, None], gaussians.sh_rest], dim=1),
    }


def render_gsplat(inputs: dict[str, Tensor], camera: Camera, packed: bool) -> Tensor:
    """gsplat's image, [H, W, 3]."""
    from gsplat import rasterization

    image, _, _ = rasterization(
        **inputs,
        viewmats=camera.world_to_cam[None],
        Ks=pinhole_matrix(camera)[None],
        width=camera.width,
        height=camera.height,
        near_plane=camera.near,
        far_plane=camera.far,
        sh_degree=3,
        packed=packed,
        tile_size=16,
        render_mode="RGB",
        absgrad=False,
    )
    return image[0]


_matrices: dict[int, tuple[Camera, Tensor]] = {}


def pinhole_matrix(camera: Camera) -> Tensor:
    """The 3x3 intrinsics on the camera's device, made once per camera so that no timing includes it."""
    if id(camera) not in _matrices:
        fx, fy, cx, cy = camera.intrinsics.tolist()
        matrix = camera.intrinsics.new_tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
        _matrices[id(camera)] = (camera, matrix)
    return _matrices[id(camera)][1]


def forget_matrices() -> None:
    """Lets go of the cameras that `pinhole_matrix` has seen."""
    _matrices.clear()


def psnr(image: Tensor, truth: Tensor) -> float:
    """10 log10(1 / mean squared difference); 200 where there is none."""
    mean_square = (image.double() - truth.double()).square().mean().item()
    return min(200.0, -10 * math.log10(mean_square)) if mean_square > 0 else 200.0


def gradients(
    gaussians: Gaussians, image_of: Callable[[Gaussians], Tensor], g_image: Tensor
) -> dict[str, Tensor]:
    """The gradients of sum(image * g_image) by the raw parameters."""
    leaves = gaussians.detach().requires_grad_()
    image_of(leaves).backward(g_image)
    found = {name: tensor.grad for name, tensor in leaves.tensors().items()}
    return {name: torch.zeros(()) if grad is None else grad for name, grad in found.items()}


def relative_errors(found: dict[str, Tensor], truth: dict[str, Tensor]) -> dict[str, float]:
    """||found - truth|| / ||truth|| per parameter, in float64."""
    return {
        name: ((found[name].double() - true.double()).norm() / true.double().norm().clamp_min(1e-300)).item()
        for name, true in truth.items()
    }


def sample_tiles(camera: Camera, count: int) -> tuple[list[int], Tensor]:
    """``count`` random whole tiles of 16x16 pixels and the mask of their pixels, [H, W]."""
    across, down = -(-camera.width // 16), -(-camera.height // 16)
    whole = (camera.width // 16, camera.height // 16)
    every = torch.randperm(across * down, generator=torch.Generator().manual_seed(7)).tolist()
    tiles = [t for t in every if t % across < whole[0] and t // across < whole[1]][:count]
    mask = torch.zeros(camera.height, camera.width, dtype=torch.bool)
    for tile in tiles:
        row, column = divmod(tile, across)
        mask[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16] = True
    return tiles, mask.to(camera.intrinsics.device)


def quality_of_images(
    gaussians: Gaussians, cameras: list[Camera], with_gsplat: bool, tile_count: int
) -> dict[str, Any]:
    """PSNRs; over several cameras the lowest counts. The reference is asked for the first camera."""
    out: dict[str, Any] = {}
    with torch.no_grad():
        inputs = activated(gaussians)
        if with_gsplat:
            pairs = [
                (render_luxel(gaussians, camera, GSPLAT_MAX_ALPHA), render_gsplat(inputs, camera, False))
                for camera in cameras
            ]
            out["luxel_to_gsplat"] = min(psnr(a, b) for a, b in pairs)
            out["luxel_to_gsplat_mean_abs"] = max((a - b).abs().mean().item() for a, b in pairs)
            out["luxel_to_gsplat_max_abs"] = max((a - b).abs().max().item() for a, b in pairs)
        camera = cameras[0]
        tiles, mask = sample_tiles(camera, tile_count)
        exact, in_double = gaussians.to(torch.float64), camera.to(torch.float64)
        for name, cap in (("gsplat's cap", GSPLAT_MAX_ALPHA), ("default cap", 0.99)):
            truth = rasterize_reference(exact, in_double, sh_degree=3, max_alpha=cap, tiles=tiles).rgb[mask]
            if cap == GSPLAT_MAX_ALPHA:
                out["mean_of_reference"] = truth.mean().item()
                if with_gsplat:
                    out["gsplat_to_reference"] = psnr(render_gsplat(inputs, camera, False)[mask], truth)
            out[f"luxel_to_reference, {name}"] = psnr(render_luxel(gaussians, camera, cap)[mask], truth)
        out["luxel_to_reference"] = out["luxel_to_reference, default cap"]
    return out


def quality_of_gradients(
    gaussians: Gaussians, camera: Camera, with_gsplat: bool, tile_count: int
) -> dict[str, dict[str, float]]:
    """Relative errors of the gradients, per pair and parameter."""
    generator = torch.Generator(gaussians.device).manual_seed(11)
    g_image = torch.randn(camera.height, camera.width, 3, generator=generator, device=gaussians.device)
    out: dict[str, dict[str, float]] = {}

    def luxel(g: Gaussians) -> Tensor:
        return render_luxel(g, camera, GSPLAT_MAX_ALPHA)

    def gsplat(g: Gaussians) -> Tensor:
        return render_gsplat(activated(g), camera, False)

    if with_gsplat:
        ours = gradients(gaussians, luxel, g_image)
        out["luxel_to_gsplat"] = relative_errors(ours, gradients(gaussians, gsplat, g_image))
        del ours
    tiles, mask = sample_tiles(camera, tile_count)
    g_image = g_image * mask[..., None]

    def reference(g: Gaussians) -> Tensor:
        return rasterize_reference(
            g, camera.to(torch.float64), sh_degree=3, max_alpha=GSPLAT_MAX_ALPHA, tiles=tiles
        ).rgb

    truth = gradients(gaussians.to(torch.float64), reference, g_image.double())
    out["luxel_to_reference"] = relative_errors(gradients(gaussians, luxel, g_image), truth)
    if with_gsplat:
        out["gsplat_to_reference"] = relative_errors(gradients(gaussians, gsplat, g_image), truth)
    return out
