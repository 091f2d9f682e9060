"""What densification reads: gradients of the screen positions, taken by hand from the reference, pixel by pixel."""

from __future__ import annotations

import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.raster.rasterize import DensifyStatistics, rasterize
from luxel.render.reference.raster.bin_splats import bin_splats_reference
from luxel.render.reference.raster.rasterize import rasterize_reference

D = torch.float64
WIDTH, HEIGHT = 22, 13


@pytest.fixture(scope="module")
def expected(random_gaussians, toy_camera):
    """A scene, the weights of its loss, and per camera the statistics [N] by autograd of every pixel alone."""
    gaussians = random_gaussians(25, seed=21, scale=0.25, dtype=D)
    camera = Camera.stack(
        [toy_camera(WIDTH, HEIGHT, dtype=D), toy_camera(WIDTH, HEIGHT, eye=(3, 1, 1), dtype=D)]
    )
    gaussians.requires_grad_()
    frame = rasterize_reference(gaussians, camera, depth=True)
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(2, HEIGHT, WIDTH, 4, generator=generator, dtype=D) * (frame.margin > 2e-4)[..., None]
    loss = (torch.cat([frame.rgb, frame.depth[..., None]], -1) * weight).sum(-1)
    half = torch.tensor([WIDTH / 2, HEIGHT / 2], dtype=D)
    out = []
    for c, splats in enumerate(frame.splats):
        total = torch.zeros(25, 2, dtype=D)
        absolute, seen, radius = total.clone(), torch.zeros(25, dtype=D), torch.zeros(25, dtype=D)
        for pixel in loss[c].flatten():
            (gradient,) = torch.autograd.grad(pixel, splats.mean2d, retain_graph=True)
            total[splats.index] += gradient
            absolute[splats.index] += gradient.abs()
        touched = splats.index[bin_splats_reference(splats, WIDTH, HEIGHT)[0].unique()]
        seen[touched] = 1
        radius[splats.index] = splats.half_extent.amax(-1) / max(WIDTH, HEIGHT)
        out.append(((total * half).norm(dim=-1), (absolute * half).norm(dim=-1), seen, radius * seen))
    return gaussians.detach(), camera, weight, out


def accumulate(statistics, gaussians, camera, weight):
    frame = rasterize(gaussians, camera, depth=True, statistics=statistics, absolute_gradients=True)
    (torch.cat([frame.rgb, frame.depth[..., None]], -1) * weight).sum().backward()


def close(actual, expected):
    torch.testing.assert_close(
        actual.cpu().double(), expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item()
    )


@pytest.mark.parametrize("batched", [False, True])
def test_statistics_are_those_of_autograd(expected, device, batched):
    gaussians, cameras, weight, parts = expected
    gaussians = gaussians.to(torch.float32).to(device).requires_grad_()
    cameras, weight = cameras.to(torch.float32).to(device), weight.float().to(device)
    statistics = DensifyStatistics.zeros(25, device)
    if batched:
        accumulate(statistics, gaussians, cameras, weight)
    else:
        for c in range(2):
            one = Camera(cameras.world_to_cam[c], cameras.intrinsics[c], WIDTH, HEIGHT)
            accumulate(statistics, gaussians, one, weight[c])
    norms, absolutes, seen, radii = (torch.stack(column) for column in zip(*parts, strict=True))
    assert (absolutes.sum(0) > 1.05 * norms.sum(0)).any()  # the two kinds differ in this scene
    close(statistics.grad_norm, norms.sum(0))
    close(statistics.abs_grad_norm, absolutes.sum(0))
    close(statistics.visible, seen.sum(0))
    close(statistics.max_radius, radii.amax(0))


def test_statistics_leave_gradients_alone(random_gaussians, toy_camera, device):
    gradients = []
    for statistics in (None, DensifyStatistics.zeros(40, device)):
        gaussians = random_gaussians(40, device=device).requires_grad_()
        rasterize(gaussians, toy_camera(device=device), statistics=statistics).rgb.square().sum().backward()
        gradients.append([t.grad for t in gaussians.tensors().values()])
    for plain, counted in zip(*gradients, strict=True):
        torch.testing.assert_close(counted, plain, rtol=1e-4, atol=1e-5 * plain.abs().max().item())


def test_statistics_add_up_select_and_reset(random_gaussians, toy_camera, device):
    gaussians = random_gaussians(40, device=device).requires_grad_()
    statistics = DensifyStatistics.zeros(40, device)
    rasterize(gaussians, toy_camera(device=device), statistics=statistics).rgb.sum().backward()
    once = statistics.grad_norm.clone()
    rasterize(gaussians, toy_camera(device=device), statistics=statistics).rgb.sum().backward()
    torch.testing.assert_close(statistics.grad_norm, 2 * once, rtol=1e-3, atol=1e-5 * once.max().item())
    assert statistics.visible.max() == 2
    picked = statistics.select(torch.tensor([3, 1], device=device))
    assert torch.equal(picked.visible, statistics.visible[[3, 1]])
    assert torch.equal(picked.grad_norm, statistics.grad_norm[[3, 1]])
    statistics.reset()
    for name in ("grad_norm", "abs_grad_norm", "visible", "max_radius"):
        assert not getattr(statistics, name).any()


def test_nothing_is_counted_without_backward(random_gaussians, toy_camera, device):
    statistics = DensifyStatistics.zeros(40, device)
    with torch.no_grad():
        rasterize(random_gaussians(40, device=device), toy_camera(device=device), statistics=statistics)
    assert not statistics.visible.any()


def test_deterministic_gradients_repeat_to_the_bit(device, random_gaussians, toy_camera):
    """Thousands of splats over few tiles: sums in any order would differ in the last bits on a GPU."""
    gaussians = random_gaussians(3000, seed=5).to(device).requires_grad_()
    camera = toy_camera().to(device)
    features = torch.rand(3000, 13, generator=torch.Generator().manual_seed(1)).to(device)

    def gradients(deterministic: bool) -> list[torch.Tensor]:
        background = torch.full((3,), 0.3, device=device, requires_grad=True)
        frame = rasterize(
            gaussians,
            camera,
            background=background,
            features=features,
            depth=True,
            deterministic=deterministic,
        )
        loss = frame.rgb.square().sum() + frame.features.sin().sum() + frame.depth.sum()
        return list(torch.autograd.grad(loss, [*gaussians.tensors().values(), background]))

    first, *others = [gradients(True) for _ in range(3)]
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    for a, b in zip(first, gradients(False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * b.abs().max().item())
