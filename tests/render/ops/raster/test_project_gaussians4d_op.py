"""project_gaussians4d as a torch.library operation: opcheck, fake tensors, torch.compile, statistics, messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gaussians4d_scenes import D, draw4d, project4d, random_gaussians4d
from torch._subclasses import FakeTensorMode

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.project_gaussians4d import project_gaussians4d
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.reference.raster.bin_splats import bin_splats_reference
from luxel.render.reference.raster.rasterize_gaussians4d import rasterize_gaussians4d_reference

WIDTH, HEIGHT = 50, 37
ROUNDING = {"rtol": 1e-4, "atol": 1e-4}  # sums on a GPU come out of atomic additions in any order


@pytest.fixture
def scene(toy_camera, device):
    """Gaussians that want gradients, seen in full by two cameras at two times."""
    gaussians = random_gaussians4d(60, seed=30, sh_degree=3, dtype=torch.float32, device=device)
    # Rows of culled Gaussians are left unwritten, so only a scene seen in full gives the same outputs twice.
    gaussians.means.mul_(0.2)
    gaussians.times.copy_(0.5 + 0.1 * (gaussians.times - 0.5))
    gaussians.opacity_logits.clamp_(min=0)
    cameras = Camera.stack(
        [toy_camera(WIDTH, HEIGHT), toy_camera(WIDTH, HEIGHT, eye=(2.5, 2, 1), off_centre=True)]
    )
    return gaussians.requires_grad_(), cameras.to(device), torch.tensor([0.45, 0.6], device=device)


def arguments(scene, **changes):
    gaussians, cameras, times = scene
    options = {
        "width": WIDTH,
        "height": HEIGHT,
        "sh_degree": 3,
        "near": 0.01,
        "far": 1e10,
        "dilation": 0.3,
        "antialiased": False,
        "with_depth": True,
        "with_normals": False,
    }
    tensors = (*gaussians.tensors().values(), cameras.world_to_cam, cameras.intrinsics, times)
    return tensors, {**options, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"antialiased": True, "with_normals": True},
        pytest.param({"with_depth": False}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("needs_grad", [(), (8, 10)])
def test_opcheck(scene, changes, needs_grad):
    (*tensors,), options = arguments(scene, **changes)
    for i in needs_grad:
        tensors[i] = tensors[i].clone().requires_grad_()
    for statistics in (None, torch.zeros(60, 4, device=tensors[0].device)):
        torch.library.opcheck(
            torch.ops.luxel.project_gaussians4d.default,
            (*tensors, statistics, *options.values(), None),
            **ROUNDING,
        )


def test_opcheck_of_the_backward(scene):
    tensors, options = arguments(scene)
    tensors = [t.detach() for t in tensors]
    splats, values, tile_counts, _ = torch.ops.luxel.project_gaussians4d(
        *tensors, None, *options.values(), None
    )
    statistics = torch.zeros(60, 4, device=splats.device)
    given = (tile_counts, torch.ones_like(splats), torch.ones_like(values), True, True)
    torch.library.opcheck(
        torch.ops.luxel.project_gaussians4d_bwd.default,
        (*tensors, statistics, *options.values(), *given),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_fake_tensors_have_the_shapes_of_real_ones(scene):
    tensors, options = arguments(scene, with_normals=True)
    cameras, options = tensors[8:], dict(options)
    real = project_gaussians4d(tensors[:8], *cameras, **options)
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        faked = [mode.from_tensor(t) for t in tensors]
        fake = project_gaussians4d(tuple(faked[:8]), *faked[8:], **options)
    for actual, expected in zip(fake, real, strict=True):
        assert (actual.shape, actual.dtype, actual.device) == (
            expected.shape,
            expected.dtype,
            expected.device,
        )


def test_compiles_as_one_graph(scene):
    gaussians, cameras, times = scene

    def render(times, world_to_cam, *parameters):
        seen = replace(cameras, world_to_cam=world_to_cam)
        splats, values, _, _ = project4d(Gaussians4d(*parameters), seen, times, depth=True)
        return splats[..., :7], values

    results = []
    torch._dynamo.reset()
    for function in (render, torch.compile(render, fullgraph=True, backend="aot_eager")):
        inputs = [times, cameras.world_to_cam, *gaussians.tensors().values()]
        inputs = [t.detach().clone().requires_grad_() for t in inputs]
        outputs = function(*inputs)
        torch.stack([output.square().sum() for output in outputs]).sum().backward()
        results.append([*(o.detach() for o in outputs), *(t.grad for t in inputs)])
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5 * eager.abs().max().item())


@pytest.mark.parametrize("skip", [None, 0, 1])
def test_statistics_are_those_of_autograd(toy_camera, precision, skip):
    """Sums over views of the gradients by screen position and by time, each view taken alone."""
    gaussians = random_gaussians4d(25, seed=21, scale=0.25)
    cameras = Camera.stack(
        [toy_camera(22, 13, dtype=D), toy_camera(22, 13, eye=(3, 1, 1), dtype=D), toy_camera(22, 13, dtype=D)]
    )
    times = torch.tensor([0.3, 0.6, 2.0], dtype=D)
    witness = gaussians.detach().requires_grad_()
    frame = rasterize_gaussians4d_reference(witness, cameras, times, depth=True)
    weight = torch.randn(3, 13, 22, 4, generator=torch.Generator().manual_seed(3), dtype=D)
    weight *= (frame.margin > 2e-4)[..., None]
    loss = (torch.cat([frame.rgb, frame.depth[..., None]], -1) * weight).sum((1, 2, 3))
    expected = torch.zeros(25, 4, dtype=D)
    half = torch.tensor([11, 6.5], dtype=D)
    for one, splats in zip(loss, frame.splats, strict=True):
        by_place, by_time = torch.autograd.grad(one, [splats.mean2d, witness.times], retain_graph=True)
        expected[:, 0].index_add_(0, splats.index, (by_place * half).norm(dim=-1))
        expected[:, 1] += by_time.abs()
        expected[splats.index[bin_splats_reference(splats, 22, 13)[0].unique()], 2] += 1
        radius = splats.half_extent.amax(-1) / 22
        expected[splats.index, 3] = torch.maximum(expected[splats.index, 3], radius)
    assert expected[:, 2].unique().numel() > 2

    ours = gaussians.to(precision["dtype"]).to(precision["device"]).requires_grad_()
    native = cameras.to(precision["dtype"]).to(precision["device"])
    statistics = torch.ones(25, 4, **precision)
    if skip is None:
        frame = draw4d(ours, native, times, depth=True, statistics=statistics)
        (torch.cat([frame.rgb, frame.depth[..., None]], -1) * weight.to(frame.rgb)).sum().backward()
    else:
        splats, values, tile_counts, _ = project4d(ours.detach(), native, times, depth=True)
        tensors = (*ours.detach().tensors().values(), native.world_to_cam, native.intrinsics)
        options = (22, 13, 1, native.near, native.far, 0.3, False, True, False)
        torch.ops.luxel.project_gaussians4d_bwd(
            *tensors,
            times.to(splats),
            statistics,
            *options,
            tile_counts,
            torch.ones_like(splats),
            torch.ones_like(values),
            False,
            False,
            skip=torch.tensor([skip], dtype=torch.int32, device=splats.device),
        )
        assert (statistics[:, :3] == 1).all() == bool(skip)
        return
    actual = statistics.cpu().double() - torch.tensor([1.0, 1, 1, 0], dtype=D)
    tolerance = (
        1e-4 if precision["dtype"] == torch.float32 else 1e-6
    )  # options of the native stage are float32
    for column in range(3):
        scale = expected[:, column].abs().max().item()
        torch.testing.assert_close(actual[:, column], expected[:, column], rtol=0, atol=tolerance * scale)
    seen = expected[:, 2] > 0
    torch.testing.assert_close(actual[seen, 3], expected[seen, 3].clamp_min(1), rtol=1e-4, atol=0)


def test_wrong_shapes_and_types_are_named(scene):
    gaussians, cameras, times = scene
    with pytest.raises(ValueError, match="timestamps"):
        tensors, options = arguments((gaussians, cameras, times[:1]))
        project_gaussians4d(tensors[:8], *tensors[8:], **options)
    with pytest.raises(ValueError, match="float16"):
        project4d(gaussians.to(torch.float16), cameras, times)
    with pytest.raises(ValueError, match="rotors"):
        project4d(replace(gaussians, rotors=gaussians.rotors.double()), cameras, times)
    with pytest.raises(ValueError, match="near"):
        project4d(gaussians, replace(cameras, near=0.0), times)
