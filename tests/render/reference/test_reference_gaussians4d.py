"""The reference of 4D Gaussians: rotors, the slice at a time, and images that it draws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from gaussians4d_scenes import D, random_gaussians4d

from luxel.render.geometry.camera import Camera, Points
from luxel.render.ops.raster.slice_gaussians4d import rotor_to_matrix
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d, matrix_to_quat
from luxel.render.reference.raster.project_gaussians import quat_to_matrix
from luxel.render.reference.raster.project_gaussians4d import project_gaussians4d_reference
from luxel.render.reference.raster.rasterize import rasterize_reference
from luxel.render.reference.raster.rasterize_gaussians4d import rasterize_gaussians4d_reference


def covariances(gaussians: Gaussians4d) -> torch.Tensor:
    root = rotor_to_matrix(gaussians.rotors) * gaussians.scales[:, None]
    return root @ root.mT


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (D, 1e-14)])
def test_rotors_of_any_length_are_rotations(dtype, tolerance):
    rotors = torch.randn(200, 8, generator=torch.Generator().manual_seed(0), dtype=dtype)
    rotations = rotor_to_matrix(rotors * torch.logspace(-3, 3, 200, dtype=dtype)[:, None])
    identity = torch.eye(4, dtype=dtype).expand(200, 4, 4)
    torch.testing.assert_close(rotations @ rotations.mT, identity, atol=tolerance, rtol=0)
    torch.testing.assert_close(
        torch.linalg.det(rotations.double()), torch.ones(200, dtype=D), atol=1e-5, rtol=0
    )


def geometric_product(a: dict[int, float], b: dict[int, float]) -> dict[int, float]:
    """Of multivectors over x, y, z, t (all of square 1): coefficients by the bit mask of a blade's vectors."""
    out: dict[int, float] = {}
    for p, u in a.items():
        for q, v in b.items():
            swaps = sum(bin(p >> (i + 1)).count("1") for i in range(4) if q >> i & 1)
            out[p ^ q] = out.get(p ^ q, 0.0) + u * v * (-1) ** swaps
    return out


def test_a_proper_rotor_acts_as_the_sandwich_of_its_multivector():
    """R v = r v ~r in the geometric algebra of four dimensions, multiplied out blade by blade."""
    # A product of two rotors in planes is a proper rotor of general kind: xy with zt, then xz with yt.
    turn, more = 0.7, -1.1
    first = {0b0000: math.cos(turn), 0b0011: 0.8 * math.sin(turn), 0b0110: 0.6 * math.sin(turn)}
    second = {0b0000: math.cos(more), 0b1001: 0.6 * math.sin(more), 0b1010: 0.8 * math.sin(more)}
    rotor = geometric_product(first, second)
    blades = (0b0000, 0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100, 0b1111)  # s xy xz yz xt yt zt p
    given = torch.tensor([[rotor.get(b, 0.0) for b in blades]], dtype=D)
    assert (given != 0).sum() >= 6
    reverse = {b: v * (-1 if bin(b).count("1") in (2, 3) else 1) for b, v in rotor.items()}
    expected = torch.zeros(4, 4, dtype=D)
    for column in range(4):
        image = geometric_product(geometric_product(rotor, {1 << column: 1.0}), reverse)
        for row in range(4):
            expected[row, column] = image.get(1 << row, 0.0)
    torch.testing.assert_close(rotor_to_matrix(3 * given)[0], expected, atol=1e-14, rtol=0)


def test_rotors_without_time_are_quaternions():
    quats = torch.randn(50, 4, generator=torch.Generator().manual_seed(2), dtype=D)
    w, x, y, z = quats.unbind(-1)
    zero = torch.zeros_like(w)
    rotation = rotor_to_matrix(torch.stack([w, -z, y, -x, zero, zero, zero, zero], -1))
    torch.testing.assert_close(rotation[:, :3, :3], quat_to_matrix(quats), atol=1e-14, rtol=0)
    expected = torch.tensor([0, 0, 0, 1], dtype=D).expand(50, 4)
    torch.testing.assert_close(rotation[:, 3], expected, atol=1e-14, rtol=0)


