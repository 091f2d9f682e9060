"""What surfels have of their own in project -> bin -> blend: outputs, the low-pass filter, and what hurts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from splat_stages import MAX_ALPHA, D, assert_agrees, check_gradients, draw
from surfel_scenes import random_surfels, surfels_like, well_observed

from luxel.render.ops.raster.policies import policy
from luxel.render.primitives.gaussians import quat_to_matrix
from luxel.render.primitives.gaussians4d import matrix_to_quat
from luxel.render.primitives.surfels import Surfels
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.blend_surfels import LOW_PASS
from luxel.render.reference.raster.rasterize_surfels import rasterize_surfels_reference


@pytest.mark.parametrize(("depth", "normals"), [(False, False), (True, False), (False, True), (True, True)])
def test_every_set_of_outputs(toy_camera, precision, depth, normals):
    """Through `rasterize`, which leaves features as they are."""
    camera = toy_camera(40, 30, dtype=D)
    surfels = surfels_like(precision, camera, 40, seed=2)
    features = torch.rand(surfels.count, 5, generator=torch.Generator().manual_seed(1)).to(D)
    posed = camera.to(precision["dtype"]).to(precision["device"])
    frame = rasterize(
        surfels, posed, depth=depth, normals=normals, features=features.to(**precision), max_alpha=MAX_ALPHA
    )
    witness = rasterize_surfels_reference(
        surfels.to("cpu").to(D), camera, depth=True, normals=True, features=features, max_alpha=MAX_ALPHA
    )
    assert witness.features is not None
    keep = witness.margin > 3e-4
    tolerance = 1e-5 if precision["dtype"] == torch.float32 else 1e-11
    pairs = {
        "rgb": witness.rgb,
        "features": witness.features[..., 1:],
        "depth": witness.depth if depth else None,
        "median_depth": witness.median_depth if depth else None,
        "normals": witness.normals if normals else None,
        "square_depth": witness.features[..., 0] if depth and normals else None,
    }
    for name, expected in pairs.items():
        actual = getattr(frame, name)
        if expected is None:
            assert actual is None, name
            continue
        off = (actual.cpu().to(D) - expected)[keep].abs().max().item()
        assert off <= tolerance * max(1.0, expected.abs().max().item()), name


@pytest.mark.parametrize("size", [0.002, 0.01, 0.05])
def test_small_surfels_are_drawn_by_the_filter(toy_camera, precision, size):
    """Much smaller than a pixel, a surfel is a disc of the low-pass filter, with the depth of its centre."""
    camera = toy_camera(50, 37, dtype=D)
    surfels = surfels_like(precision, camera, 150, seed=8, size=size)
    drawn = assert_agrees(surfels, camera, jumps=0.3)
    assert drawn.count.max() >= 2


def test_surfels_seen_from_near(toy_camera, precision):
    """The perspective within a surfel is strong: some depths are half, some twice that of the centre."""
    camera = toy_camera(60, 45, dtype=D)
    surfels = surfels_like(precision, camera, 400, seed=9, size=0.9)
    drawn = assert_agrees(surfels, camera, jumps=0.3)
    slopes = drawn.splats[0, drawn.tile_counts[0] > 0][:, 8:12]
    tilt = (slopes[:, :2] * slopes[:, 2:]).sum(-1)  # |q|^2
    assert tilt.max() > 0.05


def test_thousands_of_surfels_on_one_tile(toy_camera, precision):
    """A tile's list is far longer than any batch in which it is read, or piece that is walked backwards."""
    camera = toy_camera(16, 16, dtype=D)
    surfels = surfels_like(precision, camera, 2500, seed=10, sh_degree=0, size=0.5)
    surfels.means.mul_(0.5)
    surfels.opacity_logits.copy_(-4.8 + 0.1 * surfels.opacity_logits)
    drawn = assert_agrees(
        well_observed(surfels.to("cpu"), camera).map(lambda t: t.to(**precision)), camera, jumps=0.9
    )
    assert drawn.count.max() > 300 and len(drawn.lists[0]) > 2 * policy("surfels", "test").piece


@pytest.mark.parametrize("fast", [True, False])
def test_gradcheck(toy_camera, fast):
    """By finite differences, with the pose; the order in depth must stay."""
    camera = toy_camera(18, 10, off_centre=True, dtype=D) if fast else toy_camera(7, 5, dtype=D)
    surfels = well_observed(random_surfels(9 if fast else 3, seed=14, size=0.6), camera, 0.3)
    probe = rasterize_surfels_reference(surfels, camera, max_alpha=MAX_ALPHA)
    keep = (probe.margin > 1e-3)[None]
    assert keep.double().mean() > 0.6 and surfels.count >= 2

    def render(background, world_to_cam, *tensors):
        posed = replace(camera, world_to_cam=world_to_cam)
        drawn = draw(Surfels(*tensors), posed, background=background)
        return drawn.image[keep], drawn.alpha[keep]

    inputs = [torch.rand(3, dtype=D), camera.world_to_cam, *surfels.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-5, rtol=1e-5, fast_mode=fast)


