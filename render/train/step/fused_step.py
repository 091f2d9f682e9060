"""One training step without autograd: gather, project, bin, blend, loss, and the backward of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.ops.raster.blend_splats import BlendSettings
from luxel.render.ops.train.alpha_slope import alpha_slope
from luxel.render.ops.train.depth_loss import DepthLoss, depth_loss
from luxel.render.ops.train.gather_view import (
    ADAM,
    BACKGROUND,
    DEPTH,
    STEP,
    TIME,
    count_step_,
    view_numbers,
)
from luxel.render.ops.train.langevin_noise import langevin_noise_
from luxel.render.ops.train.project_adam import project_adam_
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.geometry_losses import geometry_gradients, measured, without_planes
from luxel.render.primitives.parameters import Viewing
from luxel.render.primitives.planes import PlaneGradients
from luxel.render.primitives.spec import AuxiliaryState, Term
from luxel.render.raster.pipeline import (
    bin_tiles,
    blend,
    blend_backward,
    gradient_scale,
    project,
)
from luxel.render.raster.rasterize import DILATION, MAX_ALPHA, DensifyStatistics, rasterize
from luxel.render.train.config import TrainConfig
from luxel.render.train.step.objective import loss_context, penalties
from luxel.render.train.step.timeline import ScheduleValues
from luxel.render.train.store.protocol import BETAS, EPS, ParameterStore, State, StepRows
from luxel.render.train.views.dataset import ImageStack, Target
from luxel.render.train.views.models import ViewModels

# Of the scene extent: depth from which on gradients count fully (Zhang et al. 2024, "Pixel-GS").
FULL_GRADIENT = 0.37


class StepOutput(NamedTuple):
    """The output of a step; valid until the next step."""

    loss: Tensor  # the photometric part, scalar
    rgb: Tensor  # [H, W, 3], as the photograph would show it
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
        scalars: weights of the loss, on the device.
        extent: of the scene, capture units.
        coverage: share of the pixels of the training images that show the scene.
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
    extent: float
    coverage: float
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
    config, spec = context.config, PRIMITIVES[context.config.primitive]
    params, first, second = context.rows
    scene = context.store.primitives(params)
    target, rows = stack.gather(context.table, views)
    width, height = stack.size
    world_to_cam, poses = target.camera.world_to_cam, context.models.poses
    if poses is not None:
        moved_views = view_numbers(rows)
        pose = poses.rows(moved_views)
        world_to_cam = poses.apply(world_to_cam, pose)
    shutter, shutters = context.models.shutter, None
    if shutter is not None:
        rolled_views = view_numbers(rows)
        shutters = shutter.apply(rolled_views, shutter.rows(rolled_views))
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
        with_depth=target.depth is not None or bool(schedule.geometry),
        with_normals=bool(schedule.geometry),
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
    drawn = measured(projected, scene, view) if schedule.geometry else projected
    more = drawn.values.shape[-1] - 3  # channels beside colours
    if more:
        background = torch.nn.functional.pad(background, (0, more))
    blended = blend(drawn, lists, background, settings, keep=True)
    image, transmittance, g_transmittance = blended.image, blended.transmittance, None
    if more:
        image = image[..., :3].contiguous()
    if context.models.exposure is None:
        target = context.models.counted(image, target, rows[-1])
        loss, g_image = photometric(context, image, target, rows)
    else:
        through = None if target.alpha is None else transmittance
        loss, image, g_image, g_transmittance, target = exposed(context, image, through, target, rows)
    if target.alpha is not None and config.loss.alpha_weight > 0:
        slope = alpha_slope(transmittance, target.alpha, target.weight, config.loss.alpha_weight)
        g_transmittance = slope if g_transmittance is None else g_transmittance + slope
    depth, slopes = None, []
    if more:
        g_more = torch.zeros_like(blended.image[..., 3:])
        if target.depth is not None:
            depth = of_depth(context, blended.image[..., 3], transmittance, target, rows[0])
            g_more[..., 0] = depth.g_accumulated
            slopes.append(depth.g_transmittance)
        if schedule.geometry:
            photographs = target.rgb, target.weight
            g_geometry, slope = geometry_gradients(
                spec, config.loss, context.scalars, blended, photographs, view, schedule.geometry
            )
            g_more += g_geometry
            slopes.append(slope)
        g_image = torch.cat([g_image, g_more], -1)
    for slope in slopes:
        g_transmittance = slope if g_transmittance is None else g_transmittance + slope
    projection = spec.engine.projection
    assert projection is not None, "primitives without a projection take the general path"
    raw_moments = "raw_moments" in projection.penalties and projected.splats.is_cuda
    g_splats, g_values = blend_backward(
        drawn, lists, background, settings, blended, g_image, g_transmittance, raw_moments=raw_moments
    )
    if config.suppress_floaters:
        scale = gradient_scale(projected, FULL_GRADIENT * context.extent)
        g_splats, g_values = g_splats * scale, g_values * scale
    planes = without_planes(projected, scene, view, g_values) if schedule.geometry else None
    options = view._asdict()
    options["timestamps"] = options.pop("times")
    weights: dict[str, Any] = {}
    if poses is not None:
        through_planes = None if planes is None else planes.world_to_cam
        weights["g_world_to_cam"] = (
            torch.zeros_like(view.world_to_cam) if through_planes is None else through_planes.clone()
        )
    if shutters is not None:
        weights |= {"shutters": shutters, "g_shutters": torch.zeros_like(shutters)}
    if spec.engine.penalties is not None:
        weights |= spec.engine.penalties(
            loss_context(config, schedule.counts, context.extent, context.coverage)
        )
    if raw_moments:
        weights["raw_moments"] = True
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
        extras=extra_gradients(context, params, projected.tile_counts, schedule, planes),
        schedule=rows[0, ADAM][: len(params) + 2],
        betas=BETAS,
        eps=EPS,
        visible_only=config.sparse_adam,
        active_sh_only=True,
        keep_sh_rest=not schedule.moves_sh_rest,
        **weights,
        penalty_factor=context.store.inverse_count,
        statistics=context.statistics.data if schedule.counts else None,
        largest_of_views=views > 1,  # as Duan et al. 2024 do
        skip=context.status[1:2],
    )
    if poses is not None:
        g_pose = poses.backward(weights["g_world_to_cam"], target.camera.world_to_cam, pose)
        poses.update_(moved_views, g_pose, rows[-1], context.status[1:2])
    if shutter is not None:
        g_shutter = shutter.backward(weights["g_shutters"])
        shutter.update_(rolled_views, g_shutter, rows[-1], context.status[1:2])
    add_noise(context, params, rows[0])
    of_view = image[-1], transmittance[-1], target.view(-1)
    return StepOutput(loss, *of_view, None if depth is None else depth.loss)


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


def of_depth(
    context: StepContext, accumulated: Tensor, transmittance: Tensor, target: Target, row: Tensor
) -> DepthLoss:
    """The part of the depth in the loss; see `luxel.render.ops.train.depth_loss.depth_loss`.

    Args:
        context: of the step.
        accumulated: sum of T alpha z, [B, H, W]. transmittance: [B, H, W].
        target: of B views, with depth.
        row: of the table, [28].
    """
    assert target.depth is not None
    fits = context.config.depth_scale == "align"
    return depth_loss(accumulated, transmittance, target.depth, target.weight, row[DEPTH], fits=fits)


def exposed(
    context: StepContext,
    image: Tensor,
    transmittance: Tensor | None,
    target: Target,
    rows: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Target]:
    """`photometric` of images as the photographs would show them; updates the exposure.

    Args:
        context: of the step.
        image: rendered, [B, H, W, 3]. transmittance: [B, H, W], where the target has alpha.
        target: of the step. rows: of the table, [B, 28].

    Returns:
        The loss, the images that were compared [B, H, W, 3], and the gradients by the images without exposure and by
        their transmittance [B, H, W], None without one; and the target with the weights that it was compared with.
    """
    exposure = context.models.exposure
    assert exposure is not None
    views, background = view_numbers(rows), rows[:, BACKGROUND]
    inputs = image, exposure.rows(views), transmittance, background
    shown = exposure.apply(*inputs)
    target = context.models.counted(shown, target, rows[-1])
    loss, g_shown = photometric(context, shown, target, rows)
    g_image, g_exposure, g_through = exposure.backward(g_shown, *inputs)
    exposure.update_(views, g_exposure, rows[-1], context.status[1:2])
    return loss, shown, g_image, g_through, target


def regularisers(context: StepContext, scene: Any, visible: Tensor, schedule: ScheduleValues) -> list[Term]:
    """Terms of the loss from the densification strategy and the primitive."""
    config, inverse_count = context.config, context.store.inverse_count
    weights = loss_context(config, schedule.counts, context.extent, context.coverage)
    terms = PRIMITIVES[config.primitive].engine.regularise(scene, visible, inverse_count, weights)
    of_strategy = penalties(scene, weights.penalties, inverse_count)
    terms = [*terms, *shape_terms(context, scene)]
    return [*terms, (1.0, of_strategy)] if isinstance(of_strategy, Tensor) else terms


def shape_terms(context: StepContext, scene: Any) -> list[Term]:
    """Terms of the loss from the shapes of the primitives, see `PrimitiveEngine.shapes`."""
    spec = PRIMITIVES[context.config.primitive]
    return spec.engine.shapes(scene, context.store.inverse_count, context.config.loss)


def renew(context: StepContext, scene: Any) -> None:
    """Updates the auxiliary state if this step does; before the step is counted."""
    if context.auxiliary is not None and context.renews:
        context.auxiliary.renew(scene, context.status)


def auxiliary_terms(context: StepContext, scene: Any, visible: Tensor) -> list[Term]:
    """Terms of the loss from the auxiliary state."""
    return [] if context.auxiliary is None else [context.auxiliary.term(scene, visible)]


def extra_gradients(
    context: StepContext,
    params: State,
    tile_counts: Tensor,
    schedule: ScheduleValues,
    planes: PlaneGradients | None = None,
) -> tuple[Tensor | None, ...] | None:
    """Gradients by the parameters of the loss terms other than the photometric ones and those that the backward of the
    projection adds itself, and those through ``planes``; None if there are none."""
    spec = PRIMITIVES[context.config.primitive]
    with torch.enable_grad():
        scene = context.store.primitives(params).map(lambda t: t.detach().requires_grad_())
        if spec.engine.penalties is not None and context.auxiliary is None:
            terms = shape_terms(context, scene)
        else:
            visible = tile_counts.any(0)  # not in every step: a pass over all counts
            by_autograd = spec.engine.penalties is None
            terms = (
                regularisers(context, scene, visible, schedule)
                if by_autograd
                else shape_terms(context, scene)
            )
            terms += auxiliary_terms(context, scene, visible)
        values, seeds = [value for _, value in terms], [context.scalars[weight] for weight, _ in terms]
        if planes is not None:
            values.append(scene.centres)
            seeds.append(planes.means)
    if not values:
        return None
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
