"""Gaussians through a lens: agreement with the reference, and the covariance of sigma points against quadrature."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from gaussians4d_scenes import assert_agrees4d, random_gaussians4d
from lens_scenes import LENSES, camera_with, gaussians_around

from luxel.render.backends.gsplat import pinhole_matrices
from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import (
    FARTHEST,
    LIMIT,
    fisheye_lens,
    fisheye_rays,
    image_through,
    imaged,
    project_points,
    radial_lens,
)
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import DensifyStatistics, rasterize
from luxel.render.reference.raster.project_gaussians import project_gaussians_reference, quat_to_matrix

D = torch.float64


@pytest.mark.parametrize("name", LENSES)
@pytest.mark.parametrize("antialiased", [False, True])
def test_images_and_gradients_are_those_of_the_reference(name, antialiased, precision, agrees):
    camera = camera_with(name)
    single = precision["dtype"] == torch.float32 and "radial" in name
    gaussians = gaussians_around(before=camera if single else None).map(lambda t: t.to(**precision))
    agrees(
        gaussians, camera, antialiased=antialiased, depth=True, normals=True, jumps=0.06,
        background=torch.tensor([0.2, 0.5, 0.7]),
    )  # fmt: skip


def test_a_batch_may_mix_lenses_and_pinholes(precision, agrees):
    cameras = [camera_with("fisheye"), camera_with("radial"), replace(camera_with("radial"), lens=None)]
    stacked = Camera.stack(cameras)
    assert stacked.lens is not None and stacked.lens.shape == (3, 8)
    single = precision["dtype"] == torch.float32
    gaussians = gaussians_around(before=cameras[0] if single else None)
    agrees(gaussians.map(lambda t: t.to(**precision)), stacked, jumps=0.06)


@pytest.mark.parametrize("name", ["fisheye", "radial"])
def test_moving_gaussians_through_a_lens_are_those_of_the_reference(name, precision):
    gaussians = random_gaussians4d(80, seed=3, scale=0.2, **precision)
    camera = camera_with(name)
    moved = gaussians.map(lambda t: t)
    moved.means = 0.6 * moved.means + torch.tensor([2.0, 1.2, 0.6]).to(moved.means)
    assert_agrees4d(moved, camera, 0.45, depth=True, normals=True, jumps=0.08)


def project(gaussians: Gaussians, camera: Camera):
    """Screen means, covariances without dilation and depths of all Gaussians, float64."""
    frame = rasterize(gaussians, camera.to(D), dilation=0.0)
    assert frame.splats is not None
    rows, counts = frame.splats[0], frame.tile_counts[0]
    a, b, c = rows[:, 4], rows[:, 5], rows[:, 6]
    det = a * c - b * b
    covariances = torch.stack([torch.stack([c, -b], -1), torch.stack([-b, a], -1)], 1) / det[:, None, None]
    return rows[:, :2], covariances, rows[:, 3], counts > 0


def exact_moments(gaussians: Gaussians, camera: Camera) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and covariances of the images of Gaussians by Gauss-Hermite quadrature with 14^3 points."""
    x, w = np.polynomial.hermite_e.hermegauss(14)
    grid = torch.tensor(np.stack(np.meshgrid(x, x, x, indexing="ij"), -1).reshape(-1, 3))
    weights = torch.tensor(np.einsum("i,j,k->ijk", w, w, w).ravel() / w.sum() ** 3)
    roots = quat_to_matrix(gaussians.quats) * gaussians.log_scales.exp()[:, None]
    points = gaussians.means[:, None] + grid @ roots.mT
    pixels = project_points(camera.to(D), points.reshape(-1, 3))[0].reshape(*points.shape[:2], 2)
    means = (weights[:, None] * pixels).sum(1)
    away = pixels - means[:, None]
    return means, away.mT @ (weights[:, None] * away)


def seen_gaussians(camera: Camera, size: float, count: int = 100, widest: float = 1.5) -> Gaussians:
    """Gaussians at distance 1 within ``widest`` of the axis, opaque, with a longest axis of ``size``."""
    generator = torch.Generator().manual_seed(5)
    theta = widest * torch.rand(count, generator=generator, dtype=D)
    phi = 2 * math.pi * torch.rand(count, generator=generator, dtype=D)
    inside = torch.stack([theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()], -1)
    matrix = camera.world_to_cam.double()
    means = (inside - matrix[:3, 3]) @ matrix[:3, :3]
    scales = math.log(size) - torch.tensor([0.0, 1.0, 2.0], dtype=D).expand(count, 3)
    quats = torch.randn(count, 4, generator=generator, dtype=D)
    ones = torch.ones(count, dtype=D)
    return Gaussians(
        means, quats, scales, 5 * ones, torch.zeros(count, 3, dtype=D), torch.zeros(count, 0, 3, dtype=D)
    )


