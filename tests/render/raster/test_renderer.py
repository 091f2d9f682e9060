"""A Renderer draws what `rasterize` draws, whatever room the frame before needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from gaussians4d_scenes import random_gaussians4d

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster import renderer
from luxel.render.raster.rasterize import rasterize
from luxel.render.raster.renderer import Renderer


def cameras(device: torch.device, width: int = 70, height: int = 50) -> list[Camera]:
    """From far away to near: the last sees the most tiles."""
    return [
        Camera.look_at((0.3 * k, -d, 0.5), (0, 0, 0), width=width, height=height).to(device)
        for k, d in enumerate((9.0, 8.0, 7.0, 4.0, 2.5))
    ]


def test_draws_what_rasterize_draws(
    random_gaussians: Callable[..., Gaussians], device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "SPARE", 0)  # so that nearer frames need more room than there is
    scene = random_gaussians(400, device=device)
    background = torch.tensor([0.2, 0.4, 0.6], device=device)
    drawer = Renderer(scene, background=background, depth=True, count=True)
    for camera in [*cameras(device), *cameras(device), *cameras(device, 33, 21)]:
        actual, expected = (
            drawer.draw(camera),
            rasterize(scene, camera, background=background, depth=True, count=True),
        )
        for name in ("rgb", "alpha", "depth", "count"):
            torch.testing.assert_close(getattr(actual, name), getattr(expected, name), rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_autograd(
    random_gaussians: Callable[..., Gaussians], device: torch.device
) -> None:
    scene = random_gaussians(300, device=device)
    drawer = Renderer(scene, sh_degree=2)
    for k, camera in enumerate(cameras(device)):
        g_rgb = torch.randn(50, 70, 3, generator=torch.Generator().manual_seed(k)).to(device)
        drawer.draw(camera)
        _, actual = drawer.draw_with_gradients(camera, g_rgb)
        leaves = scene.detach().requires_grad_()
        rasterize(leaves, camera, sh_degree=2).rgb.backward(g_rgb)
        for name, leaf in leaves.tensors().items():
            scale = leaf.grad.abs().max()
            torch.testing.assert_close(getattr(actual, name) / scale, leaf.grad / scale, rtol=0, atol=1e-4)


def test_changes_in_place_show(random_gaussians: Callable[..., Gaussians], device: torch.device) -> None:
    scene, camera = random_gaussians(100, device=device), cameras(device)[0]
    drawer = Renderer(scene)
    for _ in range(3):
        before = drawer.draw(camera).rgb.clone()
    scene.opacity_logits.fill_(-9.0)
    assert before.abs().max() > 0.1 and drawer.draw(camera).rgb.abs().max() == 0


def test_a_camera_moved_in_place_shows(
    random_gaussians: Callable[..., Gaussians], device: torch.device
) -> None:
    scene, camera = random_gaussians(100, device=device), cameras(device)[3]
    drawer = Renderer(scene)
    for _ in range(3):
        before = drawer.draw(camera).rgb.clone()
        assert torch.equal(drawer.draw(camera).rgb, before)
    camera.world_to_cam[0, 3] += 0.4
    torch.testing.assert_close(drawer.draw(camera).rgb, rasterize(scene, camera).rgb, rtol=1e-5, atol=1e-5)
    assert (drawer.draw(camera).rgb - before).abs().max() > 0.05


def test_what_does_not_fit_is_named(random_gaussians: Callable[..., Gaussians], device: torch.device) -> None:
    drawer, camera = Renderer(random_gaussians(10, device=device)), cameras(device)[0]
    with pytest.raises(ValueError, match=r"\[50, 70, 3\], got \[50, 70\]"):
        drawer.draw_with_gradients(camera, torch.zeros(50, 70, device=device))
    with pytest.raises(ValueError, match="camera must be a single one"):
        drawer.draw(Camera.stack(cameras(device)))
    with pytest.raises(ValueError, match="time must be given: 4D Gaussians move"):
        Renderer(random_gaussians4d(5).to(device)).draw(camera)
