"""Depth of Gaussians as planes and along rays, and the losses of their geometry."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_lens
from luxel.render.primitives import Convexes, Gaussians
from luxel.render.primitives.depth_normals import depth_normals, normal_difference
from luxel.render.primitives.gaussians import GaussianLoss, quat_to_matrix
from luxel.render.primitives.gaussians.geometry import NORMALS, TERMS, smoothness, thickness
from luxel.render.primitives.gaussians.geometry import normals as plane_normals
from luxel.render.primitives.gaussians4d import matrix_to_quat
from luxel.render.primitives.planes import pixel_rays, plane_depth, plane_gradients, with_planes
from luxel.render.primitives.terms import LossContext, StepImages, StepScene
from luxel.render.raster.pipeline import project, viewing
from luxel.render.raster.rasterize import Frame, rasterize
from luxel.render.reference.raster.rasterize import rasterize_reference
from luxel.render.surfaces.surface_depth import ray_depth, surface_depth

D = torch.float64
NORMAL = torch.nn.functional.normalize(torch.tensor([0.7, 0.1, -0.6], dtype=D), dim=0)  # towards the camera
EXACT = {"dilation": 0.3125, "max_alpha": 0.984375}  # of numbers that the C ABI holds as float32
THROUGH = torch.tensor([0.0, 0.0, 4.0], dtype=D)


def camera(width: int = 40, height: int = 30) -> Camera:
    """At the origin, looking along z."""
    return Camera(
        torch.eye(4, dtype=D), torch.tensor([40.0, 42.0, 20.5, 14.0], dtype=D), width, height, near=0.1
    )


def planted(count: int = 400, thin: float = 1e-4) -> Gaussians:
    """Gaussians of all sizes and opacities in one plane that is seen at an angle."""
    generator = torch.Generator().manual_seed(3)
    side = torch.nn.functional.normalize(
        torch.linalg.cross(NORMAL, torch.tensor([0.0, 1.0, 0.0], dtype=D)), dim=0
    )
    axes = torch.stack([side, torch.linalg.cross(NORMAL, side), NORMAL], -1)
    angle = torch.rand(count, generator=generator, dtype=D) * math.tau
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(-1, 2, 2)
    turned = torch.cat([axes[:, :2] @ turn, axes[:, 2:].expand(count, 3, 1)], -1)
    place = 3 * torch.rand(count, 2, generator=generator, dtype=D) - 1.5
    scales = 0.05 + 0.4 * torch.rand(count, 2, generator=generator, dtype=D)
    return Gaussians(
        THROUGH + place @ axes[:, :2].T,
        matrix_to_quat(turned),
        torch.cat([scales, torch.full((count, 1), thin, dtype=D)], -1).log(),
        torch.randn(count, generator=generator, dtype=D),
        torch.randn(count, 3, generator=generator, dtype=D),
        torch.zeros(count, 0, 3, dtype=D),
    )


def scattered(count: int = 30, seed: int = 1) -> Gaussians:
    """Gaussians of all shapes before the camera, the shortest axis of each well below the others."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=D)

    log_scales = torch.tensor([0.35, 0.3, 0.1], dtype=D).log() + 0.1 * normal(count, 3)
    means = torch.tensor([0.6, 0.4, 0.5], dtype=D) * normal(count, 3) + THROUGH
    return Gaussians(
        means,
        normal(count, 4),
        log_scales,
        normal(count),
        normal(count, 3),
        torch.zeros(count, 0, 3, dtype=D),
    )


def plane_truth(at: Camera) -> Tensor:
    """Depth of the planted plane, [H, W]."""
    rays = pixel_rays(at.world_to_cam[None], at.intrinsics[None], at.width, at.height)[0]
    return (NORMAL @ THROUGH) / (rays @ NORMAL)


def drawn(scene: Gaussians, at: Camera) -> Frame:
    return rasterize(scene, at, depth=True, normals=True, planes=True, median_splat=True)


