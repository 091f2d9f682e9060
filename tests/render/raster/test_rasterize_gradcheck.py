"""Gradients of the shipped path by finite differences in double, on a scene kept away from its jumps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.rasterize import rasterize_reference

D = torch.float64


@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize("fast", [True, False])
def test_gradcheck(random_gaussians, toy_camera, antialiased, fast):
    n = 9 if fast else 3
    gaussians = random_gaussians(n, seed=1, scale=0.3, opacity_logit=0.5, sh_degree=3 if fast else 1, dtype=D)
    camera = toy_camera(18, 10, off_centre=True, dtype=D) if fast else toy_camera(7, 5, dtype=D)
    features, background = torch.rand(n, 4, dtype=D), torch.rand(3, dtype=D)
    keep = rasterize_reference(gaussians, camera, depth=True, antialiased=antialiased).margin > 1e-3
    assert keep.double().mean() > 0.8

    def render(world_to_cam, background, features, *parameters):
        frame = rasterize(
            Gaussians(*parameters),
            replace(camera, world_to_cam=world_to_cam),
            background=background,
            features=features,
            depth=True,
            normals=True,
            antialiased=antialiased,
        )
        return (
            frame.rgb[keep],
            frame.alpha[keep],
            frame.depth[keep],
            frame.normals[keep],
            frame.features[keep],
        )

    inputs = [camera.world_to_cam, background, features, *gaussians.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=fast)


def test_batch_gradcheck(random_gaussians, toy_camera):
    """The gradient of a batch is the sum over its cameras, and each pose has its own."""
    gaussians = random_gaussians(5, seed=6, scale=0.3, sh_degree=1, dtype=D)
    cameras = type(toy_camera()).stack([toy_camera(9, 9, dtype=D), toy_camera(9, 9, eye=(1, 3, 1), dtype=D)])
    keep = rasterize_reference(gaussians, cameras).margin > 1e-3

    def render(world_to_cam, *parameters):
        frame = rasterize(Gaussians(*parameters), replace(cameras, world_to_cam=world_to_cam))
        return frame.rgb[keep], frame.alpha[keep]

    inputs = [cameras.world_to_cam, *gaussians.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=True)
