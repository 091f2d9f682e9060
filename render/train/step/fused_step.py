"""One training step without autograd: gather, project, bin, blend, loss, and the backward of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.ops.raster.blend_splats import BlendSettings
from luxel.render.ops.train.gather_view import (
    ADAM,
    BACKGROUND,
    STEP,
    TIME,
    count_step_,
)
from luxel.render.ops.train.langevin_noise import langevin_noise_
from luxel.render.ops.train.project_adam import project_adam_
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.geometry_losses import measured, without_planes
from luxel.render.primitives.parameters import Viewing
from luxel.render.primitives.planes import PlaneGradients
from luxel.render.primitives.spec import AuxiliaryState
from luxel.render.raster.pipeline import (
    bin_tiles,
    blend,
    blend_backward,
    gradient_scale,
    project,
)
from luxel.render.raster.rasterize import DILATION, MAX_ALPHA, DensifyStatistics, rasterize
from luxel.render.train.config import TrainConfig
from luxel.render.train.step.terms.active import ActiveTerms
from luxel.render.train.step.terms.image_gradients import ImageGradients, add_image_terms, step_images
from luxel.render.train.step.terms.rows import kernel_weights, row_terms
from luxel.render.train.step.timeline import ScheduleValues
from luxel.render.train.step.view_maps import ViewMaps, update_models_
from luxel.render.train.store.protocol import BETAS, EPS, ParameterStore, State, StepRows
from luxel.render.train.views.dataset import ImageStack, Target
from luxel.render.train.views.models import ViewModels

# Of the scene extent: depth from which on gradients count fully (Zhang et al. 2024, "Pixel-GS").
FULL_GRADIENT = 0.37


class StepOutput(NamedTuple):
    """The output of a step; valid until the next step."""

    loss: Tensor  # the photometric part, scalar
    rgb: Tensor  # [H, W, 3], as its training image shows it
    transmittance: Tensor  # [H, W]
    target: Target
    depth: Tensor | None = None  # the part of the depth in the loss, scalar


@dataclass
class StepContext:
    """The tensors that a step reads and updates, and its options.

    Args:
        config: of the run.
        store: parameters and Adam's moments.
        rows: of the store, for this step.
        statistics: for density control, a row for each row of the store.
        table: see `gather_view`.
        status: see `count_step_`.
        scalars: 1, and 1 divided by the number of views, on the device.
        terms: of the loss, in addition to the photometric one.
        extent: of the scene, capture units.
        capacity: of tile instances per view; None: the host waits for the number that is needed.
        auxiliary: auxiliary state of the primitive, if any.
        renews: whether this step updates it.
        models: what is learnt of the training views.
    """

    config: TrainConfig
    store: ParameterStore
    rows: StepRows
    statistics: DensifyStatistics
    table: Tensor
    status: Tensor
    scalars: Mapping[float, Tensor]
    terms: ActiveTerms
    extent: float
    capacity: int | None
    auxiliary: AuxiliaryState | None = None
    renews: bool = False
    models: ViewModels = field(default_factory=ViewModels)


@torch.no_grad()
def fused_step(
    context: StepContext, stack: ImageStack, schedule: ScheduleValues, views: int = 1
) -> StepOutput:
    """A step without autograd, where one kernel does the backward of the projection and the update of each primitive.

    Everything that differs between steps comes from the table, so that the step can be captured and replayed. If
    more tile instances than ``capacity`` are needed, nothing changes and ``status`` is set.

    Args:
        context: tensors and options.
        stack: images of all views of the step.
        schedule: schedule values of the step.
        views: number of views; the loss is their mean.
    """
    config, terms = context.config, context.terms
    params, first, second = context.rows
    scene = context.store.primitives(params)
    target, rows = stack.gather(context.table, views)
    width, height = stack.size
    maps = ViewMaps(context.models, rows)
    world_to_cam, shutters = maps.cameras(target.camera.world_to_cam)
    view = Viewing(
        world_to_cam=world_to_cam,
        intrinsics=target.camera.calibration,
        times=rows[:, TIME].contiguous() if scene.moves else None,
        width=width,
        height=height,
        near=stack.near,
        far=stack.far,
        sh_degree=schedule.sh_degree,
        dilation=DILATION,
        antialiased=config.antialiased,
        with_depth=terms.with_depth,
        with_normals=terms.with_normals,
        shutters=shutters,
    )
    projected = project(scene, view)
    renew(context, scene)
    if context.capacity is None:
        visible_capacity, capacity = (int(x) for x in projected.totals.tolist())
    else:
        visible_capacity, capacity = projected.tile_counts.numel(), views * context.capacity
    absolute = schedule.counts and config.strategy.absolute
    moments = scene.depth_moments(view.with_depth, view.with_normals)
    settings = BlendSettings(scene.policy, width, height, MAX_ALPHA, absolute, config.deterministic, moments)
    lists = bin_tiles(projected, settings, visible_capacity=visible_capacity, capacity=capacity)
    count_step_(lists.overflow, projected.totals, context.table, context.status, views)
    background = rows[:, BACKGROUND].contiguous()
    splats = measured(projected, scene, view) if terms.with_normals else projected
    more = splats.values.shape[-1] - 3  # channels in addition to colours
    if more:
        background = torch.nn.functional.pad(background, (0, more))
    blended = blend(splats, lists, background, settings, keep=True)
    transmittance = blended.transmittance
    image = blended.image[..., :3].contiguous() if more else blended.image
    image = maps.shown(image, None if target.alpha is None else transmittance)
    target = context.models.counted(image, target, rows[-1])
    loss, g_shown = photometric(context, image, target, rows)
    g_image, g_transmittance = maps.shown_backward(g_shown)
    gradients = ImageGradients(more, g_image, g_transmittance)
    images = partial(step_images, target=target, view=view, moments=moments, planar=scene.planar)
    values = add_image_terms(terms, blended, images, rows[0], gradients)
    projection = PRIMITIVES[config.primitive].engine.projection
    assert projection is not None, "primitives without a projection take the general path"
    raw_moments = "raw_moments" in projection.penalties and projected.splats.is_cuda
    g_splats, g_values = blend_backward(
        splats,
        lists,
        background,
        settings,
        blended,
        gradients.image,
        gradients.transmittance,
        raw_moments=raw_moments,
    )
    if config.suppress_floaters:
        scale = gradient_scale(projected, FULL_GRADIENT * context.extent)
        g_splats, g_values = g_splats * scale, g_values * scale
    planes = without_planes(projected, scene, view, g_values) if terms.with_normals else None
    options = view._asdict()
    options["timestamps"] = options.pop("times")
    through_planes = None if planes is None else planes.world_to_cam
    of_cameras = maps.camera_gradients(view.world_to_cam, through_planes, shutters)
    switches: dict[str, Any] = {"raw_moments": True} if raw_moments else {}
    project_adam_(
        config.primitive,
        list(params.values()),
        list(first.values()),
        list(second.values()),
        [options[name] for name in projection.cameras],
        **{name: options[name] for name in projection.options},
        tile_counts=projected.tile_counts,
        g_splats=g_splats,
        g_values=g_values if planes is None else planes.values,
        extras=extra_gradients(context, params, projected.tile_counts, projection.penalties, planes),
        schedule=rows[0, ADAM][: len(params) + 2],
        betas=BETAS,
        eps=EPS,
        visible_only=config.sparse_adam,
        active_sh_only=True,
        keep_sh_rest=not schedule.moves_sh_rest,
        **of_cameras,
        **kernel_weights(terms, scene, projection.penalties),
        **switches,
        penalty_factor=context.store.inverse_count,
        statistics=context.statistics.data if schedule.counts else None,
        largest_of_views=views > 1 and not config.strategy.sums_views,
        skip=context.status[1:2],
    )
    maps.cameras_backward(of_cameras)
    update_models_([maps], rows[-1], context.status[1:2])
    add_noise(context, params, rows[0])
    of_view = image[-1], transmittance[-1], target.view(-1)
    return StepOutput(loss, *of_view, values.get("depth"))


def photometric(context: StepContext, image: Tensor, target: Target, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of the photometric losses, and the gradient of their weighted mean by the images, [B, H, W, 3]."""
    share, parts = context.config.loss.ssim_weight, [(image, target.rgb, target.weight)]
    if target.weight is not None and image.shape[0] > 1:
        # With weights per pixel, the mean over all views differs from the mean of the views' means.
        parts = list(zip(image.split(1), target.rgb.split(1), target.weight.split(1), strict=True))
    losses, gradients, seed = [], [], context.scalars[1 / len(parts)]
    for part in parts:
        loss, partials, scales = torch.ops.luxel.photometric_loss(*part, share, False, True)
        losses.append(loss)
        gradients.append(torch.ops.luxel.photometric_loss_bwd(seed, *part, partials, scales, share, False))
    loss = losses[0] if len(parts) == 1 else torch.stack(losses).mean()
    gradient = gradients[0] if len(parts) == 1 else torch.cat(gradients)
    weights = context.models.weights_of(rows)
    return loss, gradient if weights is None else gradient * weights[:, None, None, None]


