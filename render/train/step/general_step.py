"""One training step by autograd, with any rasterizer and views of any size: gather, render, loss, Adam.

Like the fused step it takes everything that differs between steps from the table, so that it can be captured
and replayed if the rasterizer does not wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.train.adam import scheduled_adam_
from luxel.render.ops.train.gather_view import (
    ADAM,
    BACKGROUND,
    TIME,
    count_step_,
)
from luxel.render.ops.train.loss import photometric_loss
from luxel.render.primitives.terms import StepImages
from luxel.render.raster.rasterize import DensifyStatistics, Frame
from luxel.render.train.step.fused_step import (
    FULL_GRADIENT,
    StepContext,
    StepOutput,
    add_noise,
    renew,
)
from luxel.render.train.step.terms.rows import row_terms
from luxel.render.train.step.timeline import ScheduleValues
from luxel.render.train.step.view_maps import ViewMaps, update_models_
from luxel.render.train.store.protocol import BETAS, EPS
from luxel.render.train.views.dataset import ImageStack, Target


def general_step(
    render: Callable[..., Frame],
    context: StepContext,
    stacks: Sequence[Callable[[], ImageStack]],
    schedule: ScheduleValues,
) -> StepOutput:
    """A step over one view or several; the loss is their mean.

    Args:
        render: renders with gradients by autograd, called like `luxel.render.raster.rasterize.rasterize`.
        context: tensors and options. With a capacity nothing waits for the device, and if a view needs more tile
            instances, nothing changes and ``status`` is set.
        stacks: return the image stack of each view in order; the table has one row per view.
        schedule: schedule values of the step.
    """
    config, store, active = context.config, context.store, context.terms
    waits = context.capacity is None
    params, first, second = context.rows
    scene = store.primitives(params).map(lambda t: t.detach().requires_grad_())
    absolute = schedule.counts and config.strategy.absolute
    frames: list[Frame] = []
    stats: list[Tensor] = []
    losses: list[Tensor] = []
    weighted: dict[str, list[Tensor]] = {}  # values of terms that weigh themselves, of each view
    rows: list[Tensor] = []  # of the table
    maps: list[ViewMaps] = []  # of each view
    terms: list[Tensor] = []
    views = len(stacks)
    for k, take in enumerate(stacks):
        if k:
            context.table[0, 0] += 1
        target, row = take().gather(context.table)
        rows.append(row)
        maps.append(ViewMaps(context.models, row[None]))
        world_to_cam, shutters = maps[-1].cameras(target.camera.world_to_cam[None])
        shutter = None if shutters is None else shutters[0]
        camera = replace(target.camera, world_to_cam=world_to_cam[0], shutter=shutter)
        options: dict[str, Any] = {} if waits else {"max_instances": context.capacity}
        if schedule.counts:
            stored = context.statistics.data[: scene.count]
            # With one view that cannot stall, statistics are accumulated directly.
            stats.append(stored if waits and views == 1 else torch.zeros_like(stored))
            options["statistics"] = DensifyStatistics(stats[-1])
        if config.suppress_floaters:
            options["full_gradient_depth"] = FULL_GRADIENT * context.extent
        frame = render(
            scene,
            camera,
            time=row[TIME],
            background=row[BACKGROUND],
            sh_degree=schedule.sh_degree,
            antialiased=config.antialiased,
            absolute_gradients=absolute,
            deterministic=config.deterministic,
            depth=active.with_depth,
            **({"normals": True, "planes": scene.planar} if active.with_normals else {}),
            **options,
        )
        frames.append(frame)
        through = None if target.alpha is None else _through(frame)[None]
        shown = maps[-1].shown(frame.rgb[None], through).squeeze(0)
        target = _counted(context, shown, target, row)
        losses.append(photometric_loss(shown, target.rgb, target.weight, config.loss.ssim_weight))
        for each in active.weighted:
            value = each.term.apply(_images(frame, camera, target), each.weight(row))
            if value is not None:
                weighted.setdefault(each.term.name, []).append(value)
        if active.of_images:
            images = _images(frame, camera, target)
            values = [(each.term.apply(images), each.of_view) for each in active.of_images]
            terms += [weight * value for value, weight in values if value is not None]
    photometric = losses[0] if views == 1 else torch.stack(losses).mean()
    weights = context.models.weights_of(torch.stack(rows))
    loss = photometric if weights is None else (torch.stack(losses) * weights).mean()
    touched = [frame.tile_counts[0] > 0 for frame in frames]
    visible = touched[0] if views == 1 else torch.stack(touched).any(0)
    renew(context, scene)
    of_rows = row_terms(active, scene, store.inverse_count, lambda: visible, context.auxiliary)
    terms += [weight * value for value, weight in of_rows]
    means = {name: torch.stack(values).mean() for name, values in weighted.items()}
    loss = sum((*terms, *means.values()), loss)
    inputs = [*scene.tensors().values(), *(p for each in maps for p in each.parameters.values())]
    gradients = torch.autograd.grad(loss, inputs, allow_unused=True)
    gradients, g_views = gradients[: len(scene.names)], gradients[len(scene.names) :]
    if waits:
        context.table[0, 0] += 1
        context.status[0] += 1
    else:
        overflow = _largest([_given(frame.overflow) for frame in frames])
        totals = _largest([_given(frame.totals) for frame in frames])
        count_step_(overflow, totals, context.table, context.status)
    moved = {
        name: gradient
        for name, gradient in zip(scene.names, gradients, strict=True)
        if gradient is not None and gradient.numel() and (name != "sh_rest" or schedule.moves_sh_rest)
    }
    if moved:
        scheduled_adam_(
            [params[name] for name in moved],
            list(moved.values()),
            [first[name] for name in moved],
            [second[name] for name in moved],
            [scene.names.index(name) for name in moved],
            row[ADAM][: len(scene.names) + 2],
            BETAS,
            EPS,
            visible if config.sparse_adam else None,
            context.status[1:2],
        )
    remaining = iter(g_views)
    for each in maps:
        each.gradients = {name: next(remaining) for name in each.parameters}
    update_models_(maps, row, context.status[1:2])
    if stats and not (waits and views == 1):
        _add_statistics(context, stats)
    add_noise(context, scene.tensors(), row)
    shown, through = shown.detach(), _through(frame).detach()
    depth = means.get("depth")
    return StepOutput(photometric.detach(), shown, through, target, None if depth is None else depth.detach())


def _counted(context: StepContext, image: Tensor, target: Target, row: Tensor) -> Target:
    """`ViewModels.counted` of one view, without a leading dimension."""
    if not context.models.ignore_transients:
        return target
    weight = None if target.weight is None else target.weight[None]
    counted = context.models.counted(image[None], target._replace(rgb=target.rgb[None], weight=weight), row)
    return target._replace(rgb=counted.rgb[0], weight=_given(counted.weight)[0])


def _images(frame: Frame, camera: Camera, target: Target) -> StepImages:
    """The images of one view, with a leading dimension."""
    given = target.rgb, target.weight, target.alpha, target.depth
    targets, weight, known_alpha, known_depth = (None if t is None else t[None] for t in given)
    depth: Any = None if frame.depth is None else (frame.depth * frame.alpha)[None]
    normals: Any = None if frame.normals is None else frame.normals[None]
    return StepImages(
        depth=depth,
        square=None if frame.square_depth is None else frame.square_depth[None],
        normals=normals,
        transmittance=_through(frame)[None],
        weight=weight,
        world_to_cam=camera.world_to_cam.detach()[None],
        intrinsics=camera.calibration[None],
        distance=None if frame.plane_distance is None else frame.plane_distance[None],
        targets=targets,
        rgb=frame.rgb[None],
        known_alpha=known_alpha,
        known_depth=known_depth,
    )


def _through(frame: Frame) -> Tensor:
    """Transmittance of a frame, [H, W]."""
    return 1 - frame.alpha if frame.transmittance is None else frame.transmittance


def _add_statistics(context: StepContext, stats: Sequence[Tensor]) -> None:
    """Adds the statistics of a step for densification; of several views their sum or the maximum, see `Strategy`."""
    largest = _largest(stats)
    if context.config.strategy.sums_views and len(stats) > 1:
        largest = torch.cat([torch.stack(list(stats)).sum(0)[:, :3], largest[:, 3:]], dim=1)
    step = torch.where(context.status[1] == 0, largest, 0.0)
    stored = context.statistics.data[: step.shape[0]]
    stored[:, :3].add_(step[:, :3])
    stored[:, 3].clamp_(min=step[:, 3])  # a size: 0 changes nothing


def _largest(each: Sequence[Tensor]) -> Tensor:
    return each[0] if len(each) == 1 else torch.stack(list(each)).amax(0)


def _given(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "a rasterizer with a capacity returns totals and overflow"
    return tensor
