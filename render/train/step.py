"""One training step of Gaussians, top to bottom: gather, project, bin, blend, compare, and all of it backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.ops.alpha_slope import alpha_slope
from luxel.render.ops.bin_splats import bin_splats
from luxel.render.ops.gather_view import ADAM, BACKGROUND, STEP, count_step_
from luxel.render.ops.langevin_noise import langevin_noise_
from luxel.render.ops.project_gaussians import project_gaussians
from luxel.render.ops.project_gaussians_adam import project_gaussians_adam_
from luxel.render.rasterize import DILATION, MAX_ALPHA, DensifyStatistics, rasterize
from luxel.render.train.config import TrainConfig
from luxel.render.train.dataset import Shelf, Target
from luxel.render.train.kinds import Kept
from luxel.render.train.optimiser import BETAS, EPS, Optimiser
from luxel.render.train.timeline import Moment


class Seen(NamedTuple):
    """What a step leaves for those who watch; valid until the next step."""

    loss: Tensor  # the photometric part, scalar
    rgb: Tensor  # [H, W, 3]
    transmittance: Tensor  # [H, W]
    target: Target


@dataclass
class Workbench:
    """The tensors that steps work on, and what stays the same from step to step.

    Args:
        config: of the run.
        optimiser: parameters and moments.
        statistics: for density control, a row for each row of the optimiser.
        table: see `gather_view`.
        status: see `count_step_`.
        one: 1 on the device, a scalar.
        capacity: room for tile instances; None: asks the device for the number.
        kept: what the primitive keeps from step to step, if anything.
        renews: whether this step renews that.
    """

    config: TrainConfig
    optimiser: Optimiser
    statistics: DensifyStatistics
    table: Tensor
    status: Tensor
    one: Tensor
    capacity: int | None
    kept: Kept | None = None
    renews: bool = False


def fused_step(bench: Workbench, shelf: Shelf, moment: Moment) -> Seen:
    """A step without autograd, whose last kernel moves each Gaussian where its gradient is made.

    Everything that differs from step to step comes from the table, so that this can be captured and replayed. Where
    the lists need more room than ``capacity``, nothing changes and ``status`` says so.
    """
    config = bench.config
    params, first, second = bench.optimiser.rows()
    target, row = shelf.gather(bench.table)
    width, height = shelf.size
    view = target.camera.world_to_cam[None], target.camera.intrinsics[None]
    projection: dict[str, Any] = {
        "width": width,
        "height": height,
        "sh_degree": moment.sh_degree,
        "near": shelf.near,
        "far": shelf.far,
        "dilation": DILATION,
        "antialiased": config.antialiased,
    }
    splats, values, tile_counts, totals = project_gaussians(
        tuple(params.values()),  # pyright: ignore[reportArgumentType]
        *view,
        **projection,
    )
    if bench.capacity is None:
        visible_capacity, capacity = (int(x) for x in totals.tolist())
    else:
        visible_capacity, capacity = tile_counts.numel(), bench.capacity
    instances, ranges, overflow, plan = bin_splats(
        splats,
        tile_counts,
        totals,
        width=width,
        height=height,
        visible_capacity=visible_capacity,
        capacity=capacity,
    )
    count_step_(overflow, totals, bench.table, bench.status)
    absolute = moment.counts and getattr(config.strategy, "absolute", False)
    scene = splats, values, row[BACKGROUND][None], instances, ranges, plan
    how = width, height, MAX_ALPHA, absolute, config.deterministic, False, False, True
    image, transmittance, last, _, _, states = torch.ops.luxel.blend_gaussians(*scene, *how)
    pair = image[0], target.rgb, target.weight
    loss, partials, scales = torch.ops.luxel.photometric_loss(*pair, config.loss.ssim_weight, False, True)
    g_image = torch.ops.luxel.photometric_loss_bwd(
        bench.one, *pair, partials, scales, config.loss.ssim_weight, False
    )
    g_transmittance = None
    if target.alpha is not None and config.loss.alpha_weight > 0:
        g_transmittance = alpha_slope(
            transmittance[0], target.alpha, target.weight, config.loss.alpha_weight
        )[None]
    g_splats, g_values, _ = torch.ops.luxel.blend_gaussians_bwd(
        *scene,
        *how,
        image,
        transmittance,
        last,
        states,
        g_image[None],
        g_transmittance,
        False,
    )
    opacity_penalty, scale_penalty = config.strategy.penalties
    project_gaussians_adam_(
        tuple(params.values()),  # pyright: ignore[reportArgumentType]
        tuple(first.values()),
        tuple(second.values()),
        *view,
        **projection,
        tile_counts=tile_counts,
        g_splats=g_splats,
        g_values=g_values,
        schedule=row[ADAM][:8],
        betas=BETAS,
        eps=EPS,
        visible_only=config.sparse_adam,
        active_sh_only=True,
        keep_sh_rest=not moment.moves_sh_rest,
        opacity_penalty=opacity_penalty,
        scale_penalty=scale_penalty / 3,
        penalty_factor=bench.optimiser.inverse_count,
        statistics=bench.statistics.data if moment.counts else None,
        skip=bench.status[1:2],
    )
    add_noise(bench, params, row)
    return Seen(loss, image[0], transmittance[0], target)


def instances_needed(bench: Workbench, shelf: Shelf) -> int:
    """How many tile instances the step asks for; waits for the device."""
    target, _ = shelf.gather(bench.table)
    scene = bench.optimiser.scene
    return int(rasterize(scene, target.camera, time=target.time, max_instances=1).instances)


def add_noise(bench: Workbench, params: dict[str, Tensor], row: Tensor) -> None:
    """Random moves of Gaussians, where the strategy wants them."""
    if not bench.config.strategy.noise > 0:
        return
    langevin_noise_(
        *(params[name] for name in ("means", "quats", "log_scales", "opacity_logits")),
        rate=row[ADAM][:1],
        step=row[STEP : STEP + 1].view(torch.int32),
        skip=bench.status[1:2],
        strength=bench.config.strategy.noise,
        seed=bench.config.seed,
    )