def renew(context: StepContext, scene: Any) -> None:
    """Updates the auxiliary state if this step does; before the step is counted."""
    if context.auxiliary is not None and context.renews:
        context.auxiliary.renew(scene, context.status)


def extra_gradients(
    context: StepContext,
    params: State,
    tile_counts: Tensor,
    kernels: tuple[str, ...],
    planes: PlaneGradients | None = None,
) -> tuple[Tensor | None, ...] | None:
    """Gradients by the parameters of the terms of the primitives and those through ``planes``; None: there are none.

    Args:
        context: of the step.
        params: of the primitives.
        tile_counts: int32 [B, N].
        kernels: penalties that the backward of the projection adds itself.
        planes: gradients through the channel of planes.
    """
    with torch.enable_grad():
        scene = context.store.primitives(params).map(lambda t: t.detach().requires_grad_())
        visible = partial(tile_counts.any, 0)  # not in every step: a pass over all counts
        inputs = scene, context.store.inverse_count, visible, context.auxiliary
        weighted = row_terms(context.terms, *inputs, kernels)
        if planes is not None:
            weighted.append((scene.centres, planes.means))
    if not weighted:
        return None
    values, seeds = zip(*weighted, strict=True)
    return torch.autograd.grad(values, list(scene.tensors().values()), seeds, allow_unused=True)


def instances_needed(context: StepContext, stack: ImageStack) -> int:
    """Number of tile instances that the first view of the step needs; waits for the device."""
    target, _ = stack.gather(context.table)
    scene = context.store.scene
    return int(rasterize(scene, target.camera, time=target.time, max_instances=1).instances)


def add_noise(context: StepContext, params: dict[str, Tensor], row: Tensor) -> None:
    """Adds noise to the means of Gaussians if the strategy has any."""
    if not context.config.strategy.noise > 0:
        return
    langevin_noise_(
        *(params[name] for name in ("means", "quats", "log_scales", "opacity_logits")),
        rate=row[ADAM][:1],
        step=row[STEP : STEP + 1].view(torch.int32),
        skip=context.status[1:2],
        strength=context.config.strategy.noise / context.extent**2,  # the rate has the extent as a factor
        seed=context.config.seed,
    )
