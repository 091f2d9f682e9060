"""Stage: world Gaussians to screen splats (kernels of the same name; plain torch in reference/)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation

SPLAT = 8  # floats of one screen splat, see abi.h
REST = (0, 3, 8, 15)  # coefficients above degree 0, by SH degree
PARAMETERS = ("means", "quats", "log_scales", "opacity_logits", "sh_dc", "sh_rest")
OPTIONS = (
    "int width, int height, int sh_degree, float near, float far, float dilation, bool antialiased, "
    "bool with_depth, bool with_normals"
)
_INPUTS = (
    "Tensor means, Tensor quats, Tensor log_scales, Tensor opacity_logits, Tensor sh_dc, Tensor sh_rest, "
    "Tensor world_to_cam, Tensor intrinsics"
)
# statistics is only handed on to the backward, which fills it.
define(
    f"project_gaussians({_INPUTS}, Tensor? statistics, {OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)",
)
define(
    f"project_gaussians_bwd({_INPUTS}, Tensor(a!)? statistics, {OPTIONS}, Tensor tile_counts, Tensor g_splats, "
    "Tensor g_values, bool pose, *, Tensor? skip=None, float opacity_penalty=0, float scale_penalty=0)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)


def channels_of(with_depth: bool, with_normals: bool) -> int:
    return 3 + int(with_depth) + 3 * int(with_normals)


def check_inputs(
    means: Tensor,  # [N, 3]
    quats: Tensor,  # [N, 4]
    log_scales: Tensor,  # [N, 3]
    opacity_logits: Tensor,  # [N]
    sh_dc: Tensor,  # [N, 3]
    sh_rest: Tensor,  # [N, K - 1, 3]
    world_to_cam: Tensor,  # [C, 4, 4]
    intrinsics: Tensor,  # [C, 4]
) -> None:
    n, c = means.shape[0], world_to_cam.shape[0]
    given = {
        "means": (means, (n, 3)),
        "quats": (quats, (n, 4)),
        "log_scales": (log_scales, (n, 3)),
        "opacity_logits": (opacity_logits, (n,)),
        "sh_dc": (sh_dc, (n, 3)),
        "sh_rest": (sh_rest, (n, sh_rest.shape[1], 3)),
        "world_to_cam": (world_to_cam, (c, 4, 4)),
        "intrinsics": (intrinsics, (c, 4)),
    }
    for name, (tensor, shape) in given.items():
        if tensor.shape != shape:
            raise ValueError(f"project_gaussians: {name} must be {list(shape)}, got {list(tensor.shape)}")
        if tensor.dtype != means.dtype or tensor.device != means.device:
            raise ValueError(
                f"project_gaussians: {name} is {tensor.dtype} on {tensor.device}, "
                f"means {means.dtype} on {means.device}"
            )
    if means.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"project_gaussians needs float32 or float64, got {means.dtype}")


def shared_arguments(tensors: tuple[Tensor, ...], options: tuple[Any, ...]) -> dict[str, Any]:
    """The fields of luxel_project_gaussians_args that forward and backward share."""
    named = dict(
        zip((*PARAMETERS, "world_to_cam", "intrinsics"), (t.contiguous() for t in tensors), strict=True)
    )
    return named | {
        "count": named["means"].shape[0],
        "cameras": named["world_to_cam"].shape[0],
        **option_arguments(options, named["sh_rest"].shape[1]),
    }


def option_arguments(options: tuple[Any, ...], stride: int) -> dict[str, Any]:
    """The fields that say how to draw, from `OPTIONS` and the number of coefficients above degree 0."""
    width, height, sh_degree, near, far, dilation, antialiased, with_depth, with_normals = options
    return {
        "sh_stride": stride,
        "sh_degree": min(sh_degree, REST.index(stride)),
        "width": width,
        "height": height,
        "near_plane": near,
        "far_plane": far,
        "dilation": dilation,
        "antialiased": int(antialiased),
        "with_depth": int(with_depth),
        "with_normals": int(with_normals),
    }


def _forward(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensors, options = args[:8], args[9:18]
    check_inputs(*tensors)
    means = tensors[0]
    n, c = means.shape[0], tensors[6].shape[0]
    splats = means.new_empty(c, n, SPLAT)
    values = means.new_empty(c, n, channels_of(options[7], options[8]))
    tile_counts = torch.empty(c, n, dtype=torch.int32, device=means.device)
    totals = torch.zeros(2, dtype=torch.int64, device=means.device)
    if n and c:
        library, arguments = library_for(means.device), shared_arguments(tensors, options)
        library.call(
            "project_gaussians_fwd",
            means.device,
            means.dtype,
            **arguments,
            splats=splats,
            values=values,
            tile_counts=tile_counts,
            totals=totals,
        )
    return splats, values, tile_counts, totals


def _fake(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    means, options = args[0], args[9:18]
    n, c = means.shape[0], args[6].shape[0]
    return (
        means.new_empty(c, n, SPLAT),
        means.new_empty(c, n, channels_of(options[7], options[8])),
        means.new_empty(c, n, dtype=torch.int32),
        means.new_empty(2, dtype=torch.int64),
    )


def _backward(*args: Any, **more: Any) -> tuple[Tensor, ...]:
    tensors, statistics, options = args[:8], args[8], args[9:18]
    tile_counts, g_splats, g_values, pose = args[18:]
    grads = tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors[:6])
    g_world_to_cam = torch.zeros_like(tensors[6], memory_format=torch.contiguous_format)
    means = tensors[0]
    if means.shape[0]:
        library_for(means.device).call(
            "project_gaussians_bwd",
            means.device,
            means.dtype,
            **shared_arguments(tensors, options),
            tile_counts=tile_counts,
            g_splats=g_splats.contiguous(),
            g_values=g_values.contiguous(),
            **{f"g_{name}": grad for name, grad in zip(PARAMETERS, grads, strict=True)},
            g_world_to_cam=g_world_to_cam if pose else None,
            statistics=statistics,
            **more,
        )
    return *grads, g_world_to_cam


def _backward_fake(*args: Any, **_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in args[:7])


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:8], inputs[8], output[2])
    ctx.options = inputs[9:18]
    ctx.pose = inputs[6].requires_grad
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, g_splats: Tensor | None, g_values: Tensor | None, *_: Any) -> tuple[Any, ...]:
    *tensors, statistics, tile_counts = ctx.saved_tensors
    c, n = tile_counts.shape
    if g_splats is None:
        g_splats = tensors[0].new_zeros(c, n, SPLAT)
    if g_values is None:
        g_values = tensors[0].new_zeros(c, n, channels_of(ctx.options[7], ctx.options[8]))
    grads = torch.ops.luxel.project_gaussians_bwd(
        *tensors, statistics, *ctx.options, tile_counts, g_splats, g_values, ctx.pose
    )
    return (*grads[:6], grads[6] if ctx.pose else None, *(None,) * 11)


register_implementation("project_gaussians", _forward, _fake, _autograd, _setup_context)
register_implementation("project_gaussians_bwd", _backward, _backward_fake)


def project_gaussians(
    parameters: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor],
    world_to_cam: Tensor,
    intrinsics: Tensor,
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
    """Projects N Gaussians into C cameras (EWA splatting, Zwicker et al. 2002; Kerbl et al. 2023).

    Args:
        parameters: the raw tensors of `Gaussians`, in its order.
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4], pixels.
        width, height: image size in pixels.
        sh_degree: degree evaluated, limited by the coefficients that are stored.
        near, far: range of depths drawn, 0 < near.
        dilation: added to the diagonal of the screen covariance, px^2.
        antialiased: keep the integral of the dilated splat (Mip-Splatting, Yu et al. 2024).
        with_depth, with_normals: append depth, world-space normal to the values.
        statistics: [N, 4], filled by the backward: sums of the norm of d loss / d mean2d (half image sizes), of
            its per-pixel absolute version, times seen, largest radius relative to the image.

    Returns:
        splats [C, N, 8] (x, y, opacity, depth, conic a, b, c, radius; rows of culled Gaussians undefined),
        values [C, N, D] (rgb, depth, normal), tile_counts [C, N] int32 (0: culled), totals [2] int64
        (visible splats, tile instances).
        Only splats and values carry gradients; depth's goes through values, radius has none.
    """
    if not near > 0:
        raise ValueError(f"near must be positive, got {near}")
    options = (width, height, sh_degree, near, far, dilation, antialiased, with_depth, with_normals)
    return torch.ops.luxel.project_gaussians(*parameters, world_to_cam, intrinsics, statistics, *options)
