"""Stage: 4D Gaussians to screen splats, each camera at its time (kernels of the same name; reference/ in torch)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.project_gaussians import OPTIONS, SPLAT, channels_of, option_arguments
from luxel.render.ops.registry import define, register_implementation, require

PARAMETERS = (
    "means",
    "times",
    "log_scales",
    "log_scale_t",
    "rotors",
    "opacity_logits",
    "sh_dc",
    "sh_rest",
)
_NAMES = (*PARAMETERS, "world_to_cam", "intrinsics", "moments")
_COUNT = len(_NAMES)
_OPTIONS = slice(_COUNT + 1, _COUNT + 10)  # after the tensors and the statistics
_INPUTS = ", ".join(f"Tensor {name}" for name in _NAMES)
_GRADIENTS = ", ".join(["Tensor"] * (len(PARAMETERS) + 2))  # the parameters, world_to_cam, moments
# statistics is only handed on to the backward, which fills it.
define(f"project_gaussians4d({_INPUTS}, Tensor? statistics, {OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)")
define(
    f"project_gaussians4d_bwd({_INPUTS}, Tensor(a!)? statistics, {OPTIONS}, Tensor tile_counts, Tensor g_splats, "
    f"Tensor g_values, bool pose, bool moment, *, Tensor? skip=None) -> ({_GRADIENTS})"
)


def _check(tensors: tuple[Tensor, ...]) -> None:
    named: dict[str, Tensor] = dict(zip(_NAMES, tensors, strict=True))
    means, sh_rest = named["means"], named["sh_rest"]
    n, c = means.shape[0], named["world_to_cam"].shape[0]
    if means.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"project_gaussians4d needs float32 or float64, got {means.dtype}")
    shapes = {
        "means": (n, 3),
        "times": (n,),
        "log_scales": (n, 3),
        "log_scale_t": (n,),
        "rotors": (n, 8),
        "opacity_logits": (n,),
        "sh_dc": (n, 3),
        "sh_rest": (n, sh_rest.shape[1], 3),
        "world_to_cam": (c, 4, 4),
        "intrinsics": (c, 4),
        "moments": (c,),
    }
    require(
        "project_gaussians4d",
        means.device,
        {k: (named[k], means.dtype, shape) for k, shape in shapes.items()},
    )


def _arguments(tensors: tuple[Tensor, ...], options: tuple[Any, ...]) -> dict[str, Any]:
    """The fields of luxel_project_gaussians4d_args that forward and backward share."""
    named = dict(zip(_NAMES, (t.contiguous() for t in tensors), strict=True))
    return named | {
        "count": named["means"].shape[0],
        "cameras": named["world_to_cam"].shape[0],
        **option_arguments(options, named["sh_rest"].shape[1]),
    }


def _forward(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensors, options = args[:_COUNT], args[_OPTIONS]
    _check(tensors)
    splats, values, tile_counts, totals = _fake(*args)
    totals.zero_()
    if tile_counts.numel():
        library_for(splats.device).call(
            "project_gaussians4d_fwd",
            splats.device,
            splats.dtype,
            **_arguments(tensors, options),
            splats=splats,
            values=values,
            tile_counts=tile_counts,
            totals=totals,
        )
    return splats, values, tile_counts, totals


def _fake(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    means, options = args[0], args[_OPTIONS]
    n, c = means.shape[0], args[_NAMES.index("world_to_cam")].shape[0]
    return (
        means.new_empty(c, n, SPLAT),
        means.new_empty(c, n, channels_of(options[7], options[8])),
        means.new_empty(c, n, dtype=torch.int32),
        means.new_empty(2, dtype=torch.int64),
    )


def _backward(*args: Any, **more: Any) -> tuple[Tensor, ...]:
    tensors, statistics, options = args[:_COUNT], args[_COUNT], args[_OPTIONS]
    tile_counts, g_splats, g_values, pose, moment = args[_OPTIONS.stop :]
    grads = _backward_fake(*args)
    *g_parameters, g_world_to_cam, g_moments = grads
    g_world_to_cam.zero_()
    g_moments.zero_()
    means = tensors[0]
    if means.shape[0]:
        library_for(means.device).call(
            "project_gaussians4d_bwd",
            means.device,
            means.dtype,
            **_arguments(tensors, options),
            tile_counts=tile_counts,
            g_splats=g_splats.contiguous(),
            g_values=g_values.contiguous(),
            **{f"g_{name}": grad for name, grad in zip(PARAMETERS, g_parameters, strict=True)},
            g_world_to_cam=g_world_to_cam if pose else None,
            g_moments=g_moments if moment else None,
            statistics=statistics,
            **more,
        )
    return grads


def _backward_fake(*args: Any, **_: Any) -> tuple[Tensor, ...]:
    like = [t for name, t in zip(_NAMES, args[:_COUNT], strict=True) if name != "intrinsics"]
    return tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in like)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[: _COUNT + 1], output[2])
    ctx.options = inputs[_OPTIONS]
    ctx.pose, ctx.moment = (inputs[_NAMES.index(name)].requires_grad for name in ("world_to_cam", "moments"))
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, g_splats: Tensor | None, g_values: Tensor | None, *_: Any) -> tuple[Any, ...]:
    *tensors, statistics, tile_counts = ctx.saved_tensors
    c, n = tile_counts.shape
    if g_splats is None:
        g_splats = tensors[0].new_zeros(c, n, SPLAT)
    if g_values is None:
        g_values = tensors[0].new_zeros(c, n, channels_of(ctx.options[7], ctx.options[8]))
    *g_parameters, g_world_to_cam, g_moments = torch.ops.luxel.project_gaussians4d_bwd(
        *tensors, statistics, *ctx.options, tile_counts, g_splats, g_values, ctx.pose, ctx.moment
    )
    cameras = (g_world_to_cam if ctx.pose else None, None, g_moments if ctx.moment else None)
    return (*g_parameters, *cameras, *(None,) * 10)


register_implementation("project_gaussians4d", _forward, _fake, _autograd, _setup_context)
register_implementation("project_gaussians4d_bwd", _backward, _backward_fake)


def project_gaussians4d(
    parameters: tuple[Tensor, ...],
    world_to_cam: Tensor,
    intrinsics: Tensor,
    moments: Tensor,
    *,
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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Slices N 4D Gaussians at the time of each of C cameras and projects them (Duan et al. 2024, section 3).

    Args:
        parameters: the raw tensors of `luxel.render.primitives.gaussians4d.Gaussians4d`, in its order.
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4], pixels.
        moments: time of each camera, in what the Gaussians' times count in, [C]; differentiable.
        width, height, sh_degree, near, far, dilation, antialiased, with_depth, with_normals: as in
            `luxel.render.ops.project_gaussians.project_gaussians`. Normals have no gradient.
        statistics: [N, 4], filled by the backward: sums over the views of the norm of d loss / d mean2d (half image
            sizes) and of |d loss of the view / d times|, times seen, largest radius relative to the image.

    Returns:
        What `project_gaussians` returns: splats [C, N, 8], values [C, N, D], tile_counts [C, N], totals [2].

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    if not near > 0:
        raise ValueError(f"near must be positive, got {near}")
    options = (width, height, sh_degree, near, far, dilation, antialiased, with_depth, with_normals)
    cameras = (world_to_cam, intrinsics, moments)
    return torch.ops.luxel.project_gaussians4d(*parameters, *cameras, statistics, *options)
