"""Depth of Gaussians as planes: the plane through each centre across its shortest axis, blended, and met by the rays.

The mean of the depths of centres lies in front of or behind a surface that is viewed at an angle, as a Gaussian has one
depth for all of its pixels. Where the normals N and the distances D of planes to the camera are blended instead, the
depth of a pixel is D / (N . r), with r the ray of the pixel of length 1 along z: exact for Gaussians in one plane,
whatever their weights (Chen et al. 2024, "PGSR", section 3.2).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.primitives.parameters import Parameters, Projected

MIN_FACING = 0.02  # cosine between ray and blended normal below which a pixel has no depth of planes


class PlaneGradients(NamedTuple):
    """Gradients through the channel of `with_planes`."""

    values: Tensor  # of the projection, [C, N, D]
    means: Tensor  # [N, 3]
    world_to_cam: Tensor  # [C, 4, 4]


def with_planes(projected: Projected, scene: Parameters, world_to_cam: Tensor) -> Projected:
    """The projection with a last channel, the distance of the camera from the plane of each primitive; differentiable.

    It is n . (o - x), with the normal n turned towards the camera at o and the centre x: at least 0, in capture units.

    Args:
        projected: with normals as the last three channels.
        scene: N primitives. world_to_cam: [C, 4, 4].
    """
    return projected._replace(values=_appended(projected, scene.centres, world_to_cam))


def plane_gradients(
    projected: Projected, scene: Parameters, world_to_cam: Tensor, g_values: Tensor
) -> PlaneGradients:
    """The backward of `with_planes`, for steps without autograd.

    Args:
        projected, scene, world_to_cam: as given to `with_planes`.
        g_values: gradient by the values with the last channel, [C, N, D + 1]; 0 where culled.
    """
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (projected.values, scene.centres, world_to_cam)]
        values = _appended(projected._replace(values=leaves[0]), *leaves[1:])
    return PlaneGradients(*torch.autograd.grad(values, leaves, g_values))


def _appended(projected: Projected, centres: Tensor, world_to_cam: Tensor) -> Tensor:
    visible = projected.tile_counts[..., None] > 0  # the others have no values
    normals = torch.where(visible, projected.values[..., -3:], 0.0)
    eyes = -(world_to_cam[:, :3, :3].mT @ world_to_cam[:, :3, 3:])[..., 0]
    distance = (normals * (eyes[:, None] - centres)).sum(-1, keepdim=True)
    return torch.cat([projected.values, distance], -1)


def local_rays(intrinsics: Tensor, width: int, height: int) -> Tensor:
    """Rays through the centres of pixels in the axes of their cameras, of length 1 along z, [C, H, W, 3].

    Args:
        intrinsics: [C, 4] of pinholes.
        width, height: of the images.
    """
    fx, fy, cx, cy = (one[:, None, None] for one in intrinsics[:, :4].unbind(-1))
    x = torch.arange(width, device=intrinsics.device, dtype=intrinsics.dtype) + 0.5
    y = torch.arange(height, device=intrinsics.device, dtype=intrinsics.dtype) + 0.5
    right, down = (x - cx) / fx, (y[:, None] - cy) / fy
    return torch.stack(torch.broadcast_tensors(right, down, torch.ones_like(right)), -1)


def pixel_rays(world_to_cam: Tensor, intrinsics: Tensor, width: int, height: int) -> Tensor:
    """World-space rays through the centres of pixels, of length 1 along z, [C, H, W, 3].

    Args:
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4] of pinholes.
        width, height: of the images.
    """
    rays = local_rays(intrinsics, width, height)
    rotation = world_to_cam[:, None, None, :3, :3]
    return (rays[..., None] * rotation).sum(-2)  # R^T r


def plane_depth(distance: Tensor, normals: Tensor, world_to_cam: Tensor, intrinsics: Tensor) -> Tensor:
    """Depth along z at which rays meet the blended planes, [C, H, W], capture units; 0 where there is none.

    Args:
        distance: sum of w d, with d the distances of `with_planes` and w = T alpha, [C, H, W].
        normals: sum of w n, world space, [C, H, W, 3].
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4] of pinholes.
    """
    height, width = distance.shape[1:]
    rays = pixel_rays(world_to_cam, intrinsics, width, height)
    towards = -(normals * rays).sum(-1)
    known = towards > MIN_FACING * (rays.norm(dim=-1) * normals.detach().norm(dim=-1))
    return torch.where(known, distance / torch.where(known, towards, 1.0), 0.0)
