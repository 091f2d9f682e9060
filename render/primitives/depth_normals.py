"""Normals of surfaces that are given by depth maps, and how far rendered normals are from them."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.primitives.planes import local_rays
from luxel.render.primitives.terms import StepImages

COVERED = 0.5  # alpha from which on a pixel has a surface


def depth_normals(z: Tensor, world_to_cam: Tensor, intrinsics: Tensor) -> Tensor:
    """World-space normals of length 1 towards the camera, from central differences, [B, H - 2, W - 2, 3].

    Huang et al. 2024, "2D Gaussian Splatting", eq. 15. They are 0 where the differences are parallel.

    Args:
        z: depths, [B, H, W]. world_to_cam: [B, 4, 4]. intrinsics: [B, 4] of pinholes.
    """
    _, height, width = z.shape
    points = local_rays(intrinsics, width, height) * z[..., None]
    along_x = points[:, 1:-1, 2:] - points[:, 1:-1, :-2]
    along_y = points[:, 2:, 1:-1] - points[:, :-2, 1:-1]
    normal = torch.linalg.cross(along_y, along_x)  # towards the camera
    length = normal.square().sum(-1, keepdim=True)
    known = length > 0
    normal = torch.where(known, normal, 0.0) * torch.where(known, length, 1.0).rsqrt()
    rotation = world_to_cam[:, None, None, :3, :3]
    return (normal[..., None] * rotation).sum(-2)  # R^T n


def normal_difference(images: StepImages, z: Tensor, emphasis: Tensor | None = None) -> Tensor:
    """Mean over pixels of sum_i w_i (1 - n_i . N), with N the normal of the surface of depths z; a scalar.

    Huang et al. 2024, "2D Gaussian Splatting", eq. 14. Pixels at the border do not count, nor those where a neighbour
    is covered by less than half or has no depth.

    Args:
        images: of B views.
        z: depth of the surface at each pixel, [B, H, W]; 0: none.
        emphasis: factor on each pixel, [B, H, W]; None: 1.
    """
    normal = depth_normals(z, images.world_to_cam, images.intrinsics)
    inner = (slice(None), slice(1, -1), slice(1, -1))
    cover = 1 - images.transmittance
    solid = torch.where(z > 0, cover, 0.0)
    around = (solid[:, 1:-1, 2:], solid[:, 1:-1, :-2], solid[:, 2:, 1:-1], solid[:, :-2, 1:-1])
    counts = torch.stack(around).amin(0).minimum(solid[inner]).detach() > COVERED
    difference = cover[inner] - (images.normals[inner] * normal).sum(-1)
    difference = torch.where(counts & normal.any(-1), difference, 0.0)
    if emphasis is not None:
        difference = difference * emphasis[inner]
    return difference.mean() if images.weight is None else (difference * images.weight[inner]).mean()