def test_the_depth_of_planes_is_exact_where_that_of_centres_is_not() -> None:
    at, scene = camera(), planted()
    frame, truth = drawn(scene, at), plane_truth(at)
    assert frame.plane_depth is not None and frame.depth is not None and frame.median_splat is not None
    seen = frame.alpha > 0.5
    assert seen.double().mean() > 0.3
    assert ((frame.plane_depth - truth)[seen].abs() / truth[seen]).max() < 1e-9
    along = ray_depth(scene, at, frame.median_splat)
    assert ((along - truth)[seen].abs() / truth[seen]).max() < 1e-4
    for biased in (frame.depth, frame.median_depth):
        assert biased is not None and ((biased - truth)[seen].abs() / truth[seen]).mean() > 0.01


def normals_of(scene: Gaussians, at: Camera) -> Tensor:
    """Shortest axes towards a camera, [N, 3], in plain torch."""
    shortest = scene.log_scales.argmin(-1)
    normals = quat_to_matrix(scene.quats)[torch.arange(scene.count), :, shortest]
    return normals * torch.sign((normals * (at.position - scene.means)).sum(-1, keepdim=True))


def test_channels_are_those_of_the_reference() -> None:
    at, scene = camera(), scattered()
    frame = rasterize(scene, at, depth=True, normals=True, planes=True, **EXACT)
    normals = normals_of(scene, at)
    distance = (normals * (at.position - scene.means)).sum(-1, keepdim=True)
    assert (distance > 0).all()
    channels = torch.cat([normals, distance], -1)
    expected = rasterize_reference(scene, at, features=channels, **EXACT).features
    assert expected is not None and frame.normals is not None and frame.plane_distance is not None
    actual = torch.cat([frame.normals, frame.plane_distance[..., None]], -1)
    off = (actual - expected).abs().amax(-1)
    assert (off < 1e-9).double().mean() > 0.99 and frame.alpha.max() > 0.5
    rays = pixel_rays(at.world_to_cam[None], at.intrinsics[None], at.width, at.height)[0]
    assert frame.plane_depth is not None
    known = frame.plane_depth > 0
    met = -(frame.normals * rays).sum(-1) * frame.plane_depth
    torch.testing.assert_close(met[known], frame.plane_distance[known])


