"""Stage: world convexes to polygons on the screen (kernels of the same name; plain torch in reference/)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.bin_splats import PRIMITIVES
from luxel.render.ops.project_gaussians import REST
from luxel.render.ops.registry import define, register_implementation, require

CONVEX = PRIMITIVES["convexes"]  # floats of one splat, see abi.h
FEWEST, MOST = 3, 8  # points of a convex
PARAMETERS = (
    "points",
    "log_delta",
    "log_sigma",
    "opacity_logits",
    "sh_dc",
    "sh_rest",
    "mask_logits",
)
_NAMES = (*PARAMETERS, "world_to_cam", "intrinsics")
_INPUTS = ", ".join(f"Tensor {name}" for name in _NAMES)
_OPTIONS = "int width, int height, int sh_degree, float near, float far, bool with_depth"
_PARAMETERS, _TENSORS = len(PARAMETERS), len(_NAMES)
# statistics is only handed on to the backward, which fills it.
define(f"project_convexes({_INPUTS}, Tensor? statistics, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)")
define(
    f"project_convexes_bwd({_INPUTS}, Tensor(a!)? statistics, {_OPTIONS}, Tensor tile_counts, Tensor g_splats, "
    "Tensor g_values, bool pose, *, Tensor? skip=None) -> ("
    + ", ".join(["Tensor"] * (_PARAMETERS + 1))
    + ")",
)


def _check_inputs(
    points: Tensor,  # [N, K, 3]
    log_delta: Tensor,  # [N]
    log_sigma: Tensor,  # [N]
    opacity_logits: Tensor,  # [N]
    sh_dc: Tensor,  # [N, 3]
    sh_rest: Tensor,  # [N, coefficients above degree 0, 3]
    mask_logits: Tensor,  # [N]
    world_to_cam: Tensor,  # [C, 4, 4]
    intrinsics: Tensor,  # [C, 4]
) -> None:
    if points.dim() != 3 or not FEWEST <= points.shape[1] <= MOST:
        raise ValueError(
            f"project_convexes: points must be [N, {FEWEST}..{MOST}, 3], got {list(points.shape)}"
        )
    n, c, dtype = points.shape[0], world_to_cam.shape[0], points.dtype
    given: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "points": (points, dtype, (n, points.shape[1], 3)),
        "log_delta": (log_delta, dtype, (n,)),
        "log_sigma": (log_sigma, dtype, (n,)),
        "opacity_logits": (opacity_logits, dtype, (n,)),
        "sh_dc": (sh_dc, dtype, (n, 3)),
        "sh_rest": (sh_rest, dtype, (n, sh_rest.shape[1], 3)),
        "mask_logits": (mask_logits, dtype, (n,)),
        "world_to_cam": (world_to_cam, dtype, (c, 4, 4)),
        "intrinsics": (intrinsics, dtype, (c, 4)),
    }
    require("project_convexes", points.device, given)
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"project_convexes needs float32 or float64, got {dtype}")


def _shared_arguments(tensors: tuple[Tensor, ...], options: tuple[Any, ...]) -> dict[str, Any]:
    """The fields of luxel_project_convexes_args that forward and backward share."""
    named = dict(zip(_NAMES, (t.contiguous() for t in tensors), strict=True))
    width, height, sh_degree, near, far, with_depth = options
    stride = named["sh_rest"].shape[1]
    return named | {
        "count": named["points"].shape[0],
        "cameras": named["world_to_cam"].shape[0],
        "points_each": named["points"].shape[1],
        "sh_stride": stride,
        "sh_degree": min(sh_degree, REST.index(stride)),
        "width": width,
        "height": height,
        "near_plane": near,
        "far_plane": far,
        "with_depth": int(with_depth),
    }


def _forward(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensors, options = args[:_TENSORS], args[_TENSORS + 1 :]
    _check_inputs(*tensors)
    splats, values, tile_counts, totals = outputs = _fake(*args)
    totals.zero_()
    if tile_counts.numel():
        library_for(splats.device).call(
            "project_convexes_fwd",
            splats.device,
            splats.dtype,
            **_shared_arguments(tensors, options),
            splats=splats,
            values=values,
            tile_counts=tile_counts,
            totals=totals,
        )
    return outputs


def _fake(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    points, with_depth = args[0], args[_TENSORS + 6]
    n, c = points.shape[0], args[_PARAMETERS].shape[0]
    return (
        points.new_empty(c, n, CONVEX),
        points.new_empty(c, n, 3 + int(with_depth)),
        points.new_empty(c, n, dtype=torch.int32),
        points.new_empty(2, dtype=torch.int64),
    )


def _backward(*args: Any, skip: Tensor | None = None) -> tuple[Tensor, ...]:
    tensors, statistics, options = args[:_TENSORS], args[_TENSORS], args[_TENSORS + 1 : _TENSORS + 7]
    tile_counts, g_splats, g_values, pose = args[_TENSORS + 7 :]
    grads = _backward_fake(*args)
    g_world_to_cam = grads[_PARAMETERS].zero_()
    points = tensors[0]
    if points.shape[0]:
        library_for(points.device).call(
            "project_convexes_bwd",
            points.device,
            points.dtype,
            **_shared_arguments(tensors, options),
            tile_counts=tile_counts,
            g_splats=g_splats.contiguous(),
            g_values=g_values.contiguous(),
            **{f"g_{name}": grad for name, grad in zip(PARAMETERS, grads[:_PARAMETERS], strict=True)},
            g_world_to_cam=g_world_to_cam if pose else None,
            statistics=statistics,
            skip=skip,
        )
    return grads


def _backward_fake(*args: Any, **_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in args[: _PARAMETERS + 1])


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[: _TENSORS + 1], output[2])
    ctx.options = inputs[_TENSORS + 1 :]
    ctx.pose = inputs[_PARAMETERS].requires_grad
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, g_splats: Tensor | None, g_values: Tensor | None, *_: Any) -> tuple[Any, ...]:
    *tensors, statistics, tile_counts = ctx.saved_tensors
    points, shape = tensors[0], tile_counts.shape
    if g_splats is None:
        g_splats = points.new_zeros(*shape, CONVEX)
    if g_values is None:
        g_values = points.new_zeros(*shape, 3 + int(ctx.options[5]))
    *grads, g_world_to_cam = torch.ops.luxel.project_convexes_bwd(
        *tensors, statistics, *ctx.options, tile_counts, g_splats, g_values, ctx.pose
    )
    return (*grads, g_world_to_cam if ctx.pose else None, *(None,) * 8)


register_implementation("project_convexes", _forward, _fake, _autograd, _setup_context)
register_implementation("project_convexes_bwd", _backward, _backward_fake)


def project_convexes(
    parameters: tuple[Tensor, ...],
    world_to_cam: Tensor,
    intrinsics: Tensor,
    *,
    width: int,
    height: int,
    sh_degree: int,
    near: float,
    far: float,
    with_depth: bool = False,
    statistics: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Projects N convexes into C cameras (Held et al. 2025, "3D Convex Splatting", section 3).

    Each convex becomes the convex hull of its projected points. What is dropped, and where no gradient passes, is
    said in `luxel.render.reference.project_convexes.project_convexes_reference`.

    Args:
        parameters: the raw tensors of `luxel.render.primitives.convexes.Convexes`, in its order.
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4], pixels.
        width, height: image size in pixels.
        sh_degree: degree evaluated, limited by the coefficients that are stored.
        near, far: range of depths drawn, 0 < near.
        with_depth: append the depth of the centroid to the values.
        statistics: [N, 4], filled by the backward: sum of d loss / d sigma with its sign (sigma activated), nothing,
            times seen, largest distance of a point from the centroid on the screen relative to the image.

    Returns:
        splats [C, N, 28] (x, y of the centroid, opacity after the mask, depth of the centroid, delta z, sigma z, number
        of edges, reach, box, then up to 8 corners relative to the centroid, see abi.h; rows of culled convexes
        undefined), values [C, N, D] (rgb, depth), tile_counts [C, N] int32 (0: culled), totals [2] int64 (visible
        splats, tile instances).
        Of the splats opacity, delta z, sigma z and corners carry gradients, and the values do; depth's goes through
        values.

    Raises:
        ValueError: shapes, types or devices do not fit, or near is not positive.
    """
    if not near > 0:
        raise ValueError(f"near must be positive, got {near}")
    options = (width, height, sh_degree, near, far, with_depth)
    return torch.ops.luxel.project_convexes(*parameters, world_to_cam, intrinsics, statistics, *options)
