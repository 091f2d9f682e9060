"""Where primitives appear to be: the points on which the images agree.

Primitives are composited in the order of their centres: of two that overlap in a pixel the nearer covers the farther.
On a surface seen at an angle a pixel thus shows primitives whose centres lie nearer to the camera than the surface in
the pixel, and silhouettes are wider than the surface. Training makes up for it by moving all centres behind the
surface, by half to the whole of their size. What they show is at the right pixels nevertheless: the surface is where
the rays through the centroids of their contributions meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians, quat_to_matrix
from luxel.render.primitives.surfels import Surfels
from luxel.render.rasterize import rasterize

LEAST = 0.02  # pixels that a primitive must cover in an image to count there
ANCHOR = 0.05  # weight of the own centre beside that of the rays: holds what is seen from one side alone
FLAT = 1e-3  # thickness of what has none, as a share of its mean size
MOST = 2.0  # sizes of a primitive that its depth may be shifted by, where it is seen at a grazing angle


@torch.no_grad()
def apparent_centres(scene: Gaussians | Surfels, cameras: Sequence[Camera], **render: Any) -> Tensor:
    """The point of each primitive that is nearest to the rays through the centroids of its contributions, [N, 3].

    With the contribution w of a primitive in an image, o the camera, and d the ray of length 1 through the centroid of
    its contributions, it minimises sum w |(1 - d d^T)(x - o)|^2 + a sum w |x - centre|^2. Primitives that no camera
    sees stay where they are. No gradient.

    Args:
        scene: N primitives.
        cameras: pinholes.
        render: options of `luxel.render.rasterize.rasterize`.
    """
    means = scene.means.detach().double()
    eye = torch.eye(3, dtype=means.dtype, device=means.device)
    matrix, vector = torch.zeros_like(means)[..., None] * eye, torch.zeros_like(means)
    total = torch.zeros_like(means[:, 0])
    for camera in cameras:
        weight, pixel = _contributions(scene, camera, render)
        weight = torch.where(weight > LEAST, weight, 0.0)
        pose = camera.world_to_cam.to(means)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        x, y = (pixel[:, 0] - cx) / fx, (pixel[:, 1] - cy) / fy
        ray = torch.nn.functional.normalize(
            torch.stack([x, y, torch.ones_like(x)], -1) @ pose[:3, :3], dim=-1
        )
        across = weight[:, None, None] * (eye - ray[:, :, None] * ray[:, None])
        matrix += across
        vector += across @ camera.position.to(means)
        total += weight
    anchor = ANCHOR * total + LEAST
    matrix += anchor[:, None, None] * eye
    return torch.linalg.solve(matrix, vector + anchor[:, None] * means).to(scene.means)


def _contributions(
    scene: Gaussians | Surfels, camera: Camera, render: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Sum over the pixels of each primitive's contributions [N], and their centroids in pixels [N, 2]; float64."""
    device = scene.means.device
    ones = torch.zeros(scene.count, 3, device=device, requires_grad=True)
    x, y = torch.arange(camera.width, device=device) + 0.5, torch.arange(camera.height, device=device) + 0.5
    # From the middle of the image, as float32 sums of large numbers lose digits.
    right, down = (
        (x - camera.width / 2)[None].expand(len(y), -1),
        (y - camera.height / 2)[:, None].expand(-1, len(x)),
    )
    with torch.enable_grad():
        frame = rasterize(scene, camera, features=ones, **render)
        assert frame.features is not None
        weights = torch.stack([torch.ones_like(right), right, down], -1)
        (sums,) = torch.autograd.grad((frame.features * weights).sum(), ones)
    sums = sums.double()
    middle = sums.new_tensor([camera.width / 2, camera.height / 2])
    return sums[:, 0], sums[:, 1:] / sums[:, :1].clamp_min(1e-12) + middle


def depth_shift(scene: Gaussians | Surfels, camera: Camera, moved: Tensor) -> Tensor:
    """By how much depth along the ray of each primitive changes when it is moved, [N], capture units.

    The depth along z of the highest density (see `luxel.render.surface_depth.ray_depth`) is linear in the centre: with
    the shift v, the ray r of length 1 along z and the inverse A of a root of the covariance, it changes by
    (A r . A v) / (A r . A r). Here r is the ray through the centre.

    Args:
        scene: Gaussians or surfels.
        moved: centres, [N, 3].
    """
    pose = camera.world_to_cam.to(scene.means)
    away = scene.means - camera.position.to(scene.means)
    ray = away / (away @ pose[2, :3]).clamp_min(camera.near)[:, None]
    axes, scales = quat_to_matrix(scene.quats), scene.scales
    if scales.shape[1] == 2:
        scales = torch.cat([scales, FLAT * scales.mean(1, keepdim=True)], 1)
    root = (axes / scales[:, None]).mT
    along, across = (root @ ray[..., None])[..., 0], (root @ (moved - scene.means)[..., None])[..., 0]
    most = MOST * scales.amax(1)
    return ((along * across).sum(-1) / along.square().sum(-1)).clamp(-most, most)
