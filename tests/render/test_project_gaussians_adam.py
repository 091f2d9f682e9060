"""Adam fused into the projection's backward, against the backward followed by Adam, and against torch.optim.Adam."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from luxel.render.camera import Camera
from luxel.render.ops.adam import fused_adam_
from luxel.render.ops.bin_splats import bin_splats
from luxel.render.ops.blend_gaussians import blend_gaussians
from luxel.render.ops.project_gaussians import project_gaussians
from luxel.render.ops.project_gaussians_adam import adam_schedule, project_gaussians_adam_
from luxel.render.primitives.gaussians import Gaussians

RATES = (1e-3, 5e-3, 2e-3, 2e-2, 1e-2, 5e-4)
SIZE = {"width": 50, "height": 37}
VIEW = {**SIZE, "sh_degree": 3, "near": 0.0625, "far": 64.0, "dilation": 0.3125}
PENALTIES = {"opacity_penalty": 0.125, "scale_penalty": 0.25}


@dataclass
class State:
    """Parameters with their moments."""

    parameters: list[Tensor]
    exp_avgs: list[Tensor] = field(default_factory=list)
    exp_avg_sqs: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters = [t.detach().clone() for t in self.parameters]
        self.exp_avgs = self.exp_avgs or [torch.zeros_like(t) for t in self.parameters]
        self.exp_avg_sqs = self.exp_avg_sqs or [torch.zeros_like(t) for t in self.parameters]

    def copy(self) -> State:
        return State(*([t.clone() for t in part] for part in vars(self).values()))

    def tensors(self) -> list[Tensor]:
        return [*self.parameters, *self.exp_avgs, *self.exp_avg_sqs]


def scene(
    random_gaussians,
    toy_camera,
    precision: dict[str, Any],
    count: int = 75,
    cameras: int = 1,
    degree: int = 3,
) -> tuple[State, Camera]:
    """Gaussians of which some are off the image, with moments as after some steps, and cameras."""
    gaussians = random_gaussians(count, seed=40, spread=1.5, sh_degree=degree, **precision)
    eyes = ({}, {"eye": (2.5, 2, 1)}, {"eye": (0, 3, 1)})
    views = [toy_camera(**SIZE, **eye, dtype=precision["dtype"]) for eye in eyes[:cameras]]
    state = State(list(gaussians.tensors().values()))
    generator = torch.Generator().manual_seed(9)
    for mean, square in zip(state.exp_avgs, state.exp_avg_sqs, strict=True):
        mean += 1e-3 * torch.randn(mean.shape, generator=generator).to(mean)
        square += 1e-4 * torch.rand(square.shape, generator=generator).to(square) + 1e-6
    return state, Camera.stack(views).to(precision["device"])


def project(state: State, camera: Camera, **options: Any) -> tuple[Tensor, ...]:
    return project_gaussians(
        tuple(state.parameters),  # pyright: ignore[reportArgumentType]
        camera.world_to_cam,
        camera.intrinsics,
        **{**VIEW, **options},
    )


def gradients_of(splats: Tensor, values: Tensor, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "g_splats": torch.randn(splats.shape, generator=generator).to(splats),
        "g_values": torch.randn(values.shape, generator=generator).to(values),
    }


def fused(state: State, camera: Camera, step: int, **more: Any) -> None:
    if "schedule" not in more:
        more["schedule"] = torch.tensor(adam_schedule(RATES, step), dtype=torch.float64).to(
            state.parameters[0]
        )
    project_gaussians_adam_(
        tuple(state.parameters),  # pyright: ignore[reportArgumentType]
        state.exp_avgs,
        state.exp_avg_sqs,
        camera.world_to_cam,
        camera.intrinsics,
        **{**VIEW, **more},
    )


def apart(
    state: State,
    camera: Camera,
    step: int,
    tile_counts: Tensor,
    g_splats: Tensor,
    g_values: Tensor,
    **more: Any,
) -> Tensor:
    """The backward, then Adam; returns the gradient of the cameras."""
    options = {**VIEW, "antialiased": False, "with_depth": False, "with_normals": False, **more}
    statistics, visible_only = options.pop("statistics", None), options.pop("visible_only", False)
    penalties = {name: options.pop(name, 0.0) for name in PENALTIES}
    *grads, g_world_to_cam = torch.ops.luxel.project_gaussians_bwd(
        *state.parameters,
        camera.world_to_cam,
        camera.intrinsics,
        statistics,
        *options.values(),
        tile_counts,
        g_splats,
        g_values,
        True,
        **penalties,
    )
    visible = (tile_counts > 0).any(0) if visible_only else None
    fused_adam_(state.parameters, grads, state.exp_avgs, state.exp_avg_sqs, RATES, step, visible=visible)
    return g_world_to_cam


def assert_moved_alike(found: State, wanted: State, start: State) -> None:
    """To rounding; on a GPU to 1e-4 of the distance moved, since two kernels may round a small gradient apart."""
    for a, b, before in zip(found.tensors(), wanted.tensors(), start.tensors(), strict=True):
        if a.is_cuda:
            assert (a - b).norm() <= 1e-4 * (b - before).norm() + 1e-7 * b.norm()
        else:
            tolerance = 1e-12 if a.dtype == torch.float64 else 1e-6
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("count", "cameras", "options"),
    [
        (75, 1, {}),
        (75, 1, {"visible_only": True}),
        (75, 1, PENALTIES),
        (64, 1, {"sh_degree": 1, "antialiased": True, "with_depth": True}),
        (75, 3, {"with_normals": True, "with_depth": True, **PENALTIES}),
        (75, 2, {"visible_only": True, "antialiased": True}),
        (300, 1, {"with_normals": True, "sh_degree": 2}),
        (1, 1, {}),
    ],
)
def test_equals_backward_then_adam(random_gaussians, toy_camera, precision, count, cameras, options):
    start, camera = scene(random_gaussians, toy_camera, precision, count, cameras)
    found, wanted = start.copy(), start.copy()
    statistics = [torch.zeros(count, 4, **precision) for _ in range(2)]
    for step in (5, 6, 7):
        drawing = {k: v for k, v in options.items() if k not in (*PENALTIES, "visible_only")}
        splats, values, tile_counts, _ = project(wanted, camera, **drawing)
        if count > 60:
            assert 0 < (tile_counts > 0).sum() < tile_counts.numel()
        given = {"tile_counts": tile_counts, **gradients_of(splats, values, step)}
        pose = torch.zeros_like(camera.world_to_cam)
        fused(found, camera, step, **given, **options, statistics=statistics[0], g_world_to_cam=pose)
        g_world_to_cam = apart(wanted, camera, step, **given, **options, statistics=statistics[1])
        torch.testing.assert_close(pose, g_world_to_cam, rtol=1e-4, atol=1e-4 * pose.abs().max().item())
        found_again = wanted.copy()  # so that the next step compares one step, not the drift of three
        assert_moved_alike(found, wanted, start)
        start, found = found_again.copy(), found_again
    torch.testing.assert_close(statistics[0], statistics[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_every_number_of_coefficients(random_gaussians, toy_camera, precision, degree):
    start, camera = scene(random_gaussians, toy_camera, precision, 70, degree=degree)
    found, wanted = start.copy(), start.copy()
    splats, values, tile_counts, _ = project(start, camera)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1)}
    fused(found, camera, 3, **given)
    apart(wanted, camera, 3, **given)
    assert_moved_alike(found, wanted, start)


def chain(state: State, camera: Camera, step: int, target: Tensor, penalties: dict[str, float]) -> None:
    """A training step without autograd."""
    splats, values, tile_counts, totals = project(state, camera)
    seen, capacity = totals.tolist()
    instances, ranges, _, plan = bin_splats(
        splats, tile_counts, totals, **SIZE, visible_capacity=seen, capacity=capacity
    )
    lists = (instances, ranges, plan)
    outputs = torch.ops.luxel.blend_gaussians(
        splats, values, None, *lists, *SIZE.values(), 0.984375, False, False, False, False, True
    )
    g_image = 2 * (outputs[0] - target)
    kept = (*outputs[:3], outputs[5], g_image, None)
    g_splats, g_values, _ = torch.ops.luxel.blend_gaussians_bwd(
        splats, values, None, *lists, *SIZE.values(), 0.984375, False, False, False, False, True, *kept
    )
    fused(state, camera, step, tile_counts=tile_counts, g_splats=g_splats, g_values=g_values, **penalties)


@pytest.mark.parametrize("witness_adam", ["fused_adam_", "torch.optim.Adam"])
def test_three_training_steps_equal_autograd(random_gaussians, toy_camera, precision, witness_adam):
    state, camera = scene(random_gaussians, toy_camera, precision)
    state = State(state.parameters)
    start = state.copy()
    target = torch.rand(1, SIZE["height"], SIZE["width"], 3, generator=torch.Generator().manual_seed(2))
    target = target.to(**precision)
    witness = State(state.parameters)
    leaves = [t.requires_grad_() for t in witness.parameters]
    optimiser = torch.optim.Adam(
        [{"params": [p], "lr": lr} for p, lr in zip(leaves, RATES, strict=True)], eps=1e-15
    )
    for step in (1, 2, 3):
        chain(state, camera, step, target, PENALTIES)
        splats, values, tile_counts, totals = project(witness, camera)
        seen, capacity = totals.tolist()
        instances, ranges, _, plan = bin_splats(
            splats.detach(), tile_counts, totals, **SIZE, visible_capacity=seen, capacity=capacity
        )
        image = blend_gaussians(splats, values, None, instances, ranges, plan, **SIZE, max_alpha=0.984375)[0]
        loss = (image - target).square().sum() + 0.125 * leaves[3].sigmoid().sum()
        (loss + 0.25 * leaves[2].exp().sum()).backward()
        if witness_adam == "torch.optim.Adam":
            optimiser.step()
        else:
            grads = [p.grad for p in leaves]
            moments = (witness.exp_avgs, witness.exp_avg_sqs)
            fused_adam_([p.detach() for p in leaves], grads, *moments, RATES, step)
        optimiser.zero_grad()
    for found, wanted, before in zip(state.parameters, leaves, start.parameters, strict=True):
        assert not torch.equal(found, before)
        if (
            found.is_cuda
        ):  # sums in any order, and Adam's step does not shrink with a gradient that is mostly rounding
            assert (found - wanted).norm() <= 1e-2 * (wanted - before).norm()
        else:
            tolerance = 1e-12 if found.dtype == torch.float64 else 2e-6
            torch.testing.assert_close(found, wanted.detach(), rtol=tolerance, atol=tolerance)


def test_unseen_rows_stay_where_asked(random_gaussians, toy_camera, precision):
    state, camera = scene(random_gaussians, toy_camera, precision, 300)
    before = state.copy()
    splats, values, tile_counts, _ = project(state, camera)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1)}
    fused(state, camera, 3, **given, visible_only=True, **PENALTIES)
    unseen = tile_counts[0] == 0
    assert unseen.any() and not unseen.all()
    for found, old in zip(state.tensors(), before.tensors(), strict=True):
        assert torch.equal(found[unseen], old[unseen]) and not torch.equal(found[~unseen], old[~unseen])


def test_skipped_steps_change_nothing(random_gaussians, toy_camera, precision):
    state, camera = scene(random_gaussians, toy_camera, precision)
    before = state.copy()
    splats, values, tile_counts, _ = project(state, camera)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1)}
    statistics, pose = torch.zeros(75, 4, **precision), torch.zeros_like(camera.world_to_cam)
    skip = torch.ones(1, dtype=torch.int32, device=precision["device"])
    fused(state, camera, 3, **given, skip=skip, statistics=statistics, g_world_to_cam=pose)
    assert all(torch.equal(a, b) for a, b in zip(state.tensors(), before.tensors(), strict=True))
    assert not statistics.any() and not pose.any()
    options = (*VIEW.values(), False, False, False)
    cameras = (camera.world_to_cam, camera.intrinsics)
    arguments = (*state.parameters, *cameras, statistics, *options, *given.values(), False)
    skipped = torch.ops.luxel.project_gaussians_bwd(*arguments, skip=skip)
    assert not statistics.any()
    plain = torch.ops.luxel.project_gaussians_bwd(*arguments, skip=torch.zeros_like(skip))
    assert statistics.any()
    assert all(torch.equal(a, b) for a, b in zip(skipped, plain, strict=True))


def test_coefficients_above_the_degree_can_be_left_alone(random_gaussians, toy_camera, precision):
    state, camera = scene(random_gaussians, toy_camera, precision)
    fresh = [State(state.parameters), State(state.parameters)]
    for step, degree in enumerate((0, 1, 1, 2, 3), start=1):  # a degree that only grows: nothing is lost
        splats, values, tile_counts, _ = project(fresh[0], camera, sh_degree=degree)
        given = {"tile_counts": tile_counts, **gradients_of(splats, values, step)}
        for one, active_sh_only in zip(fresh, (False, True), strict=True):
            fused(one, camera, step, **given, sh_degree=degree, active_sh_only=active_sh_only)
        assert all(torch.equal(a, b) for a, b in zip(fresh[0].tensors(), fresh[1].tensors(), strict=True))
    before = state.copy()
    splats, values, tile_counts, _ = project(state, camera, sh_degree=1)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1), "sh_degree": 1}
    fused(state, camera, 9, **given, active_sh_only=True)
    for i in (5, 11, 17):
        assert torch.equal(state.tensors()[i][:, 3:], before.tensors()[i][:, 3:])
        assert not torch.equal(state.tensors()[i][:, :3], before.tensors()[i][:, :3])


def test_addresses_that_are_not_aligned(random_gaussians, toy_camera, device):
    start, camera = scene(random_gaussians, toy_camera, {"dtype": torch.float32, "device": device})
    splats, values, tile_counts, _ = project(start, camera)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1)}
    shifted = start.copy()
    for part in vars(shifted).values():
        for i, t in enumerate(part):
            part[i] = torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape)
    assert torch.equal(project(shifted, camera)[2], tile_counts)
    for one in (start, shifted):
        fused(one, camera, 2, **given)
    for a, b in zip(shifted.tensors(), start.tensors(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_nothing_there(random_gaussians, toy_camera, device):
    precision = {"dtype": torch.float32, "device": device}
    state, camera = scene(random_gaussians, toy_camera, precision)
    none = State(list(Gaussians.empty().to(device).tensors().values()))
    splats, values, tile_counts, _ = project(none, camera)
    fused(none, camera, 1, tile_counts=tile_counts, **gradients_of(splats, values, 1))
    found, wanted = state.copy(), state.copy()
    fused(
        found,
        Camera(camera.world_to_cam[:0], camera.intrinsics[:0], **SIZE),
        2,
        tile_counts=torch.zeros(0, 75, dtype=torch.int32, device=device),
        g_splats=torch.zeros(0, 75, 8, device=device),
        g_values=torch.zeros(0, 75, 3, device=device),
    )
    zeros = [torch.zeros_like(t) for t in wanted.parameters]
    fused_adam_(wanted.parameters, zeros, wanted.exp_avgs, wanted.exp_avg_sqs, RATES, 2)
    assert_moved_alike(found, wanted, state)


def test_a_captured_step_follows_its_schedule(random_gaussians, toy_camera, device):
    if device.type != "cuda":
        pytest.skip("graphs are captured on a GPU only")
    start, camera = scene(random_gaussians, toy_camera, {"dtype": torch.float32, "device": device}, 300)
    splats, values, tile_counts, _ = project(start, camera)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1)}
    found, wanted = start.copy(), start.copy()
    schedule = torch.tensor(adam_schedule(RATES, 1), device=device)
    skip = torch.zeros(1, dtype=torch.int32, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fused(found, camera, 1, **given, schedule=schedule, skip=skip)
    for step in (1, 2, 3):
        schedule.copy_(torch.tensor(adam_schedule(RATES, step)))
        skip.fill_(int(step == 2))
        graph.replay()
        if step != 2:
            fused(wanted, camera, step, **given)
    assert all(torch.equal(a, b) for a, b in zip(found.tensors(), wanted.tensors(), strict=True))


def operation_arguments(state: State, camera: Camera) -> tuple[tuple[Any, ...], dict[str, Any]]:
    splats, values, tile_counts, _ = project(state, camera)
    given = gradients_of(splats, values, 1)
    schedule = torch.tensor(adam_schedule(RATES, 1), device=splats.device)
    cameras = (camera.world_to_cam, camera.intrinsics)
    statistics = torch.zeros(state.parameters[0].shape[0], 4, device=splats.device)
    options = (*VIEW.values(), False, False, False)
    last = (tile_counts, *given.values(), schedule, 0.9, 0.999, 1e-15)
    return (*state.tensors(), *cameras, statistics, *options, *last), {
        "g_world_to_cam": torch.zeros_like(camera.world_to_cam)
    }


def test_opcheck_and_fake_tensors(random_gaussians, toy_camera, device):
    state, camera = scene(random_gaussians, toy_camera, {"dtype": torch.float32, "device": device})
    arguments, named = operation_arguments(state, camera)
    torch.library.opcheck(torch.ops.luxel.project_gaussians_adam_.default, arguments, named)
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(a) if isinstance(a, Tensor) else a for a in arguments]
        torch.ops.luxel.project_gaussians_adam_(*fake)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"exp_avgs": [torch.zeros(75, 2)] * 6},
            r"exp_avgs\[0\] must be \[75, 3\] torch.float32 on cpu, got \[75, 2\]",
        ),
        ({"schedule": torch.zeros(7)}, r"schedule must be \[8\]"),
        ({"schedule": torch.zeros(8).double()}, "schedule must be .* torch.float32"),
        ({"tile_counts": torch.zeros(2, 75, dtype=torch.int32)}, r"tile_counts must be \[1, 75\]"),
        ({"g_values": torch.zeros(1, 75, 4)}, r"g_values must be \[1, 75, 3\]"),
        ({"g_splats": torch.zeros(1, 75, 7)}, r"g_splats must be \[1, 75, 8\]"),
        ({"skip": torch.zeros(1)}, "skip must be .* torch.int32"),
        ({"statistics": torch.zeros(4, 75).mT}, "statistics is changed in place and must be contiguous"),
        ({"g_world_to_cam": torch.zeros(4, 4)}, r"g_world_to_cam must be \[1, 4, 4\]"),
    ],
)
def test_bad_arguments_are_named(random_gaussians, toy_camera, change, message):
    state, camera = scene(
        random_gaussians, toy_camera, {"dtype": torch.float32, "device": torch.device("cpu")}
    )
    splats, values, tile_counts, _ = project(state, camera)
    arguments = {
        "exp_avgs": state.exp_avgs,
        "exp_avg_sqs": state.exp_avg_sqs,
        "tile_counts": tile_counts,
        **gradients_of(splats, values, 1),
        "schedule": torch.tensor(adam_schedule(RATES, 1)),
        **VIEW,
        **change,
    }
    moments = (arguments.pop("exp_avgs"), arguments.pop("exp_avg_sqs"))
    cameras = (camera.world_to_cam, camera.intrinsics)
    with pytest.raises(ValueError, match=message):
        project_gaussians_adam_(tuple(state.parameters), *moments, *cameras, **arguments)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("lrs", "step"), [((0.1,) * 5, 1), ((0.1,) * 6, 0)])
def test_bad_schedules_are_named(lrs, step):
    with pytest.raises(ValueError, match="6 learning rates and a step of at least 1"):
        adam_schedule(lrs, step)