@pytest.mark.parametrize("scale", [-200.0, -80.0, -20.0, 3.0, 20.0, 80.0])
def test_absurd_sizes(toy_camera, precision, scale):
    surfels, camera = (
        random_surfels(40, seed=16).map(lambda t: t.to(**precision)),
        toy_camera(40, 30, **precision),
    )
    surfels.log_scales[::2] = scale
    surfels.log_scales[1::4, 0] = scale
    check_gradients(surfels, camera)


@pytest.mark.parametrize("scale", [-50.0, -45.0, -42.0, -40.0, -38.0, -35.0, -30.0])
def test_surfels_without_extent_are_drawn_by_the_filter_or_not_at_all(toy_camera, scale):
    """Their conic is near the largest number of single precision, or beyond it."""
    camera = toy_camera(40, 30)
    surfels = random_surfels(60, seed=22).to(torch.float32)
    surfels.log_scales.fill_(-20.0)
    expected = draw(surfels, camera)
    surfels.log_scales.fill_(scale)
    drawn = draw(surfels, camera)
    if drawn.totals[0] == expected.totals[0]:
        torch.testing.assert_close(drawn.image, expected.image, rtol=1e-5, atol=1e-5)
    assert (drawn.count <= expected.count).all() or drawn.totals[0] < expected.totals[0]
    check_gradients(surfels, camera)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 1e-5, 1e-3, 1e-2])
def test_surfels_seen_edge_on(toy_camera, precision, angle):
    """Nothing but finite numbers; the filter keeps a disc visible as soon as there is an area."""
    camera = toy_camera(40, 30, **precision)
    position = camera.position.to(D).cpu()
    sight = torch.nn.functional.normalize(-position, dim=0)
    side = torch.nn.functional.normalize(
        torch.linalg.cross(sight, torch.tensor([0.3, 1.0, 0.2], dtype=D)), dim=0
    )
    normal = torch.linalg.cross(sight, side) * torch.cos(torch.tensor(angle, dtype=D)) + sight * angle
    axes = torch.stack([sight, side, torch.nn.functional.normalize(normal, dim=0)], -1)
    axes[:, 0] = torch.linalg.cross(axes[:, 1], axes[:, 2])
    one = random_surfels(1, seed=17)
    one = replace(
        one,
        means=torch.zeros(1, 3, dtype=D),
        quats=matrix_to_quat(axes[None]),
        opacity_logits=one.opacity_logits + 3,
    )
    surfels = one.map(lambda t: t.to(**precision))
    check_gradients(surfels, camera)
    drawn = draw(surfels, camera)
    if angle >= 1e-3:
        at = camera.world_to_cam.to(D).cpu()[:3, 3]
        fx, fy, cx, cy = camera.intrinsics.to(D).tolist()
        place = torch.stack([fx * at[0] / at[2] + cx, fy * at[1] / at[2] + cy])
        away = (place - place.floor() - 0.5).square().sum()  # from the nearest pixel, squared
        least = surfels.opacities.to(D).cpu() * torch.exp(-away / (2 * LOW_PASS**2))
        assert drawn.alpha.max() > 0.999 * float(least)
    depth = drawn.image[..., 3] / drawn.alpha.clamp_min(1e-6)
    seen = drawn.alpha > 0.05
    distance = float(position.norm())
    assert not seen.any() or ((depth[seen] > 0.05 * distance).all() and (depth[seen] < 20 * distance).all())


def test_surfels_that_reach_behind_the_camera_are_not_drawn(toy_camera, precision):
    camera = toy_camera(40, 30, **precision)
    surfels = random_surfels(60, seed=18, size=3.0).map(lambda t: t.to(**precision))
    drawn = draw(surfels, camera)
    shown = drawn.tile_counts[0] > 0
    reach = 2 * (255 * surfels.opacities).log()
    axes = surfels.normals  # |q|^2 z^2 = |J|^2 without the part of the normal
    forward = camera.world_to_cam[2, :3]
    slope = (forward @ quat_to_matrix(surfels.quats))[:, :2] * surfels.scales
    z = surfels.means @ forward + camera.world_to_cam[2, 3]
    tilt = reach * slope.square().sum(-1) / z.square()
    assert axes.isfinite().all() and (tilt[shown] < 0.9001).all() and (tilt > 0.9).any() and shown.any()


def test_images_in_single_precision(toy_camera, device):
    """At least 60 dB against the kernels in double, of surfels of all orientations and sizes."""
    camera = toy_camera(120, 90)
    surfels = random_surfels(600, seed=20, size=0.1)
    single = draw(surfels.map(lambda t: t.to(device, torch.float32)), camera.to(device)).image[..., :3]
    double = draw(surfels, camera.to(D)).image[..., :3]
    error = (single.cpu().to(D) - double).square().mean()
    assert -10 * error.log10() >= 60


def test_outlines_contain_every_pixel(toy_camera):
    """Drawn on an image of many tiles and on one that is cut from it: no tile is missed."""
    camera = toy_camera(96, 80, dtype=D)
    surfels = random_surfels(80, seed=21, size=0.5)
    drawn = draw(surfels, camera)
    witness = rasterize_surfels_reference(surfels, camera, max_alpha=MAX_ALPHA)
    keep = witness.margin > 1e-9
    assert torch.equal(drawn.count[0][keep], witness.count[keep]) and drawn.totals[1] < 30 * drawn.totals[0]
