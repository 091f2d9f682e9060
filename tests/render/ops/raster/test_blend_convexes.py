"""The rasterizer of convexes, project -> bin -> blend, against its reference: images, gradients, and what hurts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from convex_scenes import D, axis_camera, facing, random_convexes, solid
from convex_stages import MAX_ALPHA, assert_agrees, draw

from luxel.render.geometry.camera import Camera, Points
from luxel.render.ops.raster.blend_splats import CHANNELS
from luxel.render.ops.raster.policies import policy
from luxel.render.primitives.convexes import STARTING_SIGMA, Convexes
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference


def convexes_like(precision, *args, **options) -> Convexes:
    return random_convexes(*args, **options).map(lambda t: t.to(**precision))


@pytest.mark.parametrize("k", range(3, 9))
def test_agrees_with_the_reference(toy_camera, precision, k):
    camera = toy_camera(70, 50, off_centre=True, dtype=D)
    background = torch.tensor([0.25, 0.5, 0.875], dtype=D)
    drawn = assert_agrees(
        convexes_like(precision, 60, seed=k, k=k, sh_degree=k % 4), camera, background=background
    )
    assert drawn.count.max() > 8


@pytest.mark.parametrize("channels", CHANNELS)
def test_all_channel_counts(toy_camera, precision, channels):
    depth = channels not in (3, 6)
    features = torch.rand(40, channels - 3 - depth, generator=torch.Generator().manual_seed(1)).to(D)
    drawn = assert_agrees(
        convexes_like(precision, 40, seed=2),
        toy_camera(40, 30, dtype=D),
        depth=depth,
        features=features if features.shape[1] else None,
        background=torch.tensor([0.25, 0.5, 0.75], dtype=D),
    )
    assert drawn.values.shape[-1] == channels


def test_several_cameras_each_with_its_pose(toy_camera, precision):
    cameras = Camera.stack(
        [toy_camera(40, 30, dtype=D), toy_camera(40, 30, eye=(2.5, 2, 1), off_centre=True, dtype=D)]
    )
    features = torch.rand(50, 3, generator=torch.Generator().manual_seed(1)).to(D)
    assert_agrees(convexes_like(precision, 50, seed=3), cameras, features=features, depth=False)


@pytest.mark.parametrize("degree", range(4))
def test_degrees_of_colour(toy_camera, precision, degree):
    convexes = convexes_like(precision, 30, seed=4, sh_degree=3)
    assert_agrees(convexes, toy_camera(30, 30, dtype=D), sh_degree=degree)


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (15, 17), (16, 16), (129, 3)])
def test_sizes(toy_camera, precision, size):
    jumps = 0.0 if size == (1, 1) else 0.05
    assert_agrees(convexes_like(precision, 40, seed=5), toy_camera(*size, dtype=D), jumps=jumps)


def test_fixed_order_of_sums(toy_camera, precision):
    features = torch.rand(50, 12, generator=torch.Generator().manual_seed(1)).to(D)
    camera = toy_camera(40, 30, dtype=D)
    assert_agrees(convexes_like(precision, 50, seed=6), camera, deterministic=True)
    assert_agrees(convexes_like(precision, 50, seed=6), camera, deterministic=True, features=features)


def test_capped_alpha(toy_camera, precision):
    convexes = convexes_like(precision, 30, seed=7, size=0.8)
    convexes.opacity_logits += 5
    assert_agrees(convexes, toy_camera(40, 30, dtype=D), max_alpha=0.625, jumps=0.06)


@pytest.mark.parametrize(("count", "size"), [(200, 1.0), (150, 1.6)])
def test_as_training_starts(toy_camera, precision, count, size):
    """Smooth only across their edges: near a corner alone does more than one edge matter."""
    generator = np.random.default_rng(count)
    points = Points(
        (0.5 * generator.standard_normal((count, 3))).astype(np.float32),
        generator.integers(10, 256, (count, 3), np.uint8),
    )
    convexes = Convexes.from_points(points, sigma=STARTING_SIGMA["light"], sh_degree=1, opacity=0.4).scaled(
        size
    )
    assert_agrees(convexes.map(lambda t: t.to(**precision)), toy_camera(80, 60, dtype=D), jumps=0.2)


def test_sharp_edges(toy_camera, precision):
    """Solid polygons of one colour: alpha falls from its cap to nothing within a pixel."""
    points = random_convexes(12, seed=8, size=0.5).points
    convexes = solid(points, torch.rand(12, 3), delta=0.15, sigma=0.15).map(lambda t: t.to(**precision))
    assert_agrees(convexes, toy_camera(48, 40, dtype=D), jumps=0.05)


def test_thousands_of_convexes_on_one_tile(toy_camera, precision):
    """A tile's list is far longer than any batch in which it is read, or piece that is walked backwards."""
    convexes = convexes_like(precision, 1600, seed=9, k=5, size=0.8, sh_degree=0)
    convexes.points.mul_(0.5)
    convexes.opacity_logits.copy_(-4.8 + 0.1 * convexes.opacity_logits)
    convexes.mask_logits.fill_(1.0)
    drawn = assert_agrees(convexes, toy_camera(16, 16, dtype=D), jumps=0.7)
    assert drawn.count.max() > 600


