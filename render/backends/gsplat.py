"""gsplat (Ye et al. 2024, "gsplat: An Open-Source Library for Gaussian Splatting") behind luxel's own call.

Conventions agree: pixel centres, camera axes, dilation, near and far, antialiasing, spherical harmonics. What differs:

* alpha of one splat at a pixel is capped at 0.999, regardless of ``max_alpha`` (0.99 in luxel);
* a splat ends at 3.33 standard deviations at most, so an opaque one may lose its rim of alpha under 1/255;
* median depth and screen splats are None; normals, features, counts per pixel and deterministic sums are refused;
* pose gradients agree along rigid motions only (its camera centre is that of a general inverse, luxel's is -R^T t):
  a gradient by the matrix [R | t] that is not projected onto them differs;
* it allocates what a frame needs and waits for its size, so ``max_instances`` has no meaning and is ignored.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.backends.gpu import require_gpu
from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import require_pinhole
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import DensifyStatistics, Frame

MAX_ALPHA = 0.999  # fixed in its kernels
_TILE = 16


def require(device: torch.device | str | None = None) -> None:
    """Checks that gsplat can draw here.

    Args:
        device: where it is to draw; None: on any GPU.

    Raises:
        LuxelError: it is not installed, there is no GPU, or the device is not a GPU.
    """
    if importlib.util.find_spec("gsplat") is None:
        raise LuxelError("The gsplat backend is not installed.", "pip install 'luxel[gsplat]'")
    require_gpu("gsplat", device)


class Activated(NamedTuple):
    """The parameters as gsplat takes them; computing them takes time that benchmarks must account for."""

    means: Tensor  # [N, 3]
    quats: Tensor  # [N, 4] wxyz, of any length
    scales: Tensor  # [N, 3]
    opacities: Tensor  # [N]
    colors: Tensor  # [N, K, 3] spherical harmonics


def activate(gaussians: Gaussians) -> Activated:
    """Exponentials, sigmoids and one tensor of coefficients; differentiable."""
    colors = torch.cat([gaussians.sh_dc[:, None], gaussians.sh_rest], dim=1)
    return Activated(gaussians.means, gaussians.quats, gaussians.scales, gaussians.opacities, colors)


def pinhole_matrices(camera: Camera) -> Tensor:
    """Intrinsic matrices, [C, 3, 3], made on the camera's device without waiting for it.

    Raises:
        LuxelError: the camera has a lens.
    """
    require_pinhole(camera, "The gsplat backend")
    intrinsics = camera.intrinsics if camera.batched else camera.intrinsics[None]
    matrices = torch.diag_embed(torch.nn.functional.pad(intrinsics[:, :2], (0, 1), value=1.0))
    matrices[:, :2, 2] = intrinsics[:, 2:]
    return matrices


def rasterize(
    gaussians: Gaussians,
    camera: Camera,
    *,
    time: float | Tensor | None = None,
    background: Tensor | None = None,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = 0.3,
    max_alpha: float = MAX_ALPHA,
    depth: bool = False,
    normals: bool = False,
    count: bool = False,
    features: Tensor | None = None,
    statistics: DensifyStatistics | None = None,
    absolute_gradients: bool = False,
    deterministic: bool = False,
    max_instances: int | None = None,
) -> Frame:
    """Draws Gaussians as `luxel.render.raster.rasterize.rasterize` does, with gsplat's kernels.

    Args:
        gaussians, camera, background, sh_degree, antialiased, dilation, depth, statistics, absolute_gradients: as
            there. Statistics have its units; with ``retain_graph`` absolute gradients are counted once.
        time, max_alpha, max_instances: ignored (see the top of this file).
        normals, count, features, deterministic: must be left out.

    Returns:
        Frame; median_depth, normals, features, count, splats, totals and overflow are None.

    Raises:
        LuxelError: gsplat cannot draw here, or does not support an option (a ValueError too).
        ValueError: shapes and float types that it does not take.
    """
    refused = {
        "normals": normals,
        "count": count,
        "features": features is not None,
        "deterministic": deterministic,
    }
    if any(refused.values()):
        names = " and ".join(name for name, requested in refused.items() if requested)
        raise LuxelError(f"The gsplat backend has no {names}.", "Draw with luxel's own backend.")
    if not isinstance(gaussians, Gaussians):
        raise LuxelError(f"The gsplat backend draws no {gaussians.noun}.", "Draw with luxel's own backend.")
    if gaussians.means.dtype != torch.float32:
        raise ValueError(f"gaussians must be float32 for the gsplat backend, got {gaussians.means.dtype}")
    require(gaussians.device)
    return rasterize_activated(
        activate(gaussians),
        camera,
        background=background,
        sh_degree=gaussians.sh_degree if sh_degree is None else min(sh_degree, gaussians.sh_degree),
        antialiased=antialiased,
        dilation=dilation,
        depth=depth,
        statistics=statistics,
        absolute_gradients=absolute_gradients and statistics is not None,
    )


def rasterize_activated(
    inputs: Activated,
    camera: Camera,
    *,
    sh_degree: int,
    background: Tensor | None = None,
    antialiased: bool = False,
    dilation: float = 0.3,
    depth: bool = False,
    statistics: DensifyStatistics | None = None,
    absolute_gradients: bool = False,
    packed: bool = False,
    matrices: Tensor | None = None,
) -> Frame:
    """The same from activated parameters.

    Args:
        sh_degree: at most what the coefficients hold.
        packed: gsplat's layout for scenes of which a camera sees little; does not support statistics.
        matrices: `pinhole_matrices` of the camera, if already computed.
    """
    poses = (camera.world_to_cam if camera.batched else camera.world_to_cam[None]).to(inputs.means)
    cameras, count = poses.shape[0], inputs.means.shape[0]
    if background is not None and background.shape not in ((3,), (cameras, 3)):
        raise ValueError(f"background must be [3] or [{cameras}, 3], got {list(background.shape)}")
    if statistics is not None and packed:
        raise ValueError("statistics must be None where packed is True: gsplat's packed layout has none")
    behind = None if background is None else background.to(inputs.means).expand(cameras, 3)
    # squeeze is a view; the gradient of t[0] would copy the image, which would distort comparisons with gsplat.
    one = (lambda t: t) if camera.batched else (lambda t: t.squeeze(0))
    if count == 0:
        return _nothing(inputs.means, camera, cameras, behind, depth, one)
    image, alpha, meta = call(
        **inputs._asdict(),
        viewmats=poses,
        Ks=pinhole_matrices(camera).to(inputs.means) if matrices is None else matrices,
        width=camera.width,
        height=camera.height,
        near_plane=camera.near,
        far_plane=camera.far,
        eps2d=dilation,
        sh_degree=sh_degree,
        packed=packed,
        tile_size=_TILE,
        backgrounds=behind,
        render_mode="RGB+ED" if depth else "RGB",
        absgrad=absolute_gradients,
        rasterize_mode="antialiased" if antialiased else "classic",
    )
    if statistics is not None and meta["means2d"].requires_grad:
        _count_in_backward(statistics, meta, camera.width, camera.height, absolute_gradients)
    rgb, seen_depth = (image[..., :3], image[..., 3]) if depth else (image, None)
    return _frame(one, rgb, alpha[..., 0], seen_depth, meta["tiles_per_gauss"])


def library() -> ModuleType:
    """The module `gsplat`.

    Raises:
        LuxelError: it cannot be imported.
    """
    try:
        return importlib.import_module("gsplat")
    except ImportError as error:
        raise LuxelError(
            f"gsplat is installed but cannot be imported ({error}).",
            "pip install --force-reinstall 'luxel[gsplat]'",
        ) from error


def call(**arguments: Any) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Calls gsplat.rasterization; an error of the installation is raised as a LuxelError."""
    module = library()
    try:
        return module.rasterization(**arguments)
    except AttributeError as error:
        if "NoneType" not in str(error):
            raise
        raise LuxelError(  # it compiles its kernels at first use, and continues without them
            "gsplat found no CUDA toolkit to compile its kernels with.",
            "Install one, or set CUDA_HOME to the folder of one, and start again.",
        ) from error