def test_gradients_in_double() -> None:
    """Of every parameter and the pose, through projection, blending and both channels."""
    at, scene = camera(12, 10), scattered(6)
    at = replace(at, intrinsics=at.intrinsics * 0.3)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 10, 12, generator=generator, dtype=D)

    def loss(means: Tensor, quats: Tensor, log_scales: Tensor, logits: Tensor, pose: Tensor) -> Tensor:
        moved = replace(scene, means=means, quats=quats, log_scales=log_scales, opacity_logits=logits)
        frame = rasterize(
            moved, replace(at, world_to_cam=pose), depth=True, normals=True, planes=True, **EXACT
        )
        assert frame.plane_distance is not None and frame.plane_depth is not None
        solid = frame.alpha.detach() > 0.3
        return (weights[0] * frame.plane_distance + weights[1] * frame.plane_depth * solid).sum()

    inputs = scene.means, scene.quats, scene.log_scales, scene.opacity_logits, at.world_to_cam
    leaves = [t.clone().requires_grad_() for t in inputs]
    analytic = torch.autograd.grad(loss(*leaves), leaves)
    for k, leaf in enumerate(leaves):
        assert analytic[k].abs().max() > 0
        direction = torch.randn(leaf.shape, generator=generator, dtype=D)
        if k == 4:
            direction[3] = 0
        h = 1e-6
        with torch.no_grad():
            ends = [
                loss(*(t + s * h * direction if i == k else t for i, t in enumerate(leaves))) for s in (1, -1)
            ]
        expected = float(ends[0] - ends[1]) / (2 * h)
        assert float((analytic[k] * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_the_backward_of_steps_is_that_of_autograd() -> None:
    at, scene = Camera.stack([camera(), camera(32, 32).to(D)][:1] * 2), scattered()
    view = viewing(scene, at, depth=True, normals=True)
    leaves = scene.map(lambda t: t.detach().requires_grad_())
    pose = view.world_to_cam.clone().requires_grad_()
    projected = project(scene, view)
    values = projected.values.clone().requires_grad_()
    whole = with_planes(projected._replace(values=values), leaves, pose).values
    assert whole.shape[-1] == 8
    seed = torch.randn(whole.shape, generator=torch.Generator().manual_seed(1), dtype=D)
    expected = torch.autograd.grad(whole, [values, leaves.means, pose], seed)
    actual = plane_gradients(projected, scene, view.world_to_cam, seed)
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_culled_gaussians_have_neither_planes_nor_gradients() -> None:
    at, scene = camera(), scattered(8)
    scene.means[:4, 2] = -5.0  # behind
    leaves = scene.map(lambda t: t.detach().requires_grad_())
    frame = rasterize(leaves, at, depth=True, normals=True, planes=True)
    assert frame.plane_distance is not None
    gradients = torch.autograd.grad(frame.plane_distance.sum(), [leaves.means, leaves.quats])
    assert all(g.isfinite().all() and not g[:4].any() for g in gradients) and gradients[0][4:].any()


def test_the_median_splat_is_that_of_the_median_depth() -> None:
    at = camera()
    for seed in range(3):
        scene = scattered(40, seed)
        frame = drawn(scene, at)
        assert frame.median_splat is not None and frame.median_depth is not None
        there = frame.median_splat >= 0
        assert 0.05 < there.double().mean() < 1
        torch.testing.assert_close(
            scene.means[frame.median_splat[there].long(), 2], frame.median_depth[there]
        )
        assert (frame.median_depth[~there] == 0).all()


def test_density_is_highest_at_the_depth_along_the_ray() -> None:
    at, scene = camera(8, 6), scattered(48)
    splat = torch.arange(48, dtype=torch.int32).view(6, 8)
    depth = ray_depth(scene, at, splat)
    rays = pixel_rays(at.world_to_cam[None], at.intrinsics[None], 8, 6)[0].view(48, 3)
    axes = quat_to_matrix(scene.quats)

    def exponent(z: Tensor) -> Tensor:
        local = (axes.mT @ (z[:, None] * rays - scene.means)[..., None])[..., 0] / scene.scales
        return local.square().sum(-1)

    z = depth.view(48).clone().requires_grad_()
    (slope,) = torch.autograd.grad(exponent(z).sum(), z)
    assert slope.abs().max() < 1e-9
    assert (exponent(z + 0.01) > exponent(z)).all() and (exponent(z - 0.01) > exponent(z)).all()
    assert (ray_depth(scene, at, torch.full((6, 8), -1)) == 0).all()


def test_the_surface_of_other_depths() -> None:
    at, scene = camera(), planted()
    plain, frame = surface_depth(scene, at, exact=False)
    assert frame.median_depth is not None and frame.median_splat is None
    torch.testing.assert_close(plain, torch.where(frame.alpha > 0.5, frame.median_depth, 0.0))
    exact, _ = surface_depth(scene, at, exact=True)
    truth, solid = plane_truth(at), plain > 0
    assert (exact - truth)[solid].abs().mean() < 1e-2 * (plain - truth)[solid].abs().mean()


def images_of(scene: Gaussians, at: Camera) -> StepImages:
    frame = drawn(scene, at)
    assert frame.depth is not None and frame.normals is not None and frame.plane_distance is not None
    return StepImages(
        depth=(frame.depth * frame.alpha)[None],
        square=None,
        normals=frame.normals[None],
        transmittance=1 - frame.alpha[None],
        weight=None,
        world_to_cam=at.world_to_cam[None],
        intrinsics=at.intrinsics[None],
        distance=frame.plane_distance[None],
        photographs=frame.rgb.clamp(0, 1)[None],
    )


def test_normals_of_a_plane_agree_with_its_depth() -> None:
    at = camera()
    images = images_of(planted(), at)
    assert float(plane_normals(images)) < 1e-9
    (term,) = (term for term in TERMS if term.name == NORMALS)
    for progress, weight in ((0.2, 0.0), (0.3, 0.5)):
        context = LossContext(GaussianLoss(normal_weight=0.5), (0.0, 0.0), False, progress)
        assert term.weight(context) == weight
    normals = depth_normals(plane_truth(at)[None], images.world_to_cam, images.intrinsics)
    assert (normals @ NORMAL > 1 - 1e-9).all()
    assert images.distance is not None
    waves = 1 + 0.05 * torch.sin(torch.arange(40, dtype=D))
    bent = images._replace(distance=images.distance * waves)
    assert float(plane_normals(bent)) > 1e-2


def test_gradients_of_the_normals_in_double() -> None:
    scene, at = scattered(40), camera(10, 8)
    scene.opacity_logits += 3
    images = images_of(scene, replace(at, intrinsics=at.intrinsics / 4))
    assert images.distance is not None

    def loss(distance: Tensor, normals: Tensor, transmittance: Tensor) -> Tensor:
        made = images._replace(distance=distance, normals=normals, transmittance=transmittance)
        return plane_normals(made)

    leaves = [t.clone().requires_grad_() for t in (images.distance, images.normals, images.transmittance)]
    assert float(loss(*leaves).detach()) > 0
    assert torch.autograd.gradcheck(loss, leaves)


def test_nothing_covered_has_no_geometry() -> None:
    zero, normals = (torch.zeros(2, 5, 7, *more, requires_grad=True) for more in ((), (3,)))
    one = torch.ones(2, 5, 7, requires_grad=True)
    pose, intrinsics = torch.eye(4).repeat(2, 1, 1), torch.ones(2, 4)
    images = StepImages(zero, None, normals, one, None, pose, intrinsics, zero, torch.zeros(2, 5, 7, 3))
    value = plane_normals(images)
    assert value.item() == 0
    assert all(g.isfinite().all() for g in torch.autograd.grad(value, [zero, normals, one]))
    assert (plane_depth(zero, normals, pose, intrinsics) == 0).all()


def test_pixels_count_as_the_images_say() -> None:
    at = camera()
    images = images_of(scattered(30), at)
    assert images.distance is not None
    z = plane_depth(images.distance, images.normals, images.world_to_cam, images.intrinsics)
    whole = normal_difference(images, z)
    half = images._replace(weight=torch.full_like(images.transmittance, 0.5))
    torch.testing.assert_close(normal_difference(half, z), whole / 2)
    torch.testing.assert_close(normal_difference(images, z, torch.full_like(z, 0.25)), whole / 4)
    even = torch.full((1, 6, 6, 3), 0.3)
    assert (smoothness(even) == 1).all()
    even[:, :, 3:] = 1.0
    edge = smoothness(even)[0]
    torch.testing.assert_close(edge[:, 2:4], torch.full((6, 2), 0.09))
    assert (edge[:, [0, 1, 4, 5]] == 1).all()


def test_thickness_is_a_share_and_spare_rows_do_not_count() -> None:
    scene = scattered(5)
    scene.log_scales[:] = torch.tensor([0.2, 0.05, 0.1]).log()
    inverse = torch.tensor([1 / 4], dtype=D)
    scene.opacity_logits[4] = -torch.inf
    assert float(thickness(scene, inverse)) == pytest.approx(0.5)
    log_scales = scene.log_scales.clone().requires_grad_()
    (g,) = torch.autograd.grad(thickness(replace(scene, log_scales=log_scales), inverse), log_scales)
    expected = torch.zeros(5, 3, dtype=D)
    expected[:4, 1] = 0.5 / 4  # the others are constants
    torch.testing.assert_close(g, expected, rtol=1e-6, atol=1e-9)
    (term,) = (term for term in TERMS if term.name == "flatness")
    assert term.weight(LossContext(GaussianLoss(flatness_weight=2.0), (0.0, 0.0), False)) == 2.0
    assert float(term.apply(StepScene(scene, inverse, lambda: inverse))) == pytest.approx(0.5)


def test_planes_are_refused_where_there_are_none() -> None:
    at, scene = camera(), scattered(3)
    with pytest.raises(ValueError, match="normals are not rendered"):
        rasterize(scene, at, depth=True, planes=True)
    assert not Convexes.planar
    lens = replace(at, lens=fisheye_lens().to(D))
    with pytest.raises(ValueError, match="must be a pinhole"):
        rasterize(scene, lens, depth=True, normals=True, planes=True)