def test_pixels_end_behind_a_wall(toy_camera, precision):
    convexes = convexes_like(precision, 200, seed=10, size=0.8)
    convexes.opacity_logits += 6
    assert_agrees(convexes, toy_camera(33, 33, dtype=D), jumps=0.12)


@pytest.mark.parametrize("count", [700, 1500])
def test_pixels_end_in_the_midst_of_a_piece(toy_camera, precision, count):
    """All pixels of a tile end in the first half of the first piece of its list, which is walked backwards too."""
    convexes = convexes_like(precision, count, seed=21, k=5, size=0.8, sh_degree=0)
    convexes.points.mul_(0.6)
    convexes.opacity_logits.mul_(0.1).add_(3)
    convexes.mask_logits.fill_(1.0)
    drawn = assert_agrees(convexes, toy_camera(16, 16, dtype=D), jumps=0.7)
    piece = policy("convexes", "test").piece
    assert len(drawn.lists[0]) > 2 * piece and drawn.count.max() < piece / 2


def test_convexes_that_cover_every_tile(toy_camera, precision):
    convexes = convexes_like(precision, 8, seed=11, size=1.0)
    convexes.points[..., 1] += 2
    convexes.log_delta -= 3
    drawn = assert_agrees(convexes, toy_camera(60, 45, dtype=D), jumps=0.05)
    assert drawn.tile_counts.max() == 12


@pytest.mark.parametrize("deterministic", [False, True])
def test_gradients_repeat(toy_camera, device, deterministic):
    if device.type == "cuda" and not deterministic:
        pytest.skip("sums on a GPU come out of atomic additions in any order")
    convexes = random_convexes(400, seed=12).map(lambda t: t.to(device, torch.float32))
    camera = toy_camera(device=device)
    actual = []
    for _ in range(3):
        leaves = convexes.detach().requires_grad_()
        draw(leaves, camera, deterministic=deterministic).image.square().sum().backward()
        actual.append([t.grad for t in leaves.tensors().values()])
    assert all(torch.equal(a, b) for other in actual[1:] for a, b in zip(actual[0], other, strict=True))


def test_cpu_results_do_not_depend_on_threads(toy_camera):
    results, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            convexes = random_convexes(900, seed=13, size=0.2).to(torch.float32).requires_grad_()
            camera = toy_camera(90, 70)
            pose = camera.world_to_cam.clone().requires_grad_()
            image = draw(convexes, replace(camera, world_to_cam=pose)).image
            image.square().sum().backward()
            results.append([image, pose.grad, *(t.grad for t in convexes.tensors().values())])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, results[0], strict=True))


@pytest.mark.parametrize("fast", [True, False])
def test_gradcheck(toy_camera, fast):
    """By finite differences along everything that leaves the depth of the centroids where it is."""
    convexes = random_convexes(6 if fast else 2, seed=8, k=5, size=0.6)
    convexes.points.mul_(0.7)
    camera = (
        toy_camera(18, 10, off_centre=True, dtype=D) if fast else toy_camera(7, 5, off_centre=True, dtype=D)
    )
    forward = camera.world_to_cam[2, :3]
    probe = rasterize_convexes_reference(convexes, camera, max_alpha=MAX_ALPHA)
    keep = (probe.margin > 1e-4)[None]
    assert keep.double().mean() > 0.8 and probe.splats[0].margin.min() > 1e-4

    def render(background, features, points, *rest):
        moved = points - convexes.points
        moved = moved - (moved.mean(1, keepdim=True) @ forward)[..., None] * forward
        given = Convexes(convexes.points + moved, *rest, convexes.mask_logits)
        drawn = draw(given, camera, background=background, features=features)
        return drawn.image[keep], drawn.alpha[keep]

    inputs = [torch.rand(3, dtype=D), torch.rand(convexes.count, 4, dtype=D)]
    inputs += [tensor for name, tensor in convexes.tensors().items() if name != "mask_logits"]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=fast)


def check_gradients(convexes: Convexes, camera: Camera, **options) -> dict[str, torch.Tensor]:
    """Draws, weighs all outputs, and fails unless images and gradients are finite."""
    convexes = convexes.detach().requires_grad_()
    drawn = draw(convexes, camera, **options)
    loss = drawn.image.sum() + drawn.alpha.sum()
    assert torch.isfinite(loss)
    loss.backward()
    gradients = {name: t.grad for name, t in convexes.tensors().items()}
    for name, gradient in gradients.items():
        assert gradient is not None and gradient.isfinite().all(), f"gradient of {name} is not finite"
    return gradients


def test_empty(toy_camera, precision):
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    empty = Convexes.empty(5).map(lambda t: t.to(**precision))
    drawn = draw(empty, toy_camera(20, 17, **precision), background=background)
    torch.testing.assert_close(drawn.image[0, ..., :3], background.expand(17, 20, 3))
    assert not drawn.alpha.any() and not drawn.count.any()
    check_gradients(empty, toy_camera(20, 17, **precision))


