"""Surfels: how they start, change, are stored and converted, and the losses of their geometry."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from surfel_scenes import D, random_surfels, well_observed

from luxel.render.geometry.camera import Camera, Points
from luxel.render.ops.train.langevin_noise import langevin_noise_
from luxel.render.ops.train.relocate import relocate_
from luxel.render.primitives import Gaussians, Surfels
from luxel.render.primitives.depth_normals import normal_difference
from luxel.render.primitives.gaussians import quat_to_matrix
from luxel.render.primitives.gaussians4d import matrix_to_quat
from luxel.render.primitives.similarity import Similarity
from luxel.render.primitives.surfels import SurfelLoss, neighbour_quats
from luxel.render.primitives.surfels.geometry import DISTORTION, NORMALS, TERMS, distortion, mean_depth
from luxel.render.primitives.terms import LossContext, StepImages
from luxel.render.raster.rasterize import Frame, rasterize
from luxel.render.train.densify.adaptive import AdaptiveStrategy
from luxel.render.train.densify.split import split_in_two
from luxel.scenes import load_primitives, save_scene
from luxel.scenes.files.ply import write_rows


def test_they_start_in_the_plane_of_their_neighbours():
    generator = np.random.default_rng(0)
    xyz = generator.uniform(-1, 1, (400, 3)).astype(np.float32)
    xyz[:, 2] = 0.3 * xyz[:, 0]
    surfels = Surfels.from_points(
        Points(xyz, np.full((400, 3), 200, np.uint8)), opacity=0.25, scale_factor=2.0
    )
    expected = torch.tensor([-0.3, 0.0, 1.0]) / 1.09**0.5
    assert ((surfels.normals @ expected).abs() > 0.999).all()
    assert torch.allclose(surfels.opacities, torch.tensor(0.25)) and surfels.log_scales.shape == (400, 2)
    ordinary = Gaussians.from_points(Points(xyz, np.zeros((400, 3), np.uint8)), scale_factor=2.0)
    torch.testing.assert_close(surfels.log_scales, ordinary.log_scales[:, :2])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_few_points_and_points_in_one_place(count):
    for xyz in (np.random.default_rng(1).normal(size=(count, 3)), np.ones((count, 3))):
        surfels = Surfels.from_points(Points(xyz.astype(np.float32), np.zeros((count, 3), np.uint8)))
        assert surfels.count == count and all(t.isfinite().all() for t in surfels.tensors().values())
        if count:
            assert torch.allclose(neighbour_quats(xyz).norm(dim=-1), torch.ones(count))


def test_gaussians_lose_their_smallest_axis():
    generator = torch.Generator().manual_seed(2)
    gaussians = Gaussians(
        means=torch.randn(20, 3, generator=generator),
        quats=torch.randn(20, 4, generator=generator),
        log_scales=torch.randn(20, 3, generator=generator),
        opacity_logits=torch.zeros(20),
        sh_dc=torch.zeros(20, 3),
        sh_rest=torch.zeros(20, 0, 3),
    )
    surfels = Surfels.from_gaussians(gaussians)
    axes = quat_to_matrix(gaussians.quats) * gaussians.scales[:, None]
    smallest = gaussians.log_scales.argmin(-1)
    axes[torch.arange(20), :, smallest] = 0
    flat = quat_to_matrix(surfels.quats)[..., :2] * surfels.scales[:, None]
    torch.testing.assert_close(flat @ flat.mT, axes @ axes.mT, rtol=1e-4, atol=1e-5)
    thick = surfels.as_gaussians()
    assert torch.allclose(thick.log_scales[:, 2], surfels.log_scales.amin(-1) + log(0.01))
    assert torch.equal(thick.means, gaussians.means)


def test_a_camera_that_moves_along_sees_the_same(toy_camera):
    surfels, camera = random_surfels(40, seed=3, sh_degree=2), toy_camera(40, 30, dtype=D)
    move = Similarity((0.8, 0.2, -0.4, 0.3), 1.7, (1.0, -2.0, 0.5))
    turn = torch.eye(4, dtype=D)
    turn[:3, :3] = move.matrix
    turn[:3, 3] = torch.tensor(move.translation)
    pose = camera.world_to_cam @ torch.linalg.inv(turn)
    rotation = camera.world_to_cam[:3, :3] @ move.matrix.T
    centre = move.scale * move.matrix @ camera.position.to(D) + torch.tensor(move.translation, dtype=D)
    pose = torch.eye(4, dtype=D)
    pose[:3, :3], pose[:3, 3] = rotation, -rotation @ centre
    moved = Camera(pose, camera.intrinsics, 40, 30)
    before = rasterize(surfels, camera, depth=True, normals=True)
    after = rasterize(surfels.transformed(move), moved, depth=True, normals=True)
    torch.testing.assert_close(after.rgb, before.rgb, rtol=0, atol=1e-5)
    assert before.depth is not None and after.depth is not None
    torch.testing.assert_close(after.depth, move.scale * before.depth, rtol=1e-4, atol=1e-4)
    assert torch.allclose(surfels.scaled(2.0).sizes, 2 * surfels.sizes)


def test_files_of_2dgs_are_surfels(tmp_path: Path):
    """Two scales and no third; whatever the order of the properties. Three scales are Gaussians."""
    surfels = random_surfels(7, seed=4).to(torch.float32)
    names = ["rot_0", "rot_1", "rot_2", "rot_3", "scale_1", "scale_0", "opacity"]
    names += [f"f_rest_{k}" for k in range(9)] + [
        "f_dc_0",
        "f_dc_1",
        "f_dc_2",
        "nx",
        "ny",
        "nz",
        "x",
        "y",
        "z",
    ]
    rest = surfels.sh_rest.transpose(1, 2).reshape(7, 9)
    rows = [surfels.quats, surfels.log_scales.flip(1), surfels.opacity_logits[:, None], rest]
    rows += [surfels.sh_dc, torch.zeros(7, 3), surfels.means]
    write_rows(tmp_path / "a.ply", names, 7, iter([torch.cat(rows, 1).numpy()]), None, [])
    loaded = load_primitives(tmp_path / "a.ply")
    assert isinstance(loaded, Surfels)
    for name, tensor in surfels.tensors().items():
        assert torch.equal(getattr(loaded, name), tensor), name
    for suffix in ("ply", "safetensors"):
        save_scene(tmp_path / f"b.{suffix}", surfels.as_gaussians())
        assert isinstance(load_primitives(tmp_path / f"b.{suffix}"), Gaussians)
        save_scene(tmp_path / f"c.{suffix}", surfels)
        assert isinstance(load_primitives(tmp_path / f"c.{suffix}"), Surfels)


def test_noise_stays_in_the_plane(device: torch.device):
    surfels = random_surfels(50, seed=5).map(lambda t: t.to(device, torch.float32))
    surfels.opacity_logits.fill_(-8.0)
    before = surfels.means.clone()
    tensors = surfels.means, surfels.quats, surfels.log_scales, surfels.opacity_logits
    one = torch.ones(1, device=device)
    langevin_noise_(*tensors, one, one.int(), strength=1.0, seed=3)
    moved = surfels.means - before
    assert (moved.norm(dim=-1) > 0).all()
    assert ((moved * surfels.normals).sum(-1).abs() <= 1e-5 * moved.norm(dim=-1) + 1e-7).all()


def test_relocation_shares_both_scales(device: torch.device):
    surfels = random_surfels(60, seed=6).map(lambda t: t.to(device, torch.float32).contiguous())
    surfels.opacity_logits[::3] = -9.0
    before = surfels.map(torch.clone)
    tensors = list(surfels.tensors().values())
    moments = [[torch.ones_like(t) for t in tensors] for _ in range(2)]
    source, copies, moved = relocate_(tensors, *moments, 60, min_opacity=0.005, seed=1, step=2)
    rows = source.long()
    assert int(moved) == 20 and torch.equal(surfels.means, before.means[rows])
    grown = surfels.log_scales - before.log_scales[rows]
    assert torch.allclose(grown[:, 0], grown[:, 1], atol=1e-6)
    shared = copies > 0
    assert (surfels.opacities[shared] < before.opacities[shared]).all()
    assert (
        not moments[0][2][shared].any()
        and moments[1][2][~shared & (rows == torch.arange(60, device=device))].all()
    )


def test_parts_lie_in_the_plane():
    surfels = random_surfels(30, seed=7)
    first, second = split_in_two(surfels)
    middle = 0.5 * (first.means + second.means)
    torch.testing.assert_close(middle, surfels.means)
    for parts in (
        first,
        second,
        AdaptiveStrategy()._parts(surfels.map(torch.clone), torch.Generator().manual_seed(1)),
    ):
        away = parts.means - surfels.means
        assert ((away * surfels.normals).sum(-1).abs() < 1e-9).all() and (away.norm(dim=-1) > 0).all()
        assert (parts.log_scales.amax(-1) < surfels.log_scales.amax(-1)).all()


def pixels_of(w: torch.Tensor, z: torch.Tensor, weight: torch.Tensor | None = None) -> StepImages:
    """Images of one row of pixels, from weights and depths [P, K]."""
    flat = {"depth": (w * z).sum(1), "square": (w * z * z).sum(1), "transmittance": 1 - w.sum(1)}
    rows = {name: t[None, None] for name, t in flat.items()}
    none = torch.zeros(1, 1, len(w), 3, dtype=w.dtype)
    return StepImages(**rows, normals=none, weight=weight, world_to_cam=none, intrinsics=none)


def test_distortion_is_the_sum_over_pairs():
    generator = torch.Generator().manual_seed(8)
    w = torch.rand(30, 6, generator=generator, dtype=D) / 6
    z = (2 + torch.rand(30, 6, generator=generator, dtype=D)).requires_grad_()
    w[3] = 0
    mean = ((w * z).sum(1) / w.sum(1).clamp_min(1e-9)).detach()
    pairs = w[:, :, None] * w[:, None] * (z[:, :, None] - z[:, None]).square()
    each = torch.where(mean > 0, pairs.sum((1, 2)) / mean.clamp_min(1e-9).square(), 0.0)
    each = each / (1 + each / 0.05)
    torch.testing.assert_close(distortion(pixels_of(w, z)), each.mean())
    (actual,) = torch.autograd.grad(distortion(pixels_of(w, z)), z)
    (expected,) = torch.autograd.grad(each.mean(), z)
    torch.testing.assert_close(actual, expected)
    weight = torch.rand(1, 1, 30, generator=generator, dtype=D)
    torch.testing.assert_close(distortion(pixels_of(w, z, weight)), (each * weight[0, 0]).mean())
    assert float(distortion(pixels_of(w, torch.full_like(w, 4.0)))) < 1e-12
    scaled = distortion(pixels_of(w, 100 * z))
    torch.testing.assert_close(scaled, distortion(pixels_of(w, z)))


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5])
def test_a_pixel_with_something_near_and_far_counts_little(share: float):
    """Its gradient is below a thousandth of that without a bound, which made surfels at window frames transparent."""
    w = torch.tensor([[1 - share, share]], dtype=D, requires_grad=True)
    z = torch.tensor([[2.0, 200.0]], dtype=D)
    term = distortion(pixels_of(w, z))
    first, second = (w * z).sum(), (w * z * z).sum()
    unbounded = 2 * (w.sum() * second - first.square()) / (first / w.sum()).detach().square()
    assert unbounded.item() > 1 and term.item() < 0.05
    (bounded_gradient,), (gradient,) = (torch.autograd.grad(value, w) for value in (term, unbounded))
    assert float(bounded_gradient.norm() / gradient.norm()) < 1e-3


def test_normals_of_one_plane_agree_with_its_depth(toy_camera):
    """0 of a plane that a camera sees as a whole; 1 - cos of an angle where the normals are turned by it."""
    camera = toy_camera(40, 30, dtype=D)
    surfel = random_surfels(1, seed=9)
    towards = torch.nn.functional.normalize(
        camera.position.to(D) - torch.tensor([0.0, 0.3, 0.5], dtype=D), dim=0
    )
    surfel.means.zero_()
    side = torch.nn.functional.normalize(
        torch.linalg.cross(towards, torch.tensor([0.0, 1.0, 0.0], dtype=D)), dim=0
    )
    surfel.quats[0] = matrix_to_quat(
        torch.stack([side, torch.linalg.cross(towards, side), towards], -1)[None]
    )[0]
    surfel.log_scales.fill_(0.0)
    surfel.opacity_logits.fill_(8.0)
    assert well_observed(surfel, camera).count == 1
    frame = rasterize(surfel, camera, depth=True, normals=True)
    images = images_of(frame, camera)
    assert (frame.alpha[1:-1, 1:-1] > 0.5).double().mean() > 0.1
    assert float(normal_difference(images, mean_depth(images))) < 1e-6 and float(distortion(images)) < 1e-9
    turned = images.normals @ torch.linalg.matrix_exp(
        torch.tensor([[0, -0.5, 0], [0.5, 0, 0], [0, 0, 0]], dtype=D)
    )
    other = images._replace(normals=turned)
    assert float(normal_difference(other, mean_depth(other))) > 1e-3
    # The gradient turns the depth towards the normals.
    accumulated = images.depth.clone().requires_grad_()
    (g_depth,) = torch.autograd.grad(
        normal_difference(other, mean_depth(other._replace(depth=accumulated))), accumulated
    )
    assert g_depth.isfinite().all() and g_depth.abs().max() > 0


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_losses_of_the_geometry_do_not_depend_on_the_unit(toy_camera: Any, factor: float):
    """Their values and gradients, of a scene and cameras of 1000 times or a thousandth of the size."""
    surfels, camera = random_surfels(60, seed=12), toy_camera(40, 30, dtype=D)
    surfels.opacity_logits += 2.0
    surfels = well_observed(surfels, camera)
    pose = camera.world_to_cam.clone()
    pose[:3, 3] *= factor
    larger = surfels.transformed(Similarity(scale=factor))
    other = replace(camera, world_to_cam=pose, near=factor * camera.near, far=factor * camera.far)
    losses, gradients = zip(*(losses_of(s, c) for s, c in ((surfels, camera), (larger, other))), strict=True)
    assert (losses[0] > 1e-4).all()
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-10, atol=0)
    for name, gradient in gradients[0].items():
        scale = 1 / factor if name == "means" else 1.0
        torch.testing.assert_close(
            gradients[1][name], scale * gradient, rtol=1e-7, atol=1e-10 * scale * float(gradient.abs().max())
        )


def images_of(frame: Frame, camera: Camera) -> StepImages:
    """What the losses of the geometry read of a rendered view."""
    assert frame.depth is not None and frame.square_depth is not None and frame.normals is not None
    assert frame.transmittance is not None
    return StepImages(
        depth=(frame.depth * frame.alpha)[None],
        square=frame.square_depth[None],
        normals=frame.normals[None],
        transmittance=frame.transmittance[None],
        weight=None,
        world_to_cam=camera.world_to_cam[None],
        intrinsics=camera.calibration[None],
    )


def losses_of(surfels: Surfels, camera: Camera) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The values of all terms, and the gradient of their sum by what shapes surfels."""
    leaves = {name: t.detach().requires_grad_() for name, t in surfels.tensors().items()}
    frame = rasterize(Surfels(**leaves), camera, depth=True, normals=True)
    images = images_of(frame, camera)
    values = torch.stack([value for term in TERMS if (value := term.apply(images)) is not None])
    shapes = {name: leaves[name] for name in ("means", "quats", "log_scales", "opacity_logits")}
    gradients = torch.autograd.grad(values.sum(), list(shapes.values()))
    return values.detach(), dict(zip(shapes, gradients, strict=True))


