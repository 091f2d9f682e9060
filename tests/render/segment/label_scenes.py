"""Scenes, label maps and witnesses that the tests of votes and label images share."""

from __future__ import annotations

from typing import Any

import torch
from convex_scenes import random_convexes
from gaussians4d_scenes import random_gaussians4d
from surfel_scenes import random_surfels
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.segment import NO_LABEL

WIDTH, HEIGHT = 50, 37
# Name of the primitive, time.
CASES = [
    ("gaussians", None),
    ("gaussians4d", 0.4),
    ("gaussians4d", 0.7),
    ("convexes", None),
    ("surfels", None),
]


def labelled_scene(
    name: str, gaussians: Any, count: int, dtype: torch.dtype, device: torch.device
) -> Parameters:
    """A random scene of a primitive; gaussians: the fixture `random_gaussians`."""
    if name == "gaussians":
        return gaussians(count, seed=3, dtype=dtype, device=device)
    if name == "gaussians4d":
        return random_gaussians4d(count, seed=4).map(lambda t: t.to(device, dtype))
    if name == "surfels":
        return random_surfels(count, seed=6).map(lambda t: t.to(device, dtype))
    return random_convexes(count, seed=5).map(lambda t: t.to(device, dtype))


def two_cameras(toy_camera: Any, width: int = WIDTH, height: int = HEIGHT, **precision: Any) -> Camera:
    return Camera.stack(
        [
            toy_camera(width, height, **precision),
            toy_camera(width, height, eye=(2.5, 2, 1), off_centre=True, **precision),
        ]
    )


def random_maps(cameras: int, labels: int, height: int = HEIGHT, width: int = WIDTH, cell: int = 7) -> Tensor:
    """Square regions of random labels, with some regions that have none, [C, H, W]."""
    generator = torch.Generator().manual_seed(labels)
    shape = cameras, -(-height // cell), -(-width // cell)
    cells = torch.randint(0, labels + 1, shape, generator=generator)
    cells[cells == labels] = NO_LABEL
    maps = cells.repeat_interleave(cell, 1).repeat_interleave(cell, 2)[:, :height, :width]
    return maps.to(torch.uint8).contiguous()


def votes_by_gradient(
    scene: Parameters, camera: Camera, maps: Tensor, labels: int, time: float | None = None, **options: Any
) -> Tensor:
    """The witness: votes are the gradient of blended features by the features; columns: labels, then all pixels."""
    features = scene.opacity_logits.new_zeros(scene.count, labels + 1, requires_grad=True)
    blended = rasterize(scene.detach(), camera, time=time, features=features, **options).features
    assert blended is not None
    index = maps.to(blended.device, torch.int64).clamp(max=labels)
    g_blended = torch.zeros_like(blended).scatter_(-1, index[..., None], 1)
    g_blended[..., -1] = 1
    return torch.autograd.grad(blended, features, g_blended)[0]


def blended_labels(
    scene: Parameters, camera: Camera, labels: Tensor, count: int, time: float | None = None
) -> tuple[Tensor, Tensor]:
    """The witness of label images: blended one-hot labels [.., H, W, L], transmittance [.., H, W]."""
    one_hot = torch.nn.functional.one_hot(labels.long().clamp(max=count), count + 1)[:, :count]
    frame = rasterize(scene, camera, time=time, features=one_hot.to(scene.opacity_logits))
    assert frame.features is not None and frame.transmittance is not None
    return frame.features, frame.transmittance
