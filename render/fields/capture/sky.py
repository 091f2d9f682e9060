"""Colours behind a field by direction: what is too far away to be in its boxes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from luxel.render.fields.capture.posed_images import views_of
from luxel.render.fields.drawing.rays import camera_rays
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.colour_inputs import HARMONICS, colour_inputs

WIDTH = 32
UNUSED = 4  # inputs in addition to the harmonics, always 0: the kernel takes a multiple of 4


class Sky(nn.Module):
    """A colour for every direction: spherical harmonics up to degree 3, then a network of one hidden layer.

    Args:
        precise: on a GPU, float throughout.
        seed: of the first weights.
    """

    def __init__(self, precise: bool = False, seed: int = 0) -> None:
        super().__init__()
        self.network = Mlp(UNUSED + HARMONICS, 3, width=WIDTH, hidden_layers=1, precise=precise, seed=seed)

    def forward(self, directions: Tensor) -> Tensor:
        """Unit vectors [R, 3] to colours in [0, 1], sRGB, [R, 3]."""
        nothing = directions.new_zeros(len(directions), UNUSED)
        return self.network(colour_inputs(nothing, directions.contiguous())[0]).sigmoid()

    @torch.no_grad()
    def image(self, camera: Camera) -> Tensor:
        """Of every pixel of a camera, [H, W, 3]."""
        directions = camera_rays(camera)[1].float()
        return self(directions).view(camera.height, camera.width, 3)


def pixel_directions(pixels: Tensor, views: Tensor, world_to_cam: Tensor, intrinsics: Tensor) -> Tensor:
    """Unit directions of the rays through the centres of pixels, [R, 3]; nothing waits for the device.

    Args:
        pixels: numbers over the images of all views, int64 [R]; for negative ones the result is that of the first.
        views: number of the first pixel and width of each, int64 [V, 2].
        world_to_cam, intrinsics: of the views, [V, 4, 4], [V, 4].
    """
    pixel, view = pixels.clamp_min(0), views_of(pixels, views)
    first, width = views[view].unbind(-1)
    column, row = (pixel - first) % width, (pixel - first) // width
    fx, fy, cx, cy = intrinsics[view].unbind(-1)
    local = torch.stack([(column + 0.5 - cx) / fx, (row + 0.5 - cy) / fy, torch.ones_like(fx)], -1)
    return nn.functional.normalize((local[..., None] * world_to_cam[view, :3, :3]).sum(1), dim=-1)
