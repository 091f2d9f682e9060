"""The projection's backward with Adam in it: gradients are spent where they are made, and never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.project_gaussians import PARAMETERS, PROJECTION, SPLAT
from luxel.render.ops.projection import GAUSSIAN_OPTIONS, TYPES
from luxel.render.ops.registry import define, register_implementation, require

_OPTIONS = ", ".join(f"{TYPES[name]} {name}" for name in GAUSSIAN_OPTIONS)
_TRIPLES = ", ".join(
    f"Tensor({letters[i]}!) {prefix}{name}"
    for prefix, letters in (("", "abcdef"), ("m_", "ghijkl"), ("v_", "mnopqr"))
    for i, name in enumerate(PARAMETERS)
)
define(
    f"project_gaussians_adam_({_TRIPLES}, Tensor world_to_cam, Tensor intrinsics, Tensor(s!)? statistics, {_OPTIONS}, "
    "Tensor tile_counts, Tensor g_splats, Tensor g_values, Tensor schedule, float beta1, float beta2, float eps, *, "
    "bool visible_only=False, bool active_sh_only=False, bool keep_sh_rest=False, Tensor? skip=None, "
    "float opacity_penalty=0, "
    "float scale_penalty=0, Tensor? penalty_factor=None, Tensor(t!)? g_world_to_cam=None) -> ()",
)


def project_gaussians_adam_(
    parameters: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    world_to_cam: Tensor,
    intrinsics: Tensor,
    *,
    tile_counts: Tensor,
    g_splats: Tensor,
    g_values: Tensor,
    schedule: Tensor,
    width: int,
    height: int,
    sh_degree: int,
    near: float,
    far: float,
    dilation: float,
    antialiased: bool = False,
    with_depth: bool = False,
    with_normals: bool = False,
    statistics: Tensor | None = None,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-15,
    visible_only: bool = False,
    active_sh_only: bool = False,
    keep_sh_rest: bool = False,
    skip: Tensor | None = None,
    opacity_penalty: float = 0.0,
    scale_penalty: float = 0.0,
    penalty_factor: Tensor | None = None,
    g_world_to_cam: Tensor | None = None,
) -> None:
    """The backward of `project_gaussians` and one step of Adam with its gradients, in place (Kingma & Ba 2015, alg. 1).

    Equal to that backward followed by `fused_adam_` (``torch.optim.Adam`` without weight decay), but the
    gradients, 59 numbers per Gaussian at SH degree 3, are neither written nor read. No autograd: a trainer calls
    `project_gaussians`, `bin_splats` and `blend_gaussians` without gradients,
    ``torch.ops.luxel.blend_gaussians_bwd`` with the gradient of its image, and then this. Nothing is read back
    from the device, and what changes from step to step is in ``schedule`` and ``skip``, so that the call can be
    captured in a CUDA graph.

    Args:
        parameters: the raw tensors of `Gaussians`, in its order, as the forward pass saw them; contiguous.
        exp_avgs, exp_avg_sqs: their moments, the same shapes, contiguous; 0 before the first step.
        world_to_cam, intrinsics, width ... with_normals: as given to `project_gaussians`.
        tile_counts: [C, N] int32, as that returned it.
        g_splats, g_values: gradients of its first two outputs, [C, N, 8] and [C, N, D]. Rows of culled Gaussians are
            not looked at.
        schedule: [8], see `luxel.render.ops.adam.adam_schedule`: rates in the order of the parameters; of their type
            and on their device.
        statistics: [N, 4] as of `project_gaussians`; filled here.
        betas: decay of the two moments, each in [0, 1). eps: added to the root of the second moment.
        visible_only: Gaussians that no camera saw keep parameters and moments, as a sparse Adam does. Otherwise their
            gradient is 0 (or the penalties'): moments decay and the parameters move on with them.
        active_sh_only: leave SH coefficients above ``sh_degree`` alone, moments included; saves their memory traffic.
            The same result where their moments are 0, that is if ``sh_degree`` has never been higher, else not.
        keep_sh_rest: leave all of sh_rest and its moments as they are, most of the memory traffic.
        skip: int32 [1]; where it is not 0 nothing at all is changed.
        opacity_penalty, scale_penalty: add opacity_penalty * (sum of opacities) + scale_penalty * (sum of all
            scales) to the loss (3DGS-MCMC, Kheradmand et al. 2024); for means, divide the weights by N and 3 N.
        penalty_factor: [1], like ``schedule`` on the device: times both penalties; None: 1.
        g_world_to_cam: [C, 4, 4], added to.

    Raises:
        ValueError: shapes, types or devices do not fit, or something to be changed is not contiguous.
    """
    options = (width, height, sh_degree, near, far, dilation, antialiased, with_depth, with_normals)
    with torch.no_grad():
        torch.ops.luxel.project_gaussians_adam_(
            *parameters,
            *exp_avgs,
            *exp_avg_sqs,
            world_to_cam,
            intrinsics,
            statistics,
            *options,
            tile_counts,
            g_splats,
            g_values,
            schedule,
            *betas,
            eps,
            visible_only=visible_only,
            active_sh_only=active_sh_only,
            keep_sh_rest=keep_sh_rest,
            skip=skip,
            opacity_penalty=opacity_penalty,
            scale_penalty=scale_penalty,
            penalty_factor=penalty_factor,
            g_world_to_cam=g_world_to_cam,
        )


def _check(
    *args: Any,
    skip: Tensor | None = None,
    penalty_factor: Tensor | None = None,
    g_world_to_cam: Tensor | None = None,
    **_: Any,
) -> None:
    parameters, moments, cameras, statistics, options = (
        args[:6],
        args[6:18],
        args[18:20],
        args[20],
        args[21:30],
    )
    tile_counts, g_splats, g_values, schedule = args[30:34]
    PROJECTION.check((*parameters, *cameras))
    means, c = parameters[0], cameras[0].shape[0]
    n, real = means.shape[0], means.dtype
    names = [f"{kind}[{i}]" for kind in ("exp_avgs", "exp_avg_sqs") for i in range(6)]
    pairs = zip(names, moments, parameters * 2, strict=True)
    wanted = {name: (tensor, real, tuple(like.shape)) for name, tensor, like in pairs} | {
        "tile_counts": (tile_counts, torch.int32, (c, n)),
        "g_splats": (g_splats, real, (c, n, SPLAT)),
        "g_values": (g_values, real, (c, n, PROJECTION.channels(options))),
        "schedule": (schedule, real, (len(PARAMETERS) + 2,)),
        "statistics": (statistics, real, (n, 4)),
        "skip": (skip, torch.int32, (1,)),
        "penalty_factor": (penalty_factor, real, (1,)),
        "g_world_to_cam": (g_world_to_cam, real, (c, 4, 4)),
    }
    require("project_gaussians_adam_", means.device, wanted)
    changed = zip((*PARAMETERS, *names), (*parameters, *moments), strict=True)
    for name, tensor in (*changed, ("statistics", statistics), ("g_world_to_cam", g_world_to_cam)):
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"project_gaussians_adam_: {name} is changed in place and must be contiguous")


def _update(
    *args: Any,
    visible_only: bool = False,
    active_sh_only: bool = False,
    keep_sh_rest: bool = False,
    skip: Tensor | None = None,
    opacity_penalty: float = 0.0,
    scale_penalty: float = 0.0,
    penalty_factor: Tensor | None = None,
    g_world_to_cam: Tensor | None = None,
) -> None:
    _check(*args, skip=skip, penalty_factor=penalty_factor, g_world_to_cam=g_world_to_cam)
    means = args[0]
    if not means.shape[0]:
        return
    tile_counts, g_splats, g_values, schedule, beta1, beta2, eps = args[30:]
    library_for(means.device).call(
        "project_gaussians_bwd",
        means.device,
        means.dtype,
        **PROJECTION.arguments((*args[:6], *args[18:20]), args[21:30]),
        **{f"m_{name}": t for name, t in zip(PARAMETERS, args[6:12], strict=True)},
        **{f"v_{name}": t for name, t in zip(PARAMETERS, args[12:18], strict=True)},
        tile_counts=tile_counts.contiguous(),
        g_splats=g_splats.contiguous(),
        g_values=g_values.contiguous(),
        g_world_to_cam=g_world_to_cam,
        statistics=args[20],
        skip=skip,
        opacity_penalty=opacity_penalty,
        scale_penalty=scale_penalty,
        penalty_factor=penalty_factor,
        adam_schedule=schedule.contiguous(),
        adam_beta1=beta1,
        adam_beta2=beta2,
        adam_eps=eps,
        adam_visible_only=int(visible_only),
        adam_active_sh_only=int(active_sh_only),
        adam_keep_sh_rest=int(keep_sh_rest),
    )


register_implementation("project_gaussians_adam_", _update, _check)
