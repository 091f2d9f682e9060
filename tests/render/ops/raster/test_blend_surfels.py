"""The rasterizer of surfels, project -> bin -> blend, against its reference: images, gradients, and what hurts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from surfel_stages import MAX_ALPHA, D, assert_agrees, draw, random_surfels, well_seen

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.policies import policy
from luxel.render.primitives.gaussians import quat_to_matrix
from luxel.render.primitives.gaussians4d import matrix_to_quat
from luxel.render.primitives.surfels import Surfels
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.blend_surfels import LOW_PASS
from luxel.render.reference.raster.rasterize_surfels import rasterize_surfels_reference


def surfels_like(precision, camera: Camera, *args, **options) -> Surfels:
    return well_seen(random_surfels(*args, **options), camera).map(lambda t: t.to(**precision))


def two_cameras(toy_camera, width: int = 40, height: int = 30) -> Camera:
    return Camera.stack(
        [
            toy_camera(width, height, dtype=D),
            toy_camera(width, height, eye=(2.5, 2, 1), off_centre=True, dtype=D),
        ]
    )


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_reference(toy_camera, precision, seed):
    camera = toy_camera(70, 50, off_centre=True, dtype=D)
    background = torch.tensor([0.25, 0.5, 0.875], dtype=D)
    surfels = surfels_like(precision, camera, 70, seed=seed, sh_degree=seed % 4)
    drawn = assert_agrees(surfels, camera, background=background)
    assert drawn.count.max() > 8


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


def test_several_cameras_each_with_its_pose(toy_camera, precision):
    cameras = two_cameras(toy_camera)
    assert_agrees(surfels_like(precision, cameras, 60, seed=3), cameras)


@pytest.mark.parametrize("degree", range(4))
def test_degrees_of_colour(toy_camera, precision, degree):
    camera = toy_camera(30, 30, dtype=D)
    assert_agrees(surfels_like(precision, camera, 30, seed=4, sh_degree=3), camera, sh_degree=degree)


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (15, 17), (16, 16), (129, 3)])
def test_sizes(toy_camera, precision, size):
    camera = toy_camera(*size, dtype=D)
    assert_agrees(surfels_like(precision, camera, 40, seed=5), camera, jumps=1.0 if size == (1, 1) else 0.1)


def test_fixed_order_of_sums(toy_camera, precision):
    camera = toy_camera(40, 30, dtype=D)
    assert_agrees(surfels_like(precision, camera, 50, seed=6), camera, deterministic=True)


def test_capped_alpha(toy_camera, precision):
    camera = toy_camera(40, 30, dtype=D)
    surfels = surfels_like(precision, camera, 30, seed=7, size=0.6)
    surfels.opacity_logits += 5
    assert_agrees(surfels, camera, max_alpha=0.625, jumps=0.06)


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
        well_seen(surfels.to("cpu"), camera).map(lambda t: t.to(**precision)), camera, jumps=0.9
    )
    assert drawn.count.max() > 300 and len(drawn.lists[0]) > 2 * policy("surfels", "test").piece


def test_pixels_end_behind_a_wall(toy_camera, precision):
    camera = toy_camera(33, 33, dtype=D)
    surfels = surfels_like(precision, camera, 200, seed=11, size=0.5)
    surfels.opacity_logits += 6
    assert_agrees(surfels, camera, jumps=0.3)


@pytest.mark.parametrize("deterministic", [False, True])
def test_gradients_repeat(toy_camera, device, deterministic):
    if device.type == "cuda" and not deterministic:
        pytest.skip("sums on a GPU come out of atomic additions in any order")
    surfels = random_surfels(400, seed=12).map(lambda t: t.to(device, torch.float32))
    camera = toy_camera(device=device)
    actual = []
    for _ in range(3):
        leaves = surfels.detach().requires_grad_()
        draw(leaves, camera, deterministic=deterministic).image.square().sum().backward()
        actual.append([t.grad for t in leaves.tensors().values()])
    assert all(torch.equal(a, b) for other in actual[1:] for a, b in zip(actual[0], other, strict=True))


def test_cpu_results_do_not_depend_on_threads(toy_camera):
    results, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            surfels = random_surfels(1500, seed=13, size=0.1).to(torch.float32).requires_grad_()
            camera = toy_camera(90, 70)
            pose = camera.world_to_cam.clone().requires_grad_()
            image = draw(surfels, replace(camera, world_to_cam=pose)).image
            image.square().sum().backward()
            results.append([image, pose.grad, *(t.grad for t in surfels.tensors().values())])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, results[0], strict=True))


@pytest.mark.parametrize("fast", [True, False])
def test_gradcheck(toy_camera, fast):
    """By finite differences, with the pose; the order in depth must stay."""
    camera = toy_camera(18, 10, off_centre=True, dtype=D) if fast else toy_camera(7, 5, dtype=D)
    surfels = well_seen(random_surfels(9 if fast else 3, seed=14, size=0.6), camera, 0.3)
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


def check_gradients(surfels: Surfels, camera: Camera, **options) -> dict[str, torch.Tensor]:
    """Draws, weighs all outputs, and fails unless images and gradients are finite."""
    surfels = surfels.detach().requires_grad_()
    drawn = draw(surfels, camera, **options)
    loss = drawn.image.sum() + drawn.alpha.sum()
    assert torch.isfinite(loss)
    loss.backward()
    gradients = {name: t.grad for name, t in surfels.tensors().items()}
    for name, gradient in gradients.items():
        assert gradient is not None and gradient.isfinite().all(), f"gradient of {name} is not finite"
    return gradients


def test_empty(toy_camera, precision):
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    empty = Surfels.empty().map(lambda t: t.to(**precision))
    drawn = draw(empty, toy_camera(20, 17, **precision), background=background)
    torch.testing.assert_close(drawn.image[0, ..., :3], background.expand(17, 20, 3))
    assert not drawn.alpha.any() and not drawn.count.any()
    check_gradients(empty, toy_camera(20, 17, **precision))


@pytest.mark.parametrize("name", Surfels.names)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_not_a_number_stays_where_it_is(toy_camera, precision, name, value):
    """One bad surfel in three: the image and the gradients of the others are those without it."""
    surfels, camera = (
        random_surfels(30, seed=15).map(lambda t: t.to(**precision)),
        toy_camera(40, 30, **precision),
    )
    good = (torch.arange(30) % 3 != 0).to(surfels.device)
    getattr(surfels, name).view(30, -1)[~good, -1] = value
    gradients = check_gradients(surfels, camera)
    if value == value and name in ("log_scales", "opacity_logits"):
        return  # e^-inf = 0 and sigmoid(inf) = 1 are good numbers: such a surfel may be drawn
    without = draw(surfels.select(good), camera).image
    torch.testing.assert_close(draw(surfels, camera).image, without, rtol=0, atol=0)
    expected = check_gradients(surfels.select(good), camera)
    for key, gradient in gradients.items():
        assert not gradient[~good].any(), f"a dropped surfel has a gradient of {key}"
        scale = expected[key].abs().max().item()
        torch.testing.assert_close(gradient[good], expected[key], rtol=1e-4, atol=1e-5 * scale)


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


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("part", ["world_to_cam", "intrinsics"])
def test_a_camera_that_is_no_number_draws_background(toy_camera, precision, part, value):
    camera = toy_camera(20, 10, **precision)
    getattr(camera, part).view(-1)[0] = value
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    drawn = draw(random_surfels(20).map(lambda t: t.to(**precision)), camera, background=background)
    torch.testing.assert_close(drawn.image[0, ..., :3], background.expand(10, 20, 3))


def test_too_little_room_is_told_and_harmless(toy_camera, device):
    surfels = random_surfels(60, seed=19).map(lambda t: t.to(device, torch.float32)).requires_grad_()
    camera = toy_camera(50, 37, device=device)
    whole, plenty = draw(surfels, camera), draw(surfels, camera, room=100_000)
    assert plenty.lists[2].item() == 0 and torch.equal(plenty.image, whole.image)
    for room in (0, 1, 100):
        cut = draw(surfels, camera, room=room)
        assert cut.lists[2].item() == 1 and cut.image.isfinite().all()
        gradients = torch.autograd.grad(cut.image.sum(), list(surfels.tensors().values()))
        assert all(gradient.isfinite().all() for gradient in gradients)


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