def test_the_slice_is_the_conditional_of_a_4d_normal():
    """Against the inverse of the whole covariance: its 3 x 3 corner is the inverse of the conditional one."""
    gaussians, time = random_gaussians4d(60), 0.8
    cut = gaussians.slice(time)
    full = covariances(gaussians)
    precision = torch.linalg.inv(full)
    torch.testing.assert_close(cut.covariance, torch.linalg.inv(precision[:, :3, :3]), atol=1e-12, rtol=1e-11)
    shift = -torch.linalg.solve(precision[:, :3, :3], precision[:, :3, 3:])[..., 0]
    torch.testing.assert_close(cut.velocity, shift, atol=1e-12, rtol=1e-11)
    later = time - gaussians.times
    torch.testing.assert_close(cut.means, gaussians.means + shift * later[:, None], atol=1e-12, rtol=1e-11)
    marginal = gaussians.opacities * (-0.5 * later**2 / full[:, 3, 3]).exp()
    torch.testing.assert_close(cut.opacity, marginal, atol=1e-12, rtol=0)
    # The formula of the paper, and the density itself at random places.
    a, b, c = full[:, :3, :3], full[:, :3, 3], full[:, 3, 3]
    schur = a - b[:, :, None] * b[:, None] / c[:, None, None]
    torch.testing.assert_close(cut.covariance, schur, atol=1e-12, rtol=0)
    place = gaussians.means + torch.randn(60, 3, generator=torch.Generator().manual_seed(3), dtype=D)
    offset = torch.cat([place - gaussians.means, later[:, None]], -1)
    joint = (offset[:, None] @ precision @ offset[..., None]).flatten()
    rest = place - cut.means
    split = (rest[:, None] @ torch.linalg.inv(cut.covariance) @ rest[..., None]).flatten() + later**2 / c
    torch.testing.assert_close(split, joint, atol=1e-10, rtol=1e-11)


def test_far_from_their_time_gaussians_are_left_out():
    gaussians = random_gaussians4d(3)
    gaussians.rotors.copy_(torch.eye(8, dtype=D)[0].expand(3, 8))
    gaussians.log_scale_t.zero_()  # a standard deviation of 1: the exponent is 16 at a distance of sqrt(32)
    gaussians.times.copy_(torch.tensor([0, math.sqrt(32) - 1e-9, math.sqrt(32) + 1e-9], dtype=D))
    assert gaussians.slice(0.0).visible.tolist() == [True, True, False]
    assert gaussians.slice(math.nan).visible.tolist() == [False] * 3


@pytest.mark.parametrize("antialiased", [False, True])
def test_what_stands_still_is_the_static_renderer(random_gaussians, toy_camera, antialiased):
    """Images, gradients, and normals; at any time near that of the Gaussians."""
    still = random_gaussians(40, seed=3, scale=0.2, dtype=D)
    camera = toy_camera(35, 18, off_centre=True, dtype=D)
    moving = Gaussians4d.from_gaussians(still, time=0.5, time_scale=1e7).map(torch.clone)
    options = {
        "background": torch.rand(3, dtype=D),
        "depth": True,
        "normals": True,
        "antialiased": antialiased,
    }
    still.requires_grad_(), moving.requires_grad_()
    expected = rasterize_reference(still, camera, **options)
    actual = rasterize_gaussians4d_reference(moving, camera, 0.9, **options)
    assert expected.count.max() > 3
    torch.testing.assert_close(actual.count, expected.count)
    for name in ("rgb", "alpha", "depth", "median_depth", "normals"):
        torch.testing.assert_close(getattr(actual, name), getattr(expected, name), atol=1e-10, rtol=0)
    expected.rgb.square().sum().backward()
    actual.rgb.square().sum().backward()
    for name in ("means", "log_scales", "opacity_logits", "sh_dc", "sh_rest"):
        torch.testing.assert_close(
            getattr(moving, name).grad, getattr(still, name).grad, atol=1e-9, rtol=1e-9
        )
    g_quat = torch.stack([moving.rotors.grad[:, i] for i in (0, 3, 2, 1)], -1)
    signs = torch.tensor([1, -1, 1, -1], dtype=D)
    # Rotor and quaternion are both normalised: their gradients agree as they are.
    torch.testing.assert_close(g_quat * signs, still.quats.grad, atol=1e-9, rtol=1e-9)


