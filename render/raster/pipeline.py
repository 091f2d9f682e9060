"""The stages of the tile rasterizer, project -> bin -> blend, as `rasterize` and the fused training step call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.first_order import first_order, has_saved_tensor_hooks
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import (
    Blended,
    BlendInputs,
    BlendSettings,
    blend_splats_bwd,
    blend_splats_fwd,
)
from luxel.render.primitives.parameters import Parameters, Projected, Viewing

DILATION = 0.3  # px^2 on the diagonal of screen covariances
MAX_ALPHA = 0.99  # of one splat at a pixel
SPARE = 256  # capacity above the need of the last similar frame, besides a quarter

Rendered = TypeVar("Rendered")


class TileLists(NamedTuple):
    """Per tile the splats that touch it, nearest first; see `bin_splats`."""

    instances: Tensor  # [capacity] int32
    ranges: Tensor  # [C T, 2] int32
    overflow: Tensor  # [1] int32: whether the capacity was too small
    plan: Tensor  # how the GPU splits long lists


def viewing(
    scene: Parameters,
    camera: Camera,
    *,
    time: float | Tensor | None = None,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = DILATION,
    depth: bool = False,
    normals: bool = False,
) -> Viewing:
    """The cameras and options of a projection, in the float type and on the device of the scene.

    Args:
        scene: N primitives.
        camera: a camera or C of them.
        time, sh_degree, antialiased, dilation, depth, normals: see `luxel.render.raster.rasterize.rasterize`.

    Raises:
        ValueError: a scene that moves without a time, or times of another shape.
    """
    single = not camera.batched
    world_to_cam = camera.world_to_cam[None] if single else camera.world_to_cam
    intrinsics = camera.calibration[None] if single else camera.calibration
    dtype, device = scene.opacity_logits.dtype, scene.opacity_logits.device
    shutters = camera.shutter
    if shutters is not None:
        shutters = (shutters[None] if single else shutters).to(device=device, dtype=dtype)
    return Viewing(
        world_to_cam=world_to_cam.to(device=device, dtype=dtype),
        intrinsics=intrinsics.to(device=device, dtype=dtype),
        times=_times(time, scene, world_to_cam.shape[0], single) if scene.moves else None,
        width=camera.width,
        height=camera.height,
        near=camera.near,
        far=camera.far,
        sh_degree=scene.sh_degree if sh_degree is None else sh_degree,
        dilation=dilation,
        antialiased=antialiased,
        with_depth=depth,
        with_normals=normals,
        shutters=shutters,
    )


def _times(time: float | Tensor | None, scene: Parameters, cameras: int, single: bool) -> Tensor:
    """The time of each camera, [C]."""
    if time is None:
        raise ValueError(f"time must be given: {scene.noun} move")
    logits = scene.opacity_logits
    if not isinstance(time, Tensor):
        return logits.new_full((cameras,), time)
    if time.shape not in ((),) + (((cameras,),) if not single else ()):
        expected = "[]" if single else f"[] or [{cameras}]"
        raise ValueError(f"time must be {expected}, got {list(time.shape)}")
    return time.to(logits).expand(cameras)


def project(scene: Parameters, view: Viewing, statistics: Tensor | None = None) -> Projected:
    """Projects primitives to the screen; differentiable.

    Args:
        scene: N primitives.
        view: C cameras and options of the projection.
        statistics: [N, 4], updated by the backward pass; see `luxel.render.raster.rasterize.DensifyStatistics`.
    """
    return scene.project(view, statistics)


def gradient_scale(projected: Projected, depth: float) -> Tensor:
    """Factors of the gradients by splats near a camera: min(1, (z / depth)^2), [C, N, 1].

    What is near a camera fills much of its image and is observed by few others, so an image that differs from the
    others is easily fitted there. Philip & Deschaintre 2023, "Floaters No More"; for Gaussians Zhang et al. 2024,
    "Pixel-GS", sec. 3.4.

    Args:
        projected: see `project`.
        depth: camera z from which on gradients count fully, capture units.
    """
    scale = (projected.splats.detach()[..., 3:4] / depth).square().clamp_max(1)
    return torch.where(projected.tile_counts[..., None] > 0, scale, 1.0)  # the others have no depth


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale, values)
        return values.view_as(values)

    @staticmethod
    def _gradient(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.saved_tensors[0], None

    backward = staticmethod(first_order("the scaled gradients of a rendered image", _gradient))


def with_scaled_gradients(projected: Projected, depth: float) -> Projected:
    """The same splats and values; their gradients are multiplied by `gradient_scale`."""
    scale = gradient_scale(projected, depth)
    splats, values = (_ScaledGradient.apply(t, scale) for t in (projected.splats, projected.values))
    return projected._replace(splats=splats, values=values)


def bin_tiles(
    projected: Projected, settings: BlendSettings, *, visible_capacity: int, capacity: int
) -> TileLists:
    """Sorts (tile, splat) pairs by tile and depth.

    Args:
        projected: see `project`.
        settings: image size and policy.
        visible_capacity: capacity for visible splats, all cameras together.
        capacity: (tile, splat) pairs, all cameras together; ``overflow`` is set where more are needed.
    """
    instances, ranges, overflow, plan = bin_splats(
        projected.splats,
        projected.tile_counts,
        projected.totals,
        width=settings.width,
        height=settings.height,
        visible_capacity=visible_capacity,
        capacity=capacity,
        primitive=settings.policy,
    )
    return TileLists(instances, ranges, overflow, plan)


_CAPACITIES: dict[
    tuple[Any, ...], tuple[int, int]
] = {}  # visible splats, instances: by device, shapes and image size


def with_capacity(
    draw: Callable[[int, int], Rendered], projected: Projected, settings: BlendSettings
) -> Rendered:
    """Draws with the capacity that earlier frames of this kind needed, and checks afterwards whether it sufficed.

    So the device is not idle while the host waits for the exact numbers; the first frame of a kind, and one that
    needs more, is rendered with those.

    Args:
        draw: from capacity for visible splats and for (tile, splat) pairs, see `bin_tiles`; called once more where the
            first room did not suffice.
        projected: see `project`.
        settings: image size.
    """
    totals, known = projected.totals, projected.totals.is_cuda and not torch.compiler.is_compiling()
    # torch.utils.checkpoint renders again, and expects the same tensors to be saved: no second attempt then.
    known = known and not has_saved_tensor_hooks()
    key = (totals.device, *projected.tile_counts.shape, settings.width, settings.height)
    capacities = _CAPACITIES.get(key) if known else None
    if capacities is None:
        needed = totals.tolist()
        rendered = draw(*needed)
    else:
        on_host = torch.empty(2, dtype=totals.dtype, pin_memory=True).copy_(totals, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record(torch.cuda.current_stream(totals.device))
        rendered = draw(*capacities)
        copied.synchronize()
        needed = on_host.tolist()
        if any(n > r for n, r in zip(needed, capacities, strict=True)):
            rendered = draw(*needed)
    if known:
        if len(_CAPACITIES) >= 64:  # counts change while a scene grows
            _CAPACITIES.clear()
        # A quarter more than needed; decreases slowly, since the need varies from view to view.
        visible, instances = (
            max(n + n // 4 + SPARE, r - r // 16) for n, r in zip(needed, capacities or (0, 0), strict=True)
        )
        _CAPACITIES[key] = visible, instances
    return rendered


def blend(
    projected: Projected,
    lists: TileLists,
    background: Tensor | None,
    settings: BlendSettings,
    *,
    median: bool = False,
    count: bool = False,
    keep: bool | None = None,
) -> Blended:
    """Blends values front to back; differentiable.

    Args:
        projected, lists: see `project` and `bin_tiles`.
        background: [C, D]; None: 0.
        settings: see `BlendSettings`.
        median, count: fill ``median_depth`` and ``contributors``, which otherwise are empty.
        keep: fill ``last`` and ``states``, which `blend_backward` needs; None: if autograd will.
    """
    inputs = _blend_inputs(projected, lists, background)
    return blend_splats_fwd(inputs, settings, median=median, tally=count, keep=keep)


def _blend_inputs(projected: Projected, lists: TileLists, background: Tensor | None) -> BlendInputs:
    return BlendInputs(
        projected.splats, projected.values, background, lists.instances, lists.ranges, lists.plan
    )


def blend_backward(
    projected: Projected,
    lists: TileLists,
    background: Tensor | None,
    settings: BlendSettings,
    blended: Blended,
    g_image: Tensor,
    g_transmittance: Tensor | None,
    *,
    raw_moments: bool = False,
) -> tuple[Tensor, Tensor]:
    """The gradients by splats [C, N, R] and values [C, N, D], without autograd.

    Args:
        projected, lists, background, settings: as given to `blend`.
        blended: its result with ``keep``.
        g_image: [C, H, W, D].
        g_transmittance: [C, H, W]; None: 0.
        raw_moments: return sums over pixels that the backward of the projection completes (convexes on a GPU only).
    """
    g_splats, g_values, _ = blend_splats_bwd(
        _blend_inputs(projected, lists, background),
        settings,
        blended,
        g_image,
        g_transmittance,
        of_background=False,
        raw_moments=raw_moments,
    )
    return g_splats, g_values
