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
    view_numbers,
)
from luxel.render.ops.train.loss import photometric_loss
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.spec import GeometryImages, Term
from luxel.render.raster.rasterize import DensifyStatistics, Frame
from luxel.render.train.step.fused_step import (
    FULL_GRADIENT,
    StepContext,
    StepOutput,
    add_noise,
    auxiliary_terms,
    of_depth,
    regularisers,
    renew,
)
from luxel.render.train.step.objective import alpha_term
from luxel.render.train.step.timeline import ScheduleValues
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
    config, store = context.config, context.store
    waits = context.capacity is None
    params, first, second = context.rows
    scene = store.primitives(params).map(lambda t: t.detach().requires_grad_())
    absolute = schedule.counts and config.strategy.absolute
    frames: list[Frame] = []
    stats: list[Tensor] = []
    losses: list[Tensor] = []
    depths: list[Tensor] = []
    rows: list[Tensor] = []  # of the table
    models = context.models.exposure, context.models.poses, context.models.shutter
    of_view = [model for model in models if model is not None]
    seen: list[Tensor] = []  # numbers of the views
    learnt: list[list[Tensor]] = [[] for _ in of_view]  # parameters of each view
    terms: list[Tensor | float] = []
    views = len(stacks)
    for k, take in enumerate(stacks):
        if k:
            context.table[0, 0] += 1
        target, row = take().gather(context.table)
        rows.append(row)
        camera, exposure, poses = target.camera, context.models.exposure, context.models.poses
        if of_view:
            seen.append(view_numbers(row[None]))
            for model, each in zip(of_view, learnt, strict=True):
                each.append(model.rows(seen[-1]))
        if poses is not None:
            refined = poses.apply(camera.world_to_cam[None], learnt[of_view.index(poses)][-1])[0]
            camera = replace(camera, world_to_cam=refined)
        if (shutter := context.models.shutter) is not None:
            camera = replace(camera, shutter=shutter.apply(seen[-1], learnt[-1][-1])[0])
        options: dict[str, Any] = {} if waits else {"max_instances": context.capacity}
        if schedule.counts:
            held = context.statistics.data[: scene.count]
            # With one view that cannot stall, statistics are accumulated directly.
            stats.append(held if waits and views == 1 else torch.zeros_like(held))
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
            depth=target.depth is not None or bool(schedule.geometry),
            **({"normals": True, "planes": scene.planar} if schedule.geometry else {}),
            **options,
        )
        frames.append(frame)
        shown = frame.rgb
        if exposure is not None:
            through = None if target.alpha is None else _through(frame)[None]
            shown = exposure.apply(shown[None], learnt[0][-1], through, row[None, BACKGROUND])[0]
        target = _counted(context, shown, target, row)
        losses.append(photometric_loss(shown, target.rgb, target.weight, config.loss.ssim_weight))
        if target.alpha is not None:
            alpha = alpha_term(frame.alpha, target, config.loss)
            terms.append(alpha if views == 1 else alpha / views)
        if target.depth is not None:
            depths.append(_of_depth(context, frame, target, row))
        if schedule.geometry:
            for weight, value in _geometry_terms(context, frame, camera, target, schedule.geometry):
                terms.append(weight / views * value)
    photometric = losses[0] if views == 1 else torch.stack(losses).mean()
    weights = context.models.weights_of(torch.stack(rows))
    weighted = photometric if weights is None else (torch.stack(losses) * weights).mean()
    touched = [frame.tile_counts[0] > 0 for frame in frames]
    visible = touched[0] if views == 1 else torch.stack(touched).any(0)
    terms += [weight * value for weight, value in regularisers(context, scene, visible, schedule)]
    renew(context, scene)
    terms += [weight * value for weight, value in auxiliary_terms(context, scene, visible)]
    depth = torch.stack(depths).mean() if depths else None
    terms += [] if depth is None else [depth]
    loss = sum((term for term in terms if isinstance(term, Tensor)), weighted)
    inputs = [*scene.tensors().values(), *(parameters for each in learnt for parameters in each)]
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
    for i, model in enumerate(of_view):
        g_model = torch.cat(list(g_views[i * views : (i + 1) * views]))
        model.update_(torch.cat(seen), g_model, row, context.status[1:2])
    if stats and not (waits and views == 1):
        _add_statistics(context, stats)
    add_noise(context, scene.tensors(), row)
    shown, through = shown.detach(), _through(frame).detach()
    return StepOutput(photometric.detach(), shown, through, target, None if depth is None else depth.detach())


def _counted(context: StepContext, image: Tensor, target: Target, row: Tensor) -> Target:
    """`ViewModels.counted` of one view, without a leading dimension."""
    if not context.models.ignore_transients:
        return target
    weight = None if target.weight is None else target.weight[None]
    counted = context.models.counted(image[None], target._replace(rgb=target.rgb[None], weight=weight), row)
    return target._replace(rgb=counted.rgb[0], weight=_given(counted.weight)[0])


def _of_depth(context: StepContext, frame: Frame, target: Target, row: Tensor) -> Tensor:
    """`of_depth` of one view, without a leading dimension."""
    assert frame.depth is not None, "a rasterizer that is asked for depth returns it"
    one = target._replace(
        depth=_given(target.depth)[None], weight=None if target.weight is None else target.weight[None]
    )
    accumulated = (frame.depth * frame.alpha)[None]
    return of_depth(context, accumulated, 1 - frame.alpha[None], one, row).loss


def _geometry_terms(
    context: StepContext, frame: Frame, camera: Camera, target: Target, names: tuple[str, ...]
) -> list[Term]:
    """The terms of the geometry of one view, see `PrimitiveEngine.geometry`."""
    assert frame.depth is not None and frame.normals is not None
    images = GeometryImages(
        depth=(frame.depth * frame.alpha)[None],
        square=None if frame.square_depth is None else frame.square_depth[None],
        normals=frame.normals[None],
        transmittance=_through(frame)[None],
        weight=None if target.weight is None else target.weight[None],
        world_to_cam=camera.world_to_cam.detach()[None],
        intrinsics=camera.calibration[None],
        distance=None if frame.plane_distance is None else frame.plane_distance[None],
        rgb=target.rgb[None],
    )
    return PRIMITIVES[context.config.primitive].engine.geometry(images, context.config.loss, names)


def _through(frame: Frame) -> Tensor:
    """Transmittance of a frame, [H, W]."""
    return 1 - frame.alpha if frame.transmittance is None else frame.transmittance


def _add_statistics(context: StepContext, stats: Sequence[Tensor]) -> None:
    """Adds the statistics of a step for densification; of several views the maximum (Duan et al. 2024)."""
    step = torch.where(context.status[1] == 0, _largest(stats), 0.0)
    held = context.statistics.data[: step.shape[0]]
    held[:, :3].add_(step[:, :3])
    held[:, 3].clamp_(min=step[:, 3])  # a size: 0 changes nothing


def _largest(each: Sequence[Tensor]) -> Tensor:
    return each[0] if len(each) == 1 else torch.stack(list(each)).amax(0)


def _given(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "a rasterizer with a capacity returns totals and overflow"
    return tensor
