"""Small corrections of camera poses, and the pose from which a scene looks most like a photograph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.ops.train.loss import photometric_loss
from luxel.render.rasterize import rasterize

STEPS = 60
RATE = 2e-3  # radians, and share of the extent, of the first steps
SSIM_WEIGHT = 0.2


def moved(world_to_cam: Tensor, rotation: Tensor, translation: Tensor) -> Tensor:
    """Cameras turned about their own centres and moved, along the axes of the world.

    Args:
        world_to_cam: [B, 4, 4].
        rotation: vectors whose length is the angle in radians, [B, 3].
        translation: of the centres, capture units, [B, 3].

    Returns:
        world_to_cam, [B, 4, 4].
    """
    turn = world_to_cam[:, :3, :3]
    centre = -(turn.mT @ world_to_cam[:, :3, 3:]) + translation[..., None]
    turned = turn @ rotation_matrix(-rotation)
    upper = torch.cat([turned, -turned @ centre], -1)
    return torch.cat([upper, world_to_cam[:, 3:]], 1)


def rotation_matrix(vectors: Tensor) -> Tensor:
    """Rotation matrices [B, 3, 3] of rotation vectors [B, 3] (Rodrigues), smooth at 0."""
    x, y, z = vectors.unbind(-1)
    zero = torch.zeros_like(x)
    skew = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))
    square = vectors.square().sum(-1)[:, None, None]
    small = square < 1e-6
    angle = torch.where(small, 1.0, square).sqrt()
    first = torch.where(small, 1 - square / 6, angle.sin() / angle)
    second = torch.where(small, 0.5 - square / 24, (1 - angle.cos()) / angle.square())
    return torch.eye(3, dtype=vectors.dtype, device=vectors.device) + first * skew + second * skew @ skew


def refine_camera(
    scene: Any,
    camera: Camera,
    image: Tensor,
    weight: Tensor | None = None,
    *,
    extent: float,
    render: Callable[..., Any] = rasterize,
    **options: Any,
) -> Camera:
    """The pose near a camera's own from which a scene, as it is, looks most like an image (Lin et al. 2021, sec. 4.2).

    Args:
        scene: any primitives.
        camera: where to begin.
        image: [H, W, 3] in [0, 1].
        weight: per pixel, [H, W]; None: all count alike.
        extent: of the scene, capture units; the camera moves by shares of it.
        render: rasterizer, called like luxel.render.rasterize, with gradients by the camera.
        options: for ``render``.

    Returns:
        The camera with the pose of the smallest loss that was met, the first one included.
    """
    given, best = camera.world_to_cam.detach(), camera
    values = torch.zeros(1, 6, device=given.device, requires_grad=True)
    adam, smallest = torch.optim.Adam([values], betas=(0.9, 0.99)), math.inf
    for step in range(STEPS + 1):
        with torch.enable_grad():
            pose = moved(given[None], values[:, :3], extent * values[:, 3:])[0]
            shown = render(scene, replace(camera, world_to_cam=pose), **options).rgb
            loss = photometric_loss(shown, image, weight, SSIM_WEIGHT)
        if float(loss.detach()) < smallest:
            smallest, best = float(loss.detach()), replace(camera, world_to_cam=pose.detach())
        if step < STEPS:
            adam.param_groups[0]["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * step / STEPS))
            (values.grad,) = torch.autograd.grad(loss, values)
            adam.step()
    return best
