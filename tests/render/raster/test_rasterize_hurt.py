"""Scenes that hurt: nothing to see, far too much, and numbers that are none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize


def check_gradients(gaussians: Gaussians, camera, **options) -> dict[str, torch.Tensor]:
    """Renders, weighs all outputs, and fails unless images and gradients are finite."""
    gaussians = gaussians.detach().requires_grad_()
    frame = rasterize(gaussians, camera, depth=True, normals=True, **options)
    loss = sum(t.sum() for t in (frame.rgb, frame.alpha, frame.depth, frame.normals))
    assert torch.isfinite(loss)
    loss.backward()
    gradients = {name: t.grad for name, t in gaussians.tensors().items()}
    for name, gradient in gradients.items():
        assert gradient is not None and gradient.isfinite().all(), f"gradient of {name} is not finite"
    return gradients


def test_empty(random_gaussians, toy_camera, precision):
    camera, background = toy_camera(20, 10, **precision), torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    empty = random_gaussians(0, **precision).requires_grad_()
    expected = {"depth": True, "normals": True, "count": True, "features": empty.means}
    frame = rasterize(empty, camera, background=background, **expected)
    torch.testing.assert_close(frame.rgb, background.expand(10, 20, 3))
    for image in (frame.alpha, frame.depth, frame.median_depth, frame.normals, frame.features, frame.count):
        assert not image.any()
    check_gradients(empty, camera)


def test_one(agrees, random_gaussians, toy_camera, precision):
    one = random_gaussians(1, seed=2, scale=0.5, opacity_logit=2, **precision)
    one.means.zero_()
    # Expected depth is (w z) / w here: its gradient by w is 0 / w, and float32 has only rounding to offer.
    agrees(one, toy_camera(33, 17), depth=precision["dtype"] == torch.float64, normals=True)


def test_all_behind(random_gaussians, toy_camera, precision):
    gaussians = random_gaussians(50, scale=0.5, spread=0.3, **precision)
    camera = toy_camera(20, 10, eye=(0, -4, 0), target=(0, -8, 0), **precision)
    gradients = check_gradients(gaussians, camera, background=torch.ones(3, **precision))
    assert not any(gradient.any() for gradient in gradients.values())


def test_around_the_camera(agrees, random_gaussians, toy_camera, precision):
    """Half of the Gaussians behind, many far beside the view: the clamp of the Jacobian works here."""
    camera = toy_camera(40, 30, eye=(0.0, -0.5, 0.1), target=(0, 0, 0))
    agrees(random_gaussians(200, seed=8, scale=0.1, **precision), camera, depth=True, jumps=0.05)


def test_huge(agrees, random_gaussians, toy_camera, precision):
    """Gaussians that cover every tile, some by far."""
    gaussians = random_gaussians(30, seed=9, scale=4.0, opacity_logit=-1, **precision)
    gaussians.means[:, 1] += 5
    agrees(gaussians, toy_camera(40, 30))


@pytest.mark.parametrize("log_scale", [20.0, 44.0, 88.0, 300.0])
def test_absurdly_huge(random_gaussians, toy_camera, precision, log_scale):
    gaussians = random_gaussians(10, **precision)
    gaussians.log_scales[::2] += log_scale
    check_gradients(gaussians, toy_camera(30, 20, **precision))


@pytest.mark.parametrize("log_scale", [-20.0, -60.0, -200.0])
def test_absurdly_small(agrees, random_gaussians, toy_camera, precision, log_scale):
    gaussians = random_gaussians(40, opacity_logit=3, **precision)
    gaussians.log_scales += log_scale
    agrees(gaussians, toy_camera(30, 20))
    check_gradients(gaussians, toy_camera(30, 20, **precision), antialiased=True)


def test_needles(random_gaussians, toy_camera, precision):
    gaussians = random_gaussians(60, opacity_logit=3, **precision)
    gaussians.log_scales[:, 0] += 6
    gaussians.log_scales[:, 1:] -= 6
    check_gradients(gaussians, toy_camera(50, 30, **precision))


def test_zero_quaternions_are_dropped(random_gaussians, toy_camera, precision):
    gaussians, camera = random_gaussians(30, **precision), toy_camera(30, 20, **precision)
    gaussians.quats[::3] = 0
    rest = gaussians.select((torch.arange(30) % 3 != 0).to(gaussians.device))
    torch.testing.assert_close(rasterize(gaussians, camera).rgb, rasterize(rest, camera).rgb, rtol=0, atol=0)
    check_gradients(gaussians, camera)


@pytest.mark.parametrize("name", Gaussians.names)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_not_a_number_stays_where_it_is(random_gaussians, toy_camera, precision, name, value):
    """One bad Gaussian in three: the image and the gradients of the others are those without it."""
    gaussians, camera = random_gaussians(30, seed=11, **precision), toy_camera(40, 30, **precision)
    good = (torch.arange(30) % 3 != 0).to(gaussians.device)
    tensor = getattr(gaussians, name)
    tensor.view(30, -1)[~good, -1] = value
    gradients = check_gradients(gaussians, camera)
    if value == value and name in ("log_scales", "opacity_logits"):
        return  # e^-inf = 0 and sigmoid(inf) = 1 are good numbers: such a Gaussian may be drawn
    without = rasterize(gaussians.select(good), camera)
    torch.testing.assert_close(rasterize(gaussians, camera).rgb, without.rgb, rtol=0, atol=0)
    expected = check_gradients(gaussians.select(good), camera)
    for key, gradient in gradients.items():
        assert not gradient[~good].any(), f"a dropped Gaussian has a gradient of {key}"
        scale = expected[key].abs().max().item()
        torch.testing.assert_close(gradient[good], expected[key], rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("part", ["world_to_cam", "intrinsics"])
def test_a_camera_that_is_no_number_draws_background(random_gaussians, toy_camera, precision, part, value):
    camera = toy_camera(20, 10, **precision)
    getattr(camera, part).view(-1)[0] = value
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    frame = rasterize(random_gaussians(20, **precision), camera, background=background)
    torch.testing.assert_close(frame.rgb, background.expand(10, 20, 3))


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (15, 17), (16, 16), (17, 33), (129, 3)])
def test_sizes(agrees, random_gaussians, toy_camera, precision, size):
    agrees(
        random_gaussians(60, seed=12, **precision),
        toy_camera(*size),
        background=torch.tensor([0.5, 0.1, 0.9]),
        jumps=0.0 if size == (1, 1) else 0.05,
    )


def test_thousands_of_splats_on_one_tile(agrees, random_gaussians, toy_camera, precision):
    """Faint splats on top of each other: a tile's list is far longer than any batch in which it is read."""
    gaussians = random_gaussians(4000, seed=13, scale=0.1, spread=0.05, opacity_logit=-5.5, **precision)
    gaussians.opacity_logits.clamp_(max=-4.0)
    agrees(gaussians, toy_camera(16, 16), jumps=0.6)


