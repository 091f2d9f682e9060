"""Stage: camera poses with a small correction each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

define("view_pose(Tensor world_to_cam, Tensor parameters, float extent) -> Tensor")
define("view_pose_bwd(Tensor g_moved, Tensor world_to_cam, Tensor parameters, float extent) -> Tensor")


def view_pose(world_to_cam: Tensor, parameters: Tensor, extent: float) -> Tensor:
    """Cameras turned about their own centres and moved, along the axes of the world; gradients by the parameters.

    See `luxel.render.reference.train.view_models.pose_reference`.

    Args:
        world_to_cam: [B, 4, 4], float32 or (CPU only) float64. It gets no gradient.
        parameters: [B, 6]: a vector whose length is the angle in radians, and the translation of the centre / extent.
        extent: of the scene, capture units.

    Returns:
        world_to_cam, [B, 4, 4].

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return torch.ops.luxel.view_pose(world_to_cam, parameters, extent)


def _arguments(world_to_cam: Tensor, parameters: Tensor, extent: float) -> dict[str, Any]:
    views = world_to_cam.shape[0]
    if world_to_cam.dtype not in (torch.float32, torch.float64) or tuple(world_to_cam.shape[1:]) != (4, 4):
        raise ValueError(
            "view_pose: world_to_cam must be [B, 4, 4], float32 or float64, "
            f"got {list(world_to_cam.shape)} {world_to_cam.dtype}"
        )
    require("view_pose", world_to_cam.device, {"parameters": (parameters, world_to_cam.dtype, (views, 6))})
    return {
        "world_to_cam": world_to_cam.contiguous(),
        "parameters": parameters.contiguous(),
        "extent": float(extent),
        "views": views,
    }


def _forward(world_to_cam: Tensor, parameters: Tensor, extent: float) -> Tensor:
    arguments = _arguments(world_to_cam, parameters, extent)
    moved = torch.empty_like(world_to_cam, memory_format=torch.contiguous_format)
    library = library_for(moved.device)
    library.call("view_pose_fwd", moved.device, moved.dtype, **arguments, moved=moved)
    return moved


def _backward(g_moved: Tensor, world_to_cam: Tensor, parameters: Tensor, extent: float) -> Tensor:
    arguments = _arguments(world_to_cam, parameters, extent)
    require("view_pose", parameters.device, {"g_moved": (g_moved, parameters.dtype, (len(parameters), 4, 4))})
    gradient = torch.empty_like(parameters, memory_format=torch.contiguous_format)
    library_for(gradient.device).call(
        "view_pose_bwd",
        gradient.device,
        gradient.dtype,
        **arguments,
        g_moved=g_moved.contiguous(),
        g_parameters=gradient,
    )
    return gradient


def _fake_forward(world_to_cam: Tensor, *_: object) -> Tensor:
    return torch.empty_like(world_to_cam, memory_format=torch.contiguous_format)


def _fake_backward(g_moved: Tensor, world_to_cam: Tensor, parameters: Tensor, *_: object) -> Tensor:
    return torch.empty_like(parameters, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.extent = inputs[2]


def _differentiate(ctx: Any, g_moved: Tensor) -> tuple[Tensor | None, ...]:
    return None, torch.ops.luxel.view_pose_bwd(g_moved, *ctx.saved_tensors, ctx.extent), None


register_implementation("view_pose", _forward, _fake_forward, _differentiate, _save)
register_implementation("view_pose_bwd", _backward, _fake_backward)