def test_gradients_of_all_parameters(toy_camera):
    gaussians = random_gaussians4d(3, seed=5, scale=0.6)
    gaussians.means.mul_(0.3)
    camera, background = toy_camera(7, 5, off_centre=True, dtype=D), torch.rand(3, dtype=D)
    time = torch.tensor(0.65, dtype=D)
    keep = rasterize_gaussians4d_reference(gaussians, camera, time).margin > 1e-4
    assert keep.double().mean() > 0.9

    def render(time, world_to_cam, *parameters):
        seen = replace(camera, world_to_cam=world_to_cam)
        frame = rasterize_gaussians4d_reference(
            Gaussians4d(*parameters), seen, time, background=background, depth=True
        )
        assert frame.count.max() == 3
        return frame.rgb[keep], frame.depth[keep]

    inputs = [time, camera.world_to_cam, *gaussians.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-7, rtol=1e-5)
    for leaf, gradient in zip(
        inputs, torch.autograd.grad(sum(o.sum() for o in render(*inputs)), inputs), strict=True
    ):
        assert gradient.abs().max() > 0, leaf.shape


def test_gradients_of_the_slice():
    gaussians = random_gaussians4d(4, seed=6)

    def cut(time, *parameters):
        return Gaussians4d(*parameters).slice(time)[:4]

    inputs = [torch.tensor(0.3, dtype=D), *gaussians.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(cut, inputs, eps=1e-6, atol=1e-8, rtol=1e-6)


def test_a_batch_has_a_time_for_each_camera(toy_camera):
    gaussians = random_gaussians4d(20)
    cameras = [toy_camera(20, 17, dtype=D), toy_camera(20, 17, eye=(2, 2, 1), dtype=D)]
    batch = rasterize_gaussians4d_reference(gaussians, Camera.stack(cameras), torch.tensor([0.2, 0.9]))
    same = rasterize_gaussians4d_reference(gaussians, Camera.stack(cameras), 0.2)
    for i, time in enumerate([torch.tensor(0.2), torch.tensor(0.9)]):
        one = rasterize_gaussians4d_reference(gaussians, cameras[i], time)
        torch.testing.assert_close(batch.rgb[i], one.rgb)
    torch.testing.assert_close(same.rgb[0], batch.rgb[0])
    assert not torch.allclose(same.rgb[1], batch.rgb[1])
    with pytest.raises(ValueError, match=r"time must be \[\] or \[2\], got \[3\]"):
        rasterize_gaussians4d_reference(gaussians, Camera.stack(cameras), torch.zeros(3))
    with pytest.raises(ValueError, match=r"time must be \[\], got \[1\]"):
        rasterize_gaussians4d_reference(gaussians, cameras[0], torch.zeros(1))


def test_float32_is_near_float64(toy_camera):
    gaussians, camera = random_gaussians4d(60, sh_degree=3), toy_camera(64, 64, off_centre=True, dtype=D)
    expected = rasterize_gaussians4d_reference(gaussians, camera, 0.4)
    actual = rasterize_gaussians4d_reference(gaussians.to(torch.float32), camera.to(torch.float32), 0.4)
    keep = expected.margin > 1e-3
    assert keep.double().mean() > 0.9 and actual.rgb.dtype == torch.float32
    torch.testing.assert_close(actual.rgb.double()[keep], expected.rgb[keep], atol=1e-4, rtol=0)


def test_a_choice_of_tiles_and_features(toy_camera):
    gaussians, camera = random_gaussians4d(30), toy_camera(40, 30, dtype=D)
    features = gaussians.means.clone()
    whole = rasterize_gaussians4d_reference(gaussians, camera, 0.5, features=features)
    one = rasterize_gaussians4d_reference(gaussians, camera, 0.5, features=features, tiles=[4])
    torch.testing.assert_close(one.features[16:, 16:32], whole.features[16:, 16:32])
    assert one.features[:16].abs().max() == 0 and whole.features[:16].abs().max() > 0


def test_what_is_not_a_number_is_dropped_and_has_no_gradient(toy_camera):
    gaussians = random_gaussians4d(6)
    good = gaussians.select(torch.tensor([0]))
    gaussians.means[1, 0] = math.nan
    gaussians.times[2] = math.inf
    gaussians.rotors[3] = 0
    gaussians.log_scale_t[4] = math.inf
    gaussians.log_scales[5] = math.inf
    gaussians.requires_grad_()
    camera = toy_camera(20, 20, dtype=D)
    splats = project_gaussians4d_reference(gaussians, camera, 0.5)
    assert splats.index.tolist() == [0]
    frame = rasterize_gaussians4d_reference(gaussians, camera, 0.5)
    torch.testing.assert_close(frame.rgb, rasterize_gaussians4d_reference(good, camera, 0.5).rgb)
    frame.rgb.sum().backward()
    for name, tensor in gaussians.tensors().items():
        assert tensor.grad.isfinite().all() and not tensor.grad[1:].any(), name
    empty = rasterize_gaussians4d_reference(Gaussians4d.empty().to(D), camera, 0.5)
    assert not empty.rgb.any()


def test_ordinary_gaussians_of_a_moment_draw_the_same(toy_camera):
    gaussians, camera = random_gaussians4d(50, scale=0.15), toy_camera(40, 30, dtype=D)
    gaussians.times[7] = 40  # not visible
    for time in (0.1, 0.7):
        moment = gaussians.at(time)
        assert isinstance(moment, Gaussians) and moment.count < 50
        torch.testing.assert_close(moment.quats.norm(dim=-1), torch.ones(moment.count, dtype=D))
        expected = rasterize_gaussians4d_reference(gaussians, camera, time, depth=True)
        actual = rasterize_reference(moment, camera, depth=True)
        torch.testing.assert_close(actual.rgb, expected.rgb, atol=1e-9, rtol=0)
        torch.testing.assert_close(actual.depth, expected.depth, atol=1e-8, rtol=0)


def test_quaternions_of_matrices():
    quats = torch.randn(500, 4, generator=torch.Generator().manual_seed(4), dtype=D)
    quats[:4] = torch.eye(4, dtype=D)  # half turns, where w is 0
    matrices = quat_to_matrix(quats)
    torch.testing.assert_close(quat_to_matrix(matrix_to_quat(matrices)), matrices, atol=1e-14, rtol=0)


@pytest.mark.parametrize("name", Gaussians4d.names)
def test_shapes_are_checked(name):
    tensors = random_gaussians4d(5).tensors()
    tensors[name] = tensors[name][:, None] if name != "sh_rest" else tensors[name][:, :2]
    with pytest.raises(ValueError, match=name):
        Gaussians4d(**tensors)


def test_select_and_cat():
    gaussians = random_gaussians4d(6)
    mask = torch.tensor([True, False, True, True, False, False])
    both = Gaussians4d.cat(gaussians.select(mask), gaussians.select(~mask))
    for name, tensor in gaussians.select(torch.tensor([0, 2, 3, 1, 4, 5])).tensors().items():
        assert torch.equal(getattr(both, name), tensor)
    assert both.count == 6 and both.sh_degree == 1 and both.to(torch.float32).means.dtype == torch.float32
    assert list(both.tensors()) == list(Gaussians4d.names)


def test_start_from_points():
    xyz = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    points = Points(xyz, np.array([[0, 128, 255]] * 4, np.uint8))
    start = Gaussians4d.from_points(points, times=(-1, 11), time_scale=math.sqrt(2), sh_degree=2)
    assert start.sh_rest.shape == (4, 8, 3) and (start.times.min() >= -1) and (start.times.max() <= 11)
    torch.testing.assert_close(start.scales[0], torch.tensor([1, 1, 1, math.sqrt(2)]))
    torch.testing.assert_close(start.opacities, torch.full((4,), 0.1))
    torch.testing.assert_close(rotor_to_matrix(start.rotors), torch.eye(4).expand(4, 4, 4))
    assert torch.equal(start.times, Gaussians4d.from_points(points, times=(-1, 11)).times)


def test_start_in_a_cube():
    start = Gaussians4d.uniform(500, seed=3)
    assert start.count == 500 and start.means.abs().max() <= 1.5 and start.means.abs().max() > 1.4
    assert start.times.min() >= 0 and start.times.max() <= 1 and not start.sh_dc.any()
    torch.testing.assert_close(start.log_scale_t, start.log_scales[:, 0])
    assert Gaussians4d.uniform(0).count == 0
