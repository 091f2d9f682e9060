"""The projection's backward fused with Adam: gradients are used where they are computed, and never stored."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.shutter import NUMBERS as SHUTTER_NUMBERS
from luxel.render.native import library_for
from luxel.render.ops.raster.projection import OFF, Projection, projection_of, type_of
from luxel.render.ops.registry import define, register_implementation, require

OPERANDS = 16  # of the operation after the penalties, from tile_counts to g_shutters


def project_adam_(
    primitive: str,
    parameters: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    cameras: Sequence[Tensor],
    *,
    tile_counts: Tensor,
    g_splats: Tensor,
    g_values: Tensor,
    schedule: Tensor,
    extras: Sequence[Tensor | None] | None = None,
    statistics: Tensor | None = None,
    largest_of_views: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-15,
    visible_only: bool = False,
    active_sh_only: bool = False,
    keep_sh_rest: bool = False,
    skip: Tensor | None = None,
    penalty_factor: Tensor | None = None,
    g_world_to_cam: Tensor | None = None,
    shutters: Tensor | None = None,
    g_shutters: Tensor | None = None,
    **options: Any,
) -> None:
    """The backward of a projection and one step of Adam with its gradients, in place (Kingma & Ba 2015, alg. 1).

    Equal to that backward followed by `fused_adam_` (``torch.optim.Adam`` without weight decay), but the
    gradients, 59 numbers per Gaussian at SH degree 3, are neither written nor read. No autograd: a trainer calls
    `project_gaussians` or the like, `bin_splats` and `blend_splats` without gradients,
    ``torch.ops.luxel.blend_bwd`` with the gradient of its image, and then this. Nothing is read
    back from the device, and what changes from step to step is in ``schedule`` and ``skip``, so that the call can be
    captured in a CUDA graph.

    Args:
        primitive: "gaussians", "gaussians4d" or "convexes".
        parameters: its P raw tensors in its order, as the forward pass saw them; contiguous.
        exp_avgs, exp_avg_sqs: their moments, the same shapes, contiguous; 0 before the first step.
        cameras: world_to_cam [C, 4, 4], intrinsics [C, 4] and, of 4D Gaussians, timestamps [C], as in the forward.
        tile_counts: [C, N] int32, as that returned it.
        g_splats, g_values: gradients of its first two outputs, [C, N, R] and [C, N, D]. Rows of culled primitives are
            not read.
        schedule: [P + 2], see `luxel.render.ops.train.adam.adam_schedule`: rates in the order of the
            parameters; of their type and on their device.
        extras: of each parameter what is added to its gradient, of its shape, or None; None: nothing.
        statistics: [N, 4] as of the projection; filled here.
        largest_of_views: add to the statistics of each number the largest over the cameras, not all of them.
        betas: decay of the two moments, each in [0, 1). eps: added to the root of the second moment.
        visible_only: primitives that no camera observed retain parameters and moments, as a sparse Adam does. Otherwise
            their gradient is 0 (or the penalties', or the extra one): moments decay and the parameters move with them.
        active_sh_only: leave SH coefficients above ``sh_degree`` alone, moments included; saves their memory traffic.
            The same result where their moments are 0, that is if ``sh_degree`` has never been higher, else not.
        keep_sh_rest: leave all of sh_rest and its moments as they are, most of the memory traffic.
        skip: int32 [1]; where it is not 0 nothing at all is changed.
        penalty_factor: [1], like ``schedule`` on the device: times all penalties; None: 1.
        g_world_to_cam: [C, 4, 4], added to.
        shutters: of Gaussians, as in the forward, [C, 8]. g_shutters: [C, 8], added to.
        options: width ... with_normals, as given to the forward, where left-out switches are off; and penalties, 0
            where left out. opacity_penalty, scale_penalty (Gaussians) add opacity_penalty * (sum of opacities) +
            scale_penalty * (sum of all scales) to the loss (3DGS-MCMC, Kheradmand et al. 2024); for means, divide the
            weights by N and 3 N. mask_penalty (convexes) adds mask_penalty * (sum of masks before their threshold).
            raw_moments (convexes, on a GPU): g_splats are what blend_bwd gives with the same switch.

    Raises:
        ValueError: shapes, types or devices do not fit, or something to be changed is not contiguous.
        TypeError: an option that the primitive does not have, or one that is missing.
    """
    step = adam_step(primitive)
    with torch.no_grad():
        getattr(torch.ops.luxel, step.name)(
            list(parameters),
            list(exp_avgs),
            list(exp_avg_sqs),
            [None] * len(parameters) if extras is None else list(extras),
            *cameras,
            statistics,
            *step.in_order(options),
            tile_counts,
            g_splats,
            g_values,
            schedule,
            *betas,
            eps,
            visible_only,
            active_sh_only,
            keep_sh_rest,
            largest_of_views,
            skip,
            penalty_factor,
            g_world_to_cam,
            *step.of_shutters(shutters, g_shutters),
        )


@dataclass(frozen=True)
class AdamStep:
    """The operation ``luxel::STAGE_adam_`` of a stage that projects; nothing is returned.

    Args:
        projection: the stage.
    """

    projection: Projection

    def __post_init__(self) -> None:
        names = (*self.projection.options, *self.projection.penalties)
        options = ", ".join(f"{type_of(name)} {name}" for name in names)
        cameras = ", ".join(f"Tensor {name}" for name in self.projection.cameras)
        shutters = ", Tensor? shutters=None, Tensor(f!)? g_shutters=None" if self.projection.shutters else ""
        define(
            f"{self.name}(Tensor(a!)[] parameters, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
            f"Tensor?[] extras, {cameras}, Tensor(d!)? statistics, {options}, Tensor tile_counts, Tensor g_splats, "
            "Tensor g_values, Tensor schedule, float beta1, float beta2, float eps, bool visible_only, "
            "bool active_sh_only, bool keep_sh_rest, bool largest_of_views, Tensor? skip, Tensor? penalty_factor, "
            f"Tensor(e!)? g_world_to_cam{shutters}) -> ()"
        )
        register_implementation(self.name, self._update, self._check)

    @property
    def name(self) -> str:
        """Of the operation."""
        return f"{self.projection.stage}_adam_"

    def in_order(self, options: dict[str, Any]) -> list[Any]:
        """Options and penalties as the operation takes them."""
        known = (*self.projection.options, *self.projection.penalties)
        may_lack = (name for name in known if type_of(name) == "bool" or name in self.projection.penalties)
        off = {name: OFF[type_of(name)] for name in may_lack}
        if wrong := set(known) ^ {*off, *options}:
            raise TypeError(
                f"{self.name}: options must be {', '.join(known)}; missing or unknown: {', '.join(sorted(wrong))}"
            )
        return [{**off, **options}[name] for name in known]

    def of_shutters(self, shutters: Tensor | None, g_shutters: Tensor | None) -> tuple[Tensor | None, ...]:
        """The last arguments of the operation; TypeError where the primitive has none."""
        if self.projection.shutters:
            return shutters, g_shutters
        if shutters is not None or g_shutters is not None:
            raise TypeError(f"{self.name}: cameras must not have a rolling shutter")
        return ()

    def _split(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Four lists by parameter, cameras, statistics, options, penalties, and what follows."""
        cameras = 4 + len(self.projection.cameras)
        options = cameras + 1 + len(self.projection.options)
        penalties = options + len(self.projection.penalties)
        parts = args[4:cameras], args[cameras], args[cameras + 1 : options], args[options:penalties]
        rest = args[penalties:]
        return *args[:4], *parts, (*rest, *(None,) * (OPERANDS - len(rest)))

    def _check(self, *args: Any) -> None:
        projection, stage = self.projection, self.name
        parameters, exp_avgs, exp_avg_sqs, extras, cameras, statistics, options, _, rest = self._split(args)
        tile_counts, g_splats, g_values, schedule, *_, skip, penalty_factor, g_world_to_cam = rest[:-2]
        shutters, g_shutters = rest[-2:]
        lists = {"exp_avgs": exp_avgs, "exp_avg_sqs": exp_avg_sqs, "extras": extras}
        for name, tensors in {"parameters": parameters, **lists}.items():
            if len(tensors) != len(projection.parameters):
                raise ValueError(
                    f"{stage}: {name} must be {len(projection.parameters)} tensors, got {len(tensors)}"
                )
        projection.check((*parameters, *cameras), shutters)
        first, c = parameters[0], cameras[0].shape[0]
        n, real = first.shape[0], first.dtype
        expected = {
            f"{kind}[{i}]": (tensor, real, tuple(like.shape))
            for kind, tensors in lists.items()
            for i, (tensor, like) in enumerate(zip(tensors, parameters, strict=True))
        } | {
            "tile_counts": (tile_counts, torch.int32, (c, n)),
            "g_splats": (g_splats, real, (c, n, projection.row)),
            "g_values": (g_values, real, (c, n, projection.channels(options))),
            "schedule": (schedule, real, (len(parameters) + 2,)),
            "statistics": (statistics, real, (n, 4)),
            "skip": (skip, torch.int32, (1,)),
            "penalty_factor": (penalty_factor, real, (1,)),
            "g_world_to_cam": (g_world_to_cam, real, (c, 4, 4)),
            "g_shutters": (g_shutters, real, (c, SHUTTER_NUMBERS)),
        }
        require(stage, first.device, expected)
        changed = dict(zip(projection.parameters, parameters, strict=True))
        changed |= {
            f"{kind}[{i}]": t for kind in ("exp_avgs", "exp_avg_sqs") for i, t in enumerate(lists[kind])
        }
        changed |= {"statistics": statistics, "g_world_to_cam": g_world_to_cam, "g_shutters": g_shutters}
        for name, tensor in changed.items():
            if tensor is not None and not tensor.is_contiguous():
                raise ValueError(f"{stage}: {name} is changed in place and must be contiguous")

    def _update(self, *args: Any) -> None:
        self._check(*args)
        projection = self.projection
        parameters, exp_avgs, exp_avg_sqs, extras, cameras, statistics, options, weights, rest = self._split(
            args
        )
        first = parameters[0]
        if not first.shape[0]:
            return
        tile_counts, g_splats, g_values, schedule, beta1, beta2, eps, *switches = rest
        visible_only, active_sh_only, keep_sh_rest, largest, skip, penalty_factor, *gradients = switches
        g_world_to_cam, shutters, g_shutters = gradients
        extras = [None if t is None else t.contiguous() for t in extras]
        addresses = [
            [0 if t is None else t.data_ptr() for t in of_one]
            for of_one in zip(exp_avgs, exp_avg_sqs, extras, strict=True)
        ]
        penalties = dict(zip(projection.penalties, weights, strict=True))
        if penalties:
            penalties["penalty_factor"] = penalty_factor
        if shutters is not None:
            penalties["g_shutters"] = g_shutters
        library_for(first.device).call(
            f"{projection.stage}_bwd",
            first.device,
            first.dtype,
            **projection.arguments((*parameters, *cameras), options, shutters),
            tile_counts=tile_counts.contiguous(),
            g_splats=g_splats.contiguous(),
            g_values=g_values.contiguous(),
            g_world_to_cam=g_world_to_cam,
            statistics=statistics,
            largest_of_views=int(largest),
            skip=skip,
            **penalties,
            adam_schedule=schedule.contiguous(),
            adam_table=torch.tensor(addresses, dtype=torch.int64),
            adam_beta1=beta1,
            adam_beta2=beta2,
            adam_eps=eps,
            adam_visible_only=int(visible_only),
            adam_active_sh_only=int(active_sh_only),
            adam_keep_sh_rest=int(keep_sh_rest),
        )


@functools.cache
def adam_step(primitive: str) -> AdamStep:
    """The step of a primitive; its operation is defined at the first call.

    Raises:
        ValueError: no projection of that name has been defined.
    """
    return AdamStep(projection_of(primitive))
