"""The stages as torch.library operations: opcheck, fake tensors, torch.compile, and what each stage gives alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gaussians4d_scenes import random_gaussians4d
from torch._subclasses import FakeTensorMode

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import CHANNELS, blend_splats
from luxel.render.ops.raster.project_gaussians import project_gaussians
from luxel.render.ops.raster.projection import projection_of
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import DensifyStatistics, rasterize
from luxel.render.reference.raster.bin_splats import bin_splats_reference
from luxel.render.reference.raster.project_gaussians import project_gaussians_reference

WIDTH, HEIGHT = 50, 37
ROUNDING = {"rtol": 1e-4, "atol": 1e-4}  # sums on a GPU come out of atomic additions in any order


@pytest.fixture
def scene(random_gaussians, toy_camera, device):
    """Gaussians that want gradients, and two cameras in a batch."""
    cameras = Camera.stack(
        [toy_camera(WIDTH, HEIGHT), toy_camera(WIDTH, HEIGHT, eye=(2.5, 2, 1), off_centre=True)]
    )
    return random_gaussians(60, seed=30, device=device).requires_grad_(), cameras.to(device)


def projection_arguments(gaussians: Gaussians, cameras: Camera, **changes):
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
    return (*gaussians.tensors().values(), cameras.world_to_cam, cameras.intrinsics), {**options, **changes}


def stages(gaussians: Gaussians, cameras: Camera, **changes):
    """Outputs of the first two stages."""
    tensors, options = projection_arguments(gaussians, cameras, **changes)
    projected = project_gaussians(tensors[:6], *tensors[6:], **options)
    splats, _, tile_counts, totals = projected
    seen, capacity = totals.tolist()
    size = {"width": WIDTH, "height": HEIGHT}
    return projected, bin_splats(
        splats, tile_counts, totals, **size, visible_capacity=seen, capacity=capacity
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"antialiased": True, "with_normals": True},
        pytest.param({"with_depth": False}, marks=pytest.mark.slow),
    ],
)
def test_opcheck_project(scene, changes):
    (*tensors,), options = projection_arguments(*scene, **changes)
    tensors[6] = tensors[6].requires_grad_()
    options = tuple(options.values())
    # Rows of culled Gaussians are left unwritten, so only a scene seen in full gives the same outputs twice.
    tensors[0] = (tensors[0].detach() * 0.2).requires_grad_()
    for statistics in (None, torch.zeros(60, 4, device=tensors[0].device)):
        torch.library.opcheck(
            torch.ops.luxel.project_gaussians.default, (*tensors, statistics, *options, None), **ROUNDING
        )


def test_opcheck_bin(scene):
    (splats, _, tile_counts, totals), _ = stages(*scene)
    seen, capacity = totals.tolist()
    arguments = (splats.detach(), tile_counts, totals, WIDTH, HEIGHT, seen, capacity)
    # On a GPU the plan may list tiles of like length in any order, so outputs are not compared there.
    checks = (
        ("test_schema", "test_faketensor") if splats.is_cuda else ("test_schema", "test_aot_dispatch_dynamic")
    )
    torch.library.opcheck(torch.ops.luxel.bin_splats.default, arguments, test_utils=checks)


@pytest.mark.parametrize(
    "channels", [c if c in (3, 8) else pytest.param(c, marks=pytest.mark.slow) for c in CHANNELS]
)
def test_opcheck_blend(scene, channels):
    (splats, *_), (instances, ranges, _, plan) = stages(*scene)
    device = splats.device
    splats = splats.detach().requires_grad_()
    values = torch.rand(2, 60, channels, device=device, requires_grad=True)
    background = torch.rand(2, channels, device=device, requires_grad=True)
    for behind, absolute, median in ((background, False, True), (None, True, False)):
        inputs = (splats, values, behind, instances, ranges, plan)
        arguments = (*inputs, WIDTH, HEIGHT, 0.99, absolute, absolute, median, median, True, 0, "gaussians")
        torch.library.opcheck(torch.ops.luxel.blend.default, arguments, **ROUNDING)


def test_opcheck_backward_operations(scene):
    """The gradients are operations of their own, so that a compiled backward finds their shapes too."""
    (splats, values, tile_counts, _), (instances, ranges, _, plan) = stages(*scene)
    splats, values = splats.detach(), values.detach()
    outputs = torch.ops.luxel.blend(
        splats,
        values,
        None,
        instances,
        ranges,
        plan,
        WIDTH,
        HEIGHT,
        0.99,
        *(False,) * 4,
        True,
        0,
        "gaussians",
    )
    g_image = torch.ones_like(outputs[0])
    inputs = (splats, values, None, instances, ranges, plan)
    kept = (*outputs[:3], outputs[5])
    blend = (*inputs, WIDTH, HEIGHT, 0.99, *(False,) * 4, True, 0, "gaussians", *kept, g_image, None)
    # test_faketensor compares sizes, strides and types; values of unused splats may be poison.
    torch.library.opcheck(torch.ops.luxel.blend_bwd.default, blend, test_utils=("test_faketensor",))
    tensors, options = projection_arguments(*scene)
    tensors = [t.detach() for t in tensors]
    statistics = torch.zeros(60, 4, device=splats.device)
    project = (
        *tensors,
        statistics,
        *options.values(),
        tile_counts,
        torch.ones_like(splats),
        torch.ones_like(values),
    )
    torch.library.opcheck(
        torch.ops.luxel.project_gaussians_bwd.default,
        (*project, True),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_fake_tensors_have_the_shapes_of_real_ones(scene):
    gaussians, cameras = scene
    options = {"depth": True, "normals": True, "count": True, "max_instances": 5000}
    real = rasterize(gaussians, cameras, features=gaussians.means, **options)
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        fake_gaussians = gaussians.map(mode.from_tensor)
        fake_cameras = replace(
            cameras,
            world_to_cam=mode.from_tensor(cameras.world_to_cam),
            intrinsics=mode.from_tensor(cameras.intrinsics),
        )
        fake = rasterize(fake_gaussians, fake_cameras, features=fake_gaussians.means, **options)
    for name in set(vars(real)) - {"given_alpha", "square_depth"}:
        actual, expected = getattr(fake, name), getattr(real, name)
        if expected is None:  # not asked for
            assert actual is None, name
            continue
        assert (actual.shape, actual.dtype, actual.device) == (
            expected.shape,
            expected.dtype,
            expected.device,
        ), name


@pytest.mark.parametrize("read_back", [False, True])
def test_compiles_as_one_graph(scene, read_back):
    """fullgraph=True: no graph break, forward or backward; with the exact count read back where requested."""
    gaussians, cameras = scene

    def render(world_to_cam, background, *parameters):
        frame = rasterize(
            Gaussians(*parameters),
            replace(cameras, world_to_cam=world_to_cam),
            background=background,
            depth=True,
            max_instances=None if read_back else 5000,
        )
        return frame.rgb, frame.alpha, frame.depth

    results = []
    background = torch.tensor([0.1, 0.5, 0.9], device=gaussians.device)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for function in (render, torch.compile(render, fullgraph=True, backend="aot_eager")):
            inputs = [cameras.world_to_cam, background, *gaussians.tensors().values()]
            inputs = [t.detach().clone().requires_grad_() for t in inputs]
            outputs = function(*inputs)
            torch.stack([output.square().sum() for output in outputs]).sum().backward()
            results.append([*(o.detach() for o in outputs), *(t.grad for t in inputs)])
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5 * eager.abs().max().item())


def test_splats_are_those_of_the_reference(scene):
    gaussians, cameras = scene
    (splats, _, tile_counts, totals), (instances, ranges, overflow, _) = stages(*scene)
    assert overflow.item() == 0 and totals[0] == (tile_counts > 0).sum() and totals[1] == tile_counts.sum()
    assert totals[1] == ranges[-1, 1]
    assert totals.tolist() == [(tile_counts > 0).sum(), tile_counts.sum()]
    for c in range(2):
        one = replace(cameras, world_to_cam=cameras.world_to_cam[c], intrinsics=cameras.intrinsics[c]).to(
            "cpu"
        )
        witness = project_gaussians_reference(
            gaussians.detach().to("cpu").to(torch.float64), one.to(torch.float64)
        )
        listed, spans = bin_splats_reference(witness, WIDTH, HEIGHT)
        # Lists agree but for splats whose ellipse only grazes a tile, where rounding decides.
        tiles = spans.shape[0]
        native = [
            (instances[start:end] - 60 * c).tolist()
            for start, end in ranges[c * tiles : (c + 1) * tiles].tolist()
        ]
        reference = [witness.index[listed[start:end]].tolist() for start, end in spans.tolist()]
        assert sum(len(a) for a in reference) > 100
        assert sum(len(set(a) ^ set(b)) for a, b in zip(native, reference, strict=True)) <= 2
        assert sum(a != b for a, b in zip(native, reference, strict=True)) <= 2
        rows = splats[c, witness.index].detach().cpu().double()
        kept = tile_counts[c, witness.index].cpu() > 0
        expected = torch.cat(
            [
                witness.mean2d,
                witness.opacity[:, None],
                witness.depth[:, None],
                witness.conic,
                witness.half_extent.amax(-1, keepdim=True),
            ],
            -1,
        )
        torch.testing.assert_close(rows[kept], expected[kept], rtol=1e-4, atol=1e-5)
        assert tile_counts[c].sum() == sum(len(a) for a in native)


def test_too_little_room_is_told_and_harmless(scene):
    gaussians, cameras = scene
    whole = rasterize(gaussians, cameras)
    plenty = rasterize(gaussians, cameras, max_instances=100_000)
    assert plenty.overflow.item() == 0 and torch.equal(plenty.rgb, whole.rgb)
    for room in (0, 1, 100):
        cut = rasterize(gaussians, cameras, max_instances=room)
        assert cut.overflow.item() == 1 and cut.rgb.isfinite().all()
        gradients = torch.autograd.grad(cut.rgb.sum(), list(gaussians.tensors().values()))
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_room_follows_what_frames_need(scene):
    """Each frame is drawn with the room that those before it needed; one that needs more is drawn again."""
    gaussians, cameras = scene
    gaussians = gaussians.detach()
    for growth in (-2.0, 1.0, -2.0):
        grown = replace(gaussians, log_scales=gaussians.log_scales + growth)
        frame, plenty = rasterize(grown, cameras), rasterize(grown, cameras, max_instances=100_000)
        assert frame.overflow.item() == 0 and torch.equal(frame.rgb, plenty.rgb)


def test_wrong_channel_counts_and_types_are_named(scene):
    gaussians, cameras = scene
    (splats, *_), (instances, ranges, _, plan) = stages(*scene)
    with pytest.raises(ValueError, match="channels"):
        blend_splats(
            splats, splats[..., :5], None, instances, ranges, plan, width=WIDTH, height=HEIGHT, max_alpha=0.99
        )
    with pytest.raises(ValueError, match="float16"):
        rasterize(gaussians.to(torch.float16), cameras)
    mixed = replace(gaussians, quats=gaussians.quats.double())
    with pytest.raises(ValueError, match="quats"):
        rasterize(mixed, cameras)
    with pytest.raises(ValueError, match="near"):
        rasterize(gaussians, replace(cameras, near=0.0))


def test_statistics_work_in_a_compiled_step(scene):
    gaussians, cameras = scene
    torch._dynamo.reset()

    def step(statistics, *parameters):
        frame = rasterize(
            Gaussians(*parameters),
            cameras,
            statistics=DensifyStatistics(statistics),
            absolute_gradients=True,
            max_instances=5000,
        )
        return frame.rgb.square().sum()

    results = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        statistics = torch.zeros(60, 4, device=gaussians.device)
        function(statistics, *gaussians.tensors().values()).backward()
        results.append(statistics)
    assert results[0][:, 2].max() == 2
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5 * results[0].max().item())


def test_what_lies_past_the_last_instance_does_not_matter(scene):
    """Room is only filled as far as it is needed; fixed sums must not take the rest for splats."""
    (splats, values, tile_counts, totals), _ = stages(*scene)
    splats, values = splats.detach(), values.detach()
    seen, needed = totals.tolist()
    size, generator = {"width": WIDTH, "height": HEIGHT}, torch.Generator().manual_seed(4)
    expected = None
    for extra in (0, 20_000):
        instances, ranges, _, plan = bin_splats(
            splats, tile_counts, totals, **size, visible_capacity=seen, capacity=needed + extra
        )
        for low, high in ((0, 120), (-(2**31), 2**31 - 1)) * 5:
            rest = torch.randint(low, high, (extra,), generator=generator, dtype=torch.int64)
            instances[needed:] = rest.to(instances)
            inputs = (splats, values, None, instances, ranges, plan)
            how = (
                WIDTH,
                HEIGHT,
                0.99,
                False,
                True,
                False,
                False,
                True,
                0,
                "gaussians",
            )  # with sums in a fixed order
            outputs = torch.ops.luxel.blend(*inputs, *how)
            kept = (*outputs[:3], outputs[5])
            actual = torch.ops.luxel.blend_bwd(
                *inputs, *how, *kept, torch.ones_like(outputs[0]), None, False
            )[:2]
            expected = expected or actual
            assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_scenes_that_move_need_a_time(toy_camera) -> None:
    scene, camera = random_gaussians4d(5), toy_camera()
    with pytest.raises(ValueError, match="time must be given: 4D Gaussians move"):
        rasterize(scene, camera)
    with pytest.raises(ValueError, match=r"time must be \[\], got \[2\]"):
        rasterize(scene, camera, time=torch.zeros(2))
    with pytest.raises(ValueError, match=r"time must be \[\] or \[2\], got \[3\]"):
        rasterize(scene, Camera.stack([camera, camera]), time=torch.zeros(3))


def test_projections_have_the_names_of_primitives() -> None:
    with pytest.raises(ValueError, match=r"primitive must be one of .*gaussians.*, got spheres"):
        projection_of("spheres")
