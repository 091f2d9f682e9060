"""The stages of the tile rasterizer, project -> bin -> blend, as `rasterize` and the fused training step call them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import Blended, blend_splats_bwd, blend_splats_fwd
from luxel.render.primitives.parameters import Parameters, Projected, Viewing


class TileLists(NamedTuple):
    """Per tile the splats that touch it, nearest first; see `bin_splats`."""

    instances: Tensor  # [capacity] int32
    ranges: Tensor  # [C T, 2] int32
    overflow: Tensor  # [1] int32: whether the capacity was too small
    plan: Tensor  # how the GPU splits long lists


class BlendSettings(NamedTuple):
    """What forward and backward of blending have in common; see `blend_splats`."""

    policy: str
    width: int
    height: int
    max_alpha: float
    absolute: bool
    deterministic: bool


def project(scene: Parameters, view: Viewing, statistics: Tensor | None = None) -> Projected:
    """Projects primitives to the screen; differentiable.

    Args:
        scene: N primitives.
        view: C cameras and options of the projection.
        statistics: [N, 4], updated by the backward pass; see `luxel.render.rasterize.DensifyStatistics`.
    """
    return scene.project(view, statistics)


def bin_tiles(
    projected: Projected, settings: BlendSettings, *, visible_capacity: int, capacity: int
) -> TileLists:
    """Sorts (tile, splat) pairs by tile and depth.

    Args:
        projected: see `project`.
        settings: image size and policy.
        visible_capacity: room for visible splats, all cameras together.
        capacity: room for (tile, splat) pairs, all cameras together; ``overflow`` is set where more are needed.
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
    return blend_splats_fwd(
        projected.splats,
        projected.values,
        background,
        lists.instances,
        lists.ranges,
        lists.plan,
        primitive=settings.policy,
        width=settings.width,
        height=settings.height,
        max_alpha=settings.max_alpha,
        absolute=settings.absolute,
        deterministic=settings.deterministic,
        median=median,
        tally=count,
        keep=keep,
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
        projected.splats,
        projected.values,
        background,
        lists.instances,
        lists.ranges,
        lists.plan,
        blended,
        g_image,
        g_transmittance,
        primitive=settings.policy,
        width=settings.width,
        height=settings.height,
        max_alpha=settings.max_alpha,
        absolute=settings.absolute,
        deterministic=settings.deterministic,
        of_background=False,
        raw_moments=raw_moments,
    )
    return g_splats, g_values
