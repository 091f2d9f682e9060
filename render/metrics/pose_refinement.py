"""Small corrections of camera poses, and the pose from which a scene looks most like an image."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.train.loss import photometric_loss
from luxel.render.ops.train.view_pose import view_pose
from luxel.render.raster.rasterize import rasterize

STEPS = 100
RATE = 4e-3  # radians, and share of the extent, of the first steps
SSIM_WEIGHT = 0.2


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
        render: rasterizer, called like luxel.render.raster.rasterize, with gradients by the camera.
        options: for ``render``.

    Returns:
        The camera with the pose of the smallest loss that was met, the first one included.
    """
    given, best = camera.world_to_cam.detach(), camera
    values = torch.zeros(1, 6, device=given.device, requires_grad=True)
    adam, smallest = torch.optim.Adam([values], betas=(0.9, 0.99)), math.inf
    for step in range(STEPS + 1):
        with torch.enable_grad():
            pose = view_pose(given[None], values, extent)[0]
            shown = render(scene, replace(camera, world_to_cam=pose), **options).rgb
            loss = photometric_loss(shown, image, weight, SSIM_WEIGHT)
        if float(loss.detach()) < smallest:
            smallest, best = float(loss.detach()), replace(camera, world_to_cam=pose.detach())
        if step < STEPS:
            adam.param_groups[0]["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * step / STEPS))
            (values.grad,) = torch.autograd.grad(loss, values)
            adam.step()
    return best
