"""What convexes have of their own in project -> bin -> blend: channels, polygons, and what hurts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from convex_scenes import axis_camera, convexes_like, facing, random_convexes, solid
from splat_stages import MAX_ALPHA, D, assert_agrees, check_gradients, draw

from luxel.render.geometry.camera import Points
from luxel.render.ops.raster.blend_splats import CHANNELS
from luxel.render.ops.raster.policies import policy
from luxel.render.primitives.convexes import STARTING_SIGMA, Convexes
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference


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