@pytest.mark.parametrize("name", Convexes.names)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_not_a_number_stays_where_it_is(toy_camera, precision, name, value):
    """One bad convex in three: the image and the gradients of the others are those without it."""
    convexes, camera = convexes_like(precision, 30, seed=14), toy_camera(40, 30, **precision)
    good = (torch.arange(30) % 3 != 0).to(convexes.device)
    getattr(convexes, name).view(30, -1)[~good, -1] = value
    gradients = check_gradients(convexes, camera)
    if value == value and name in ("log_delta", "log_sigma", "opacity_logits", "mask_logits"):
        return  # e^-inf = 0 and sigmoid(inf) = 1 are good numbers: such a convex may be drawn
    without = draw(convexes.select(good), camera).image
    torch.testing.assert_close(draw(convexes, camera).image, without, rtol=0, atol=0)
    expected = check_gradients(convexes.select(good), camera)
    for key, gradient in gradients.items():
        assert not gradient[~good].any(), f"a dropped convex has a gradient of {key}"
        scale = expected[key].abs().max().item()
        torch.testing.assert_close(gradient[good], expected[key], rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("name", ["log_delta", "log_sigma"])
@pytest.mark.parametrize("value", [-200.0, -80.0, -20.0, 20.0, 40.0, 80.0, 87.0])
def test_absurd_smoothness_and_sharpness(toy_camera, precision, name, value):
    convexes, camera = convexes_like(precision, 20, seed=15), toy_camera(40, 30, **precision)
    getattr(convexes, name)[::2] = value
    convexes.log_delta[1] = convexes.log_sigma[1] = value
    check_gradients(convexes, camera)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-6, 1e-3, 1e2, 1e4, 1e15])
def test_absurd_sizes(toy_camera, precision, scale):
    convexes, camera = convexes_like(precision, 40, seed=16), toy_camera(40, 30, **precision)
    centre = convexes.centroids[:, None]
    convexes.points.copy_(centre + scale * (convexes.points - centre))
    check_gradients(convexes, camera)


def test_thin_and_degenerate_polygons(toy_camera, precision):
    """Points in line, twice, or almost: nothing but finite numbers, and no polygon where there is no area."""
    convexes, camera = convexes_like(precision, 60, seed=17), toy_camera(40, 30, **precision)
    points = convexes.points
    points[0:10, 3:] = points[0:10, :3]  # everything twice
    points[10:20] = points[10:20, :1] + torch.linspace(0, 1, 6).to(**precision)[:, None] * points[10:20, 1:2]
    points[20:30, 1:] = points[20:30, :1]  # one place
    points[30:40, 2:] = points[30:40, 1:2] * (1 + 1e-6)
    points[40:50, 2] = 0.5 * (points[40:50, 0] + points[40:50, 1])
    drawn = draw(convexes, camera)
    assert drawn.image.isfinite().all() and not drawn.tile_counts[0, 20:30].any()
    assert drawn.tile_counts[0, 0:10].any() and drawn.tile_counts[0, 40:50].any()
    check_gradients(convexes, camera)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("part", ["world_to_cam", "intrinsics"])
def test_a_camera_that_is_no_number_draws_background(toy_camera, precision, part, value):
    camera = toy_camera(20, 10, **precision)
    getattr(camera, part).view(-1)[0] = value
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    drawn = draw(convexes_like(precision, 20), camera, background=background)
    torch.testing.assert_close(drawn.image[0, ..., :3], background.expand(10, 20, 3))


def test_too_little_room_is_told_and_harmless(toy_camera, device):
    convexes = random_convexes(60, seed=18).map(lambda t: t.to(device, torch.float32)).requires_grad_()
    camera = toy_camera(50, 37, device=device)
    whole, plenty = draw(convexes, camera), draw(convexes, camera, room=100_000)
    assert plenty.lists[2].item() == 0 and torch.equal(plenty.image, whole.image)
    for room in (0, 1, 100):
        cut = draw(convexes, camera, room=room)
        assert cut.lists[2].item() == 1 and cut.image.isfinite().all()
        gradients = torch.autograd.grad(cut.image.sum(), list(convexes.tensors().values()))
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_square_is_where_it_should_be(device):
    """A square that faces the camera: opaque within, nothing without, half of its alpha at an edge."""
    convexes = solid(facing(4.0), torch.ones(1, 3), delta=5.0, sigma=5.0).map(
        lambda t: t.to(device, torch.float32)
    )
    alpha = draw(convexes, axis_camera(64, 64, 64.0).to(torch.float32).to(device)).alpha[0].cpu()
    truth = torch.zeros(64, 64)
    truth[16:48, 16:48] = MAX_ALPHA
    torch.testing.assert_close(alpha, truth, rtol=0, atol=1e-3)
    assert math.isclose(alpha.sum().item(), 32 * 32 * MAX_ALPHA, rel_tol=1e-3)