def test_pixels_end_behind_an_opaque_wall(agrees, random_gaussians, toy_camera, precision):
    gaussians = random_gaussians(300, seed=14, scale=0.6, opacity_logit=5, **precision)
    agrees(gaussians, toy_camera(33, 33), jumps=0.1)


def test_equal_depths_keep_the_order_of_the_gaussians(toy_camera, precision):
    """Coplanar Gaussians, as a flat scene has them, are blended in the order in which they are stored."""
    n = 8
    gaussians = Gaussians(
        means=torch.zeros(n, 3),
        quats=torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
        log_scales=torch.full((n, 3), -0.5),
        opacity_logits=torch.zeros(n),
        sh_dc=torch.linspace(-1, 1, n)[:, None].repeat(1, 3),
        sh_rest=torch.zeros(n, 0, 3),
    ).map(lambda t: t.to(**precision))
    camera = toy_camera(9, 9, **precision)
    color = (gaussians.sh_dc * 0.28209479177387814 + 0.5)[:, 0]
    rgb = rasterize(gaussians, camera).rgb[4, 4, 0]
    weights = 0.5 ** torch.arange(1, n + 1, **precision)
    torch.testing.assert_close(rgb, (weights * color).sum(), rtol=0, atol=2e-2)
    backwards = gaussians.select(torch.arange(n - 1, -1, -1, device=gaussians.device))
    assert rasterize(backwards, camera).rgb[4, 4, 0] > rgb + 0.1


@pytest.fixture
def poison(monkeypatch):
    """Memory that torch hands out uninitialised is NaN (floats) or the largest number (integers)."""
    was = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    yield
    torch.use_deterministic_algorithms(was[0], warn_only=was[1])


@pytest.mark.filterwarnings("ignore:.*deterministic")
def test_unwritten_memory_is_never_read(agrees, random_gaussians, toy_camera, precision, poison):
    """Half of the Gaussians are culled, so half of the rows between the stages are poison."""
    gaussians = random_gaussians(150, seed=16, **precision)
    gaussians.means[::2, 1] -= 8  # behind the camera
    assert torch.empty(4).isnan().all()
    features = torch.rand(150, 5, generator=torch.Generator().manual_seed(0))
    agrees(gaussians, toy_camera(41, 30), depth=True, normals=True, features=features)
    agrees(random_gaussians(0, **precision), toy_camera(20, 10), depth=True)


def test_cpu_results_do_not_depend_on_threads(random_gaussians, toy_camera):
    """Bit for bit, gradients included: an interrupted run that resumes on other cores goes on as it was."""
    results, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            gaussians = random_gaussians(3000, seed=17, scale=0.05).requires_grad_()
            camera = toy_camera(90, 70)
            pose = camera.world_to_cam.clone().requires_grad_()
            frame = rasterize(gaussians, replace(camera, world_to_cam=pose), depth=True)
            (frame.rgb.square().sum() + frame.depth.sum()).backward()
            results.append([frame.rgb, pose.grad, *(t.grad for t in gaussians.tensors().values())])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        for actual, expected in zip(other, results[0], strict=True):
            assert torch.equal(actual, expected)