def jacobian_covariances(gaussians: Gaussians, camera: Camera) -> torch.Tensor:
    """What EWA has behind this lens: the Jacobian of the projection at the centre on both sides of the covariance."""
    roots = quat_to_matrix(gaussians.quats) * gaussians.log_scales.exp()[:, None]
    jacobians = [
        torch.autograd.functional.jacobian(lambda p: project_points(camera.to(D), p[None])[0][0], mean)
        for mean in gaussians.means
    ]
    rows = torch.stack(jacobians) @ roots
    return rows @ rows.mT


def distances(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    return (actual - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)


@pytest.mark.parametrize(("name", "size", "widest"), [("limited fisheye", 0.15, 1.35), ("radial", 0.15, 0.6)])
def test_sigma_points_have_the_moments_that_the_jacobian_misses(name, size, widest):
    camera = replace(camera_with(name, 800, 800), near=0.01)
    gaussians = seen_gaussians(camera, size, widest=widest)
    means, covariances, _, seen = project(gaussians, camera)
    assert seen.double().mean() > 0.9
    true_means, true = exact_moments(gaussians, camera)
    ours, ewa = (
        distances(covariances, true)[seen],
        distances(jacobian_covariances(gaussians, camera), true)[seen],
    )
    assert ours.median() < 0.65 * ewa.median() and ours.median() < 0.02, (ours.median(), ewa.median())
    deviation = covariances.diagonal(dim1=1, dim2=2).sum(1).sqrt()
    centres = project_points(camera.to(D), gaussians.means)[0]
    off, off_centre = ((x - true_means).norm(dim=1) / deviation for x in (means, centres))
    assert off[seen].median() < 0.05 * off_centre[seen].median()


def test_small_gaussians_approach_ewa_of_a_pinhole():
    lens = camera_with("radial", 400, 300)
    straight, pinhole = replace(lens, lens=radial_lens()), replace(lens, lens=None)
    before = math.inf
    for size in (0.1, 0.01, 0.001):
        gaussians = seen_gaussians(lens, size, widest=0.4)
        means, covariances, depths, seen = project(gaussians, straight)
        ewa_means, ewa, ewa_depths, _ = project(gaussians, pinhole)
        off = distances(covariances, ewa)[seen].max()
        assert off < 0.05 * before and torch.equal(depths[seen], ewa_depths[seen])
        before = off
    assert before < 1e-5 and (means - ewa_means)[seen].abs().max() < 1e-3


def test_a_narrow_fisheye_approaches_a_pinhole():
    camera = Camera.look_at((0, -4, 0), (0, 0, 0), fov_y=math.radians(1), width=120, height=90).to(D)
    gaussians = gaussians_around(40).map(lambda t: t.to(D))
    gaussians = replace(gaussians, means=0.01 * gaussians.means, log_scales=gaussians.log_scales - 5)
    plain = rasterize(gaussians, camera).rgb
    bent = rasterize(gaussians, replace(camera, lens=fisheye_lens().to(D))).rgb
    assert plain.max() > 0.3 and (plain - bent).abs().max() < 4e-3


def test_what_is_beside_and_behind_is_drawn_up_to_the_limit():
    camera = camera_with("fisheye", 200, 200)
    camera = replace(camera, intrinsics=torch.tensor([30.0, 30.0, 100.0, 100.0]), near=0.01)
    angles = torch.linspace(0.1, 2.9, 31, dtype=D)
    inside = (
        torch.stack([angles.sin(), 0 * angles, angles.cos()], -1) * torch.linspace(1, 3, 31, dtype=D)[:, None]
    )
    matrix = camera.world_to_cam.double()
    gaussians = replace(seen_gaussians(camera, 0.02, 31), means=(inside - matrix[:3, 3]) @ matrix[:3, :3])
    for limit in (2.55, 1.9):
        one = replace(camera, lens=fisheye_lens((0.01,), limit))
        _, _, depths, seen = project(gaussians, one)
        assert torch.equal(seen, angles < limit) and seen.sum() > 15
        torch.testing.assert_close(depths[seen], inside.norm(dim=-1)[seen], rtol=1e-6, atol=0)
        near = replace(one, near=2.03)
        assert torch.equal(project(gaussians, near)[3], seen & (inside.norm(dim=-1) > 2.03))
        reference = project_gaussians_reference(gaussians, one.to(D))
        assert torch.equal(reference.index, seen.nonzero()[:, 0])


def test_limits_are_where_a_lens_folds():
    for k in ((-0.1,), (0.2, -0.3), (0.05, -0.01, 0.002, -0.0003)):
        limit = float(fisheye_lens(k)[LIMIT])
        theta = torch.linspace(1e-3, limit, 2000, dtype=D)
        radius, _ = image_through(fisheye_lens(k).double(), theta.sin(), 0 * theta, theta.cos())
        assert (radius.diff() > 0).all()
        if limit < math.pi * 0.999:
            further = theta + 0.01 * limit
            t2 = further**2
            beyond = further * (1 + sum(value * t2 ** (i + 1) for i, value in enumerate(k)))
            assert (beyond.diff() < 0).any()
    assert float(fisheye_lens()[LIMIT]) == pytest.approx(math.pi)
    assert float(radial_lens()[LIMIT]) == FARTHEST
    assert float(radial_lens((-0.3,))[LIMIT]) == pytest.approx(math.sqrt(1 / 0.9), rel=2e-3)
    with pytest.raises(ValueError, match="camera must have a fisheye lens"):
        fisheye_rays(camera_with("radial"))
    for wrong in ((0.0,) * 5,):
        with pytest.raises(ValueError, match="k1 to k4"):
            fisheye_lens(wrong)
        with pytest.raises(ValueError, match="k1 to k3"):
            radial_lens(wrong)


def test_rays_and_points_are_inverse_to_each_other():
    camera = replace(camera_with("limited fisheye"), near=1e-6)
    rays = torch.tensor(fisheye_rays(camera))
    known = torch.tensor(imaged(camera))
    assert torch.equal(rays.isfinite().all(-1), known) and 0.2 < known.double().mean() < 0.99
    matrix = camera.world_to_cam.double()
    pixels, _, seen = project_points(camera, (rays[known] - matrix[:3, 3]) @ matrix[:3, :3])
    rows, columns = known.nonzero(as_tuple=True)
    assert seen.double().mean() > 0.98  # within rounding of the limit
    torch.testing.assert_close(pixels, torch.stack([columns, rows], -1).double() + 0.5, rtol=0, atol=1e-4)


def test_a_lens_travels_with_its_camera():
    camera = camera_with("fisheye")
    double = camera.to(D).resized(31, 25)
    assert double.lens is not None and double.lens.dtype == D and double.calibration.shape == (12,)
    assert torch.equal(Camera.stack([camera, camera]).one(1).calibration, camera.calibration)
    with pytest.raises(ValueError, match="lens must be"):
        replace(camera, lens=torch.zeros(7))
    points, zeros = torch.rand(4, 5, 3), torch.zeros(4)
    convexes = Convexes(points, zeros, zeros, zeros, torch.zeros(4, 3), torch.zeros(4, 0, 3), zeros)
    with pytest.raises(LuxelError, match="Convexes cannot use cameras with a fisheye"):
        rasterize(convexes, camera)
    with pytest.raises(LuxelError, match="The gsplat backend cannot use cameras with a fisheye"):
        pinhole_matrices(camera)


@pytest.mark.parametrize("absolute", [False, True])
def test_statistics_have_their_meaning_behind_a_lens(absolute, device):
    camera = camera_with("fisheye").to(device)
    gaussians = gaussians_around().to(device).requires_grad_()
    statistics = DensifyStatistics.zeros(gaussians.count, device)
    frame = rasterize(gaussians, camera, statistics=statistics, absolute_gradients=absolute)
    assert frame.splats is not None
    frame.splats.retain_grad()
    frame.rgb.square().mean().backward()
    g = frame.splats.grad
    assert g is not None
    seen = frame.tile_counts[0] > 0
    half = torch.tensor([camera.width / 2, camera.height / 2], device=device)
    expected = (g[0, :, :2] * half).norm(dim=-1)
    torch.testing.assert_close(statistics.grad_norm[seen], expected[seen], rtol=1e-4, atol=1e-9)
    assert torch.equal(statistics.visible > 0, seen)
    assert (statistics.abs_grad_norm[seen] >= 0.999 * expected[seen]).all() or not absolute
    radius = frame.splats[0, :, 7].detach() / max(camera.width, camera.height)
    torch.testing.assert_close(statistics.max_radius[seen], radius[seen])