def _count_in_backward(
    statistics: DensifyStatistics, meta: dict, width: int, height: int, absolute: bool
) -> None:
    """Adds to the statistics when the gradient of the screen positions is known, in luxel's units."""
    means2d, conics, opacities = (meta[name].detach() for name in ("means2d", "conics", "opacities"))
    # gsplat leaves absolute gradients on this very tensor. A hook that kept it would be a reference cycle that
    # holds GPU memory, so the tensor is released when the hook has run.
    retained: list[Tensor] = [meta["means2d"]] if absolute else []
    radii, tiles = meta["radii"], meta["tiles_per_gauss"]

    def norm(gradient: Tensor) -> Tensor:  # [C, N, 2] per pixel -> [N] per half an image
        scaled = torch.hypot(0.5 * width * gradient[..., 0], 0.5 * height * gradient[..., 1])
        return torch.where(tiles > 0, scaled, 0.0).sum(0)

    def add(gradient: Tensor) -> None:
        with torch.no_grad():
            a, b, c = conics.unbind(-1)
            reach = (2 * (255 * opacities).log() / (a * c - b * b)).clamp_min(0)
            extent = (reach[..., None] * torch.stack([c, a], -1)).sqrt()  # the box of alpha >= 1/255, px
            low, high = means2d - extent, means2d + extent
            inside = (low[..., 0] < width) & (low[..., 1] < height) & (high > 0).all(-1)
            visible = inside & (radii > 0).all(-1) & (tiles > 0)
            radius = torch.where(visible, extent.amax(-1), 0.0).amax(0) / max(width, height)
            data = statistics.data
            data[:, 0] += norm(gradient)
            if retained:
                data[:, 1] += norm(retained.pop().absgrad)  # pyright: ignore[reportAttributeAccessIssue]
            data[:, 2] += visible.sum(0)
            torch.maximum(data[:, 3], radius, out=data[:, 3])

    meta["means2d"].register_hook(add)


def _nothing(
    like: Tensor,
    camera: Camera,
    cameras: int,
    behind: Tensor | None,
    depth: bool,
    one: Callable[[Tensor], Tensor],
) -> Frame:
    """The frame of no Gaussians."""
    alpha = like.new_zeros(cameras, camera.height, camera.width)
    rgb = alpha[..., None].expand(*alpha.shape, 3)
    tiles = torch.zeros(cameras, 0, dtype=torch.int32, device=like.device)
    rgb = rgb if behind is None else rgb + behind[:, None, None]
    return _frame(one, rgb, alpha, alpha if depth else None, tiles)


def _frame(
    one: Callable[[Tensor], Tensor], rgb: Tensor, alpha: Tensor, depth: Tensor | None, tile_counts: Tensor
) -> Frame:
    """The outputs of gsplat as a frame; ``one`` removes the leading C of a single camera."""
    return Frame(
        rgb=one(rgb),
        transmittance=None,
        given_alpha=one(alpha),
        depth=None if depth is None else one(depth),
        median_depth=None,
        normals=None,
        features=None,
        count=None,
        splats=None,
        tile_counts=tile_counts,
        totals=None,
        overflow=None,
    )
