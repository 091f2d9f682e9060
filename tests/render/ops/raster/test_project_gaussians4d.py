"""4D Gaussians through the native stages: against the reference, and at rest against the stage of 3D Gaussians."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from gaussians4d_scenes import D, assert_agrees4d, draw4d, project4d, random_gaussians4d

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.project_gaussians import project_gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.project_gaussians4d import project_gaussians4d_reference
from luxel.render.reference.raster.rasterize_gaussians4d import rasterize_gaussians4d_reference


@pytest.mark.parametrize("sh_degree", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"depth": True, "antialiased": True}, {"normals": True, "depth": True}]
)
def test_agrees_with_the_reference(toy_camera, precision, sh_degree, options):
    gaussians = random_gaussians4d(80, seed=sh_degree, sh_degree=sh_degree, **precision)
    camera = toy_camera(50, 37, off_centre=True)
    assert_agrees4d(gaussians, camera, 0.4, background=torch.tensor([0.2, 0.5, 0.8], dtype=D), **options)


def test_fewer_degrees_than_are_stored(toy_camera, precision):
    gaussians = random_gaussians4d(40, sh_degree=3, **precision)
    assert_agrees4d(gaussians, toy_camera(), 0.6, sh_degree=1)


@pytest.mark.parametrize("times", [[0.1, 0.8, 0.5], 0.3])
def test_a_batch_of_cameras_and_times(toy_camera, precision, times):
    gaussians = random_gaussians4d(90, seed=4, sh_degree=2, **precision)
    eyes = ({}, {"eye": (2.5, 2, 1), "off_centre": True}, {"eye": (0, 3, 1)})
    cameras = Camera.stack([toy_camera(40, 30, **eye) for eye in eyes])
    assert_agrees4d(gaussians, cameras, times, depth=True, normals=True)


@pytest.mark.parametrize("size", [(1, 1), (15, 17), (129, 3)])
def test_sizes(toy_camera, precision, size):
    jumps = 0.0 if size == (1, 1) else 0.05
    assert_agrees4d(random_gaussians4d(60, seed=12, **precision), toy_camera(*size), 0.5, jumps=jumps)


def test_around_the_camera(toy_camera, precision):
    """Half of the Gaussians behind, many far beside the view, some passing by."""
    camera = toy_camera(40, 30, eye=(0.0, -0.5, 0.1), target=(0, 0, 0))
    assert_agrees4d(
        random_gaussians4d(200, seed=8, scale=0.1, **precision), camera, 0.5, depth=True, jumps=0.06
    )


def test_fast_and_thin(toy_camera, precision):
    """Scales from 0.002 to 5, and ways through the whole view: splats and their gradients, without blending.

    Conics of such needles are what float32 makes of nearly singular matrices; those of 3D Gaussians are no better.
    """
    given = random_gaussians4d(60, seed=9, scale=0.05)
    given.log_scales[:, 0] -= 3
    given.log_scales[:, 2] += 2
    given.log_scale_t.add_(1.5)
    given.rotors[:, 4:7] *= 0.3  # mostly along time
    camera = toy_camera(50, 40, dtype=D)
    ours = given.to(precision["dtype"]).to(precision["device"]).requires_grad_()
    splats, values, tile_counts, _ = project4d(
        ours, camera.to(precision["dtype"]).to(precision["device"]), 0.7, dilation=0.3125
    )
    theirs = given.detach().requires_grad_()
    witness = project_gaussians4d_reference(theirs, camera, 0.7, dilation=0.3125)
    seen = tile_counts[0].cpu()[witness.index] > 0
    index = witness.index[seen]
    assert len(index) > 30 and theirs.slice(0.7).velocity[index].norm(dim=-1).max() > 3
    parts = [witness.mean2d, witness.opacity[:, None], witness.conic, witness.rgb]
    truth = torch.cat(parts, -1)[seen]
    actual = torch.cat([splats[0, index][:, [0, 1, 2, 4, 5, 6]], values[0, index]], -1)
    single = precision["dtype"] == torch.float32
    error = (actual.detach().cpu().double() - truth.detach()).norm(dim=0) / truth.detach().norm(dim=0)
    conics = error[3:6].max()
    assert max(error[:3].max(), error[6:].max()) < (1e-6 if single else 1e-14), error
    assert conics < (5e-5 if single else 1e-13), error
    weight = torch.randn(truth.shape, generator=torch.Generator().manual_seed(1), dtype=D)
    (truth * weight).sum().backward()
    (actual * weight.to(actual)).sum().backward()
    for name in Gaussians4d.names:
        a, b = getattr(ours, name).grad.cpu().double(), getattr(theirs, name).grad
        assert (a - b).norm() <= (1e-4 if single else 1e-10) * b.norm(), name


@pytest.mark.parametrize("antialiased", [False, True])
def test_gradcheck(toy_camera, antialiased):
    """All 65 numbers of each Gaussian, the pose and the time, by finite differences."""
    gaussians = random_gaussians4d(3, seed=5, sh_degree=3, scale=0.6)
    gaussians.means.mul_(0.3)
    camera, background = toy_camera(7, 5, off_centre=True, dtype=D), torch.rand(3, dtype=D)
    time = torch.tensor(0.65, dtype=D)
    options = {"depth": True, "antialiased": antialiased}
    keep = rasterize_gaussians4d_reference(gaussians, camera, time, **options).margin > 1e-4
    assert keep.double().mean() > 0.9

    def render(time, world_to_cam, *parameters):
        seen = replace(camera, world_to_cam=world_to_cam)
        frame = draw4d(Gaussians4d(*parameters), seen, time, background=background, **options)
        assert frame.count.max() == 3
        return frame.rgb[keep], frame.depth[keep]

    inputs = [time, camera.world_to_cam, *gaussians.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert sum(t.numel() for t in inputs[2:]) == 3 * 65
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-7, rtol=1e-5)
    gradients = torch.autograd.grad(sum(o.sum() for o in render(*inputs)), inputs)
    assert all(gradient.abs().max() > 0 for gradient in gradients)


def test_batch_gradcheck(toy_camera):
    """The gradient of a batch is the sum over its cameras; each pose and each time has its own."""
    gaussians = random_gaussians4d(5, seed=6, scale=0.4)
    cameras = Camera.stack([toy_camera(9, 9, dtype=D), toy_camera(9, 9, eye=(1, 3, 1), dtype=D)])
    times = torch.tensor([0.3, 0.7], dtype=D)
    keep = rasterize_gaussians4d_reference(gaussians, cameras, times).margin > 1e-3

    def render(times, world_to_cam, *parameters):
        frame = draw4d(Gaussians4d(*parameters), replace(cameras, world_to_cam=world_to_cam), times)
        return frame.rgb[keep], frame.alpha[keep]

    inputs = [times, cameras.world_to_cam, *gaussians.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=True)


@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize("time_scale", [1e3, 1e6])
def test_what_stands_still_is_the_static_stage(
    random_gaussians, toy_camera, precision, antialiased, time_scale
):
    """No rotation between space and time and a long life: images and gradients of 3D Gaussians, within 1e-5."""
    still = random_gaussians(80, seed=3, scale=0.2, **precision)
    cameras = Camera.stack([toy_camera(50, 37, off_centre=True), toy_camera(50, 37, eye=(2, 2, 1))])
    cameras = cameras.to(precision["dtype"]).to(precision["device"])
    # As near as float32 comes to rest: exp(-D^2 / 2e6) is 1 to 1e-8.
    moving = Gaussians4d.from_gaussians(still, time=0.5, time_scale=time_scale).map(torch.clone)
    options = {"background": torch.full((3,), 0.3, **precision), "depth": True}
    options |= {"antialiased": antialiased}
    still, moving = still.requires_grad_(), moving.requires_grad_()
    truth = rasterize(still, cameras, count=True, **options)
    actual = draw4d(moving, cameras, 0.52, **options)
    assert truth.count.max() > 3 and torch.equal(actual.count, truth.count)
    for name in ("rgb", "alpha", "depth", "median_depth"):
        a, b = getattr(actual, name), getattr(truth, name)
        torch.testing.assert_close(a, b, atol=1e-5 * max(1.0, b.abs().max().item()), rtol=0)
    for frame in (truth, actual):
        frame.rgb.square().sum().backward()
    g_quats = torch.stack([moving.rotors.grad[:, i] for i in (0, 3, 2, 1)], -1)
    pairs = {
        name: (getattr(moving, name).grad, getattr(still, name).grad)
        for name in ("means", "log_scales", "opacity_logits", "sh_dc", "sh_rest")
    }
    # Rotor and quaternion are both normalised: their gradients agree as they are.
    pairs["quats"] = g_quats * torch.tensor([1, -1, 1, -1]).to(g_quats), still.quats.grad
    for name, (a, b) in pairs.items():
        assert (a - b).norm() <= 1e-5 * b.norm(), f"{name}: {(a - b).norm() / b.norm():.2g}"


def test_the_static_stage_gives_the_same_splats(random_gaussians, toy_camera, precision):
    still, camera = random_gaussians(80, seed=5, **precision), toy_camera(50, 37, **precision)
    still.log_scales[:, 1] -= 1  # so that there is no doubt which axis is the normal
    moving = Gaussians4d.from_gaussians(still, time=0.0, time_scale=1e6)
    splats, values, tile_counts, totals = project4d(moving, camera, 0.0, depth=True, normals=True)
    truth = project_gaussians(
        tuple(still.tensors().values()),
        camera.world_to_cam[None],
        camera.intrinsics[None],
        width=50,
        height=37,
        sh_degree=3,
        near=camera.near,
        far=camera.far,
        dilation=0.3,
        with_depth=True,
        with_normals=True,
    )
    assert torch.equal(tile_counts, truth[2]) and torch.equal(totals, truth[3])
    seen = tile_counts > 0
    assert seen.sum() > 40
    torch.testing.assert_close(splats[seen], truth[0][seen], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(values[seen], truth[1][seen], atol=1e-5, rtol=1e-5)


def test_far_from_their_time_gaussians_are_left_out(toy_camera, precision):
    """Where the exponent is 16 or what is left of the opacity is under 1/255, and only there; no gradient then."""
    gaussians = random_gaussians4d(6, **precision)
    gaussians.means.zero_()
    gaussians.rotors.copy_(torch.eye(8)[0].expand(6, 8))
    gaussians.log_scale_t.zero_()
    gaussians.opacity_logits.fill_(20)  # an opacity of 1: at sqrt(2 ln 255) = 3.329 it falls to 1/255
    gaussians.times.copy_(torch.tensor([0, 3.32, -3.32, 3.34, -6, 1e30]))
    gaussians.requires_grad_()
    camera = toy_camera(30, 20, **precision)
    splats, values, tile_counts, totals = project4d(gaussians, camera, 0.0)
    assert (tile_counts[0] > 0).tolist() == [True, True, True, False, False, False]
    assert totals[0] == 3
    torch.testing.assert_close(splats[0, 0, 2].item(), 1.0)
    later = math.exp(-(3.32**2) / 2)
    torch.testing.assert_close(splats[0, 1, 2].item(), later, rtol=1e-5, atol=0)
    (splats[:, :3, :3].sum() + values[:, :3].sum()).backward()
    for name, tensor in gaussians.tensors().items():
        assert tensor.grad[:3].isfinite().all() and not tensor.grad[3:].any(), name
    assert (gaussians.times.grad[1] > 0) != (gaussians.times.grad[2] > 0)
    whole = project4d(gaussians.detach(), Camera.stack([camera] * 3), torch.tensor([0.0, 6.0, math.nan]))
    assert (whole[2] > 0).any(-1).tolist() == [True, True, False]


def test_empty(toy_camera, precision):
    camera, background = toy_camera(20, 10, **precision), torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    empty = random_gaussians4d(0, **precision).requires_grad_()
    frame = draw4d(empty, camera, 0.5, background=background, depth=True, normals=True)
    torch.testing.assert_close(frame.rgb, background.expand(10, 20, 3))
    frame.rgb.sum().backward()
    assert empty.means.grad.shape == (0, 3)


def hurt_gradients(gaussians: Gaussians4d, camera: Camera, time: float) -> dict[str, torch.Tensor]:
    """Fails unless images and gradients are finite; the gradients."""
    leaves = gaussians.detach().requires_grad_()
    frame = draw4d(leaves, camera, time, depth=True, normals=True)
    loss = sum(t.sum() for t in (frame.rgb, frame.alpha, frame.depth, frame.normals))
    assert loss.isfinite()
    loss.backward()
    gradients = {name: t.grad for name, t in leaves.tensors().items()}
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), f"gradient of {name} is not finite"
    return gradients


@pytest.mark.parametrize("name", Gaussians4d.names)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_a_number_stays_where_it_is(toy_camera, precision, name, value):
    """One bad Gaussian in three: the image and the gradients of the others are those without it."""
    gaussians, camera = random_gaussians4d(30, seed=11, **precision), toy_camera(40, 30, **precision)
    good = (torch.arange(30) % 3 != 0).to(gaussians.device)
    getattr(gaussians, name).view(30, -1)[~good, -1] = value
    gradients = hurt_gradients(gaussians, camera, 0.5)
    if value == value and name in ("log_scales", "log_scale_t", "opacity_logits"):
        return  # e^-inf = 0 and sigmoid(inf) = 1 are good numbers: such a Gaussian may be drawn
    rest = gaussians.select(good)
    torch.testing.assert_close(
        draw4d(gaussians, camera, 0.5).rgb, draw4d(rest, camera, 0.5).rgb, rtol=0, atol=0
    )
    expected = hurt_gradients(rest, camera, 0.5)
    for key, gradient in gradients.items():
        assert not gradient[~good].any(), f"a dropped Gaussian has a gradient of {key}"
        scale = expected[key].abs().max().item()
        torch.testing.assert_close(gradient[good], expected[key], rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("rotor", [[0] * 8, [1, 0, 0, 0, 0, 0, 0, -1], [1, 0, 0, 0, 0, 0, 0, 1]])
def test_rotors_that_are_none_are_dropped(toy_camera, precision, rotor):
    """All zero, or with a left or a right quaternion that is."""
    gaussians, camera = random_gaussians4d(30, **precision), toy_camera(30, 20, **precision)
    gaussians.rotors[::3] = torch.tensor(rotor).to(gaussians.rotors)
    good = (torch.arange(30) % 3 != 0).to(gaussians.device)
    rest = draw4d(gaussians.select(good), camera, 0.5)
    torch.testing.assert_close(draw4d(gaussians, camera, 0.5).rgb, rest.rgb, rtol=0, atol=0)
    assert not hurt_gradients(gaussians, camera, 0.5)["rotors"][~good].any()


@pytest.mark.parametrize("name", ["log_scales", "log_scale_t"])
@pytest.mark.parametrize("change", [-300.0, -60.0, -20.0, 20.0, 44.0, 88.0, 300.0])
def test_absurd_scales(toy_camera, precision, name, change):
    gaussians = random_gaussians4d(12, seed=2, **precision)
    getattr(gaussians, name)[::2] += change
    hurt_gradients(gaussians, toy_camera(30, 20, **precision), 0.5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("part", ["world_to_cam", "intrinsics", "time"])
def test_a_view_that_is_no_number_draws_background(toy_camera, precision, part, value):
    camera = toy_camera(20, 10, **precision)
    if part != "time":
        getattr(camera, part).view(-1)[0] = value
    background = torch.tensor([0.1, 0.2, 0.3]).to(**precision)
    time = value if part == "time" else 0.5
    frame = draw4d(random_gaussians4d(20, **precision), camera, time, background=background)
    torch.testing.assert_close(frame.rgb, background.expand(10, 20, 3))


def test_cpu_results_do_not_depend_on_threads(toy_camera):
    """Bit for bit, gradients included."""
    results, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            gaussians = random_gaussians4d(3000, seed=17, scale=0.05, dtype=torch.float32).requires_grad_()
            cameras = Camera.stack([toy_camera(90, 70), toy_camera(90, 70, eye=(1, 3, 1))])
            pose, time = cameras.world_to_cam.clone().requires_grad_(), torch.full((2,), 0.4).requires_grad_()
            frame = draw4d(gaussians, replace(cameras, world_to_cam=pose), time, depth=True)
            (frame.rgb.square().sum() + frame.depth.sum()).backward()
            results.append([frame.rgb, pose.grad, time.grad, *(t.grad for t in gaussians.tensors().values())])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(actual, truth) for actual, truth in zip(other, results[0], strict=True))