def test_nothing_covered_has_no_geometry():
    zero = torch.zeros(2, 5, 7, requires_grad=True)
    one = torch.ones(2, 5, 7, requires_grad=True)
    images = StepImages(
        zero, zero, torch.zeros(2, 5, 7, 3), one, None, torch.eye(4).repeat(2, 1, 1), torch.ones(2, 4)
    )
    total = torch.stack([value for term in TERMS if (value := term.apply(images)) is not None]).sum()
    assert total.item() == 0
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, [zero, one]))


def test_terms_begin_at_their_share_of_the_run():
    loss = SurfelLoss(distortion_weight=1.0, normal_weight=0.5, distortion_from=0.2, normal_from=0.6)
    assert [loss.geometry_at(p) for p in (0.0, 0.2, 0.7)] == [(), (DISTORTION,), (DISTORTION, NORMALS)]
    assert SurfelLoss().geometry_at(1.0) == ()


def test_both_weights_fall_at_the_end_of_the_run():
    loss = SurfelLoss(
        distortion_weight=4.0,
        normal_weight=0.5,
        normal_from=0.6,
        geometry_final=0.01,
        geometry_final_from=0.5,
    )
    factors = [loss.factor_at(p) for p in (0.0, 0.5, 0.75, 1.0)]
    assert factors == pytest.approx([1.0, 1.0, 0.1, 0.01])
    weights = {
        p: [term.weight(LossContext(loss, (0.0, 0.0), False, p)) for term in TERMS]
        for p in (0.05, 0.2, 0.75, 1.0)
    }
    assert weights[0.05] == [0, 0] and weights[0.2] == [4.0, 0]
    assert weights[0.75] == pytest.approx([0.4, 0.05]) and weights[1.0] == pytest.approx([0.04, 0.005])
    assert SurfelLoss().factor_at(1.0) == 1.0
    late = SurfelLoss(geometry_final=0.25, geometry_final_from=1.0)
    assert [late.factor_at(p) for p in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0]
