"""Adam fused into the projection's backward, against the backward followed by Adam, and against torch.optim.Adam."""

from __future__ import annotations

import pytest
import torch
from fused_step import (
    PENALTIES,
    RATES,
    SIZE,
    State,
    apart,
    assert_moved_alike,
    fused,
    gradients_of,
    project,
    scene,
)
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.ops.adam import fused_adam_
from luxel.render.ops.bin_splats import bin_splats
from luxel.render.ops.blend_splats import blend_splats


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


def test_penalties_have_a_factor_on_the_device(random_gaussians, toy_camera, precision):
    start, camera = scene(random_gaussians, toy_camera, precision, 200)
    found, wanted = start.copy(), start.copy()
    splats, values, tile_counts, _ = project(start, camera)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1)}
    fused(found, camera, 3, **given, **PENALTIES, penalty_factor=torch.tensor([0.0625]).to(**precision))
    apart(wanted, camera, 3, **given, **{name: 0.0625 * weight for name, weight in PENALTIES.items()})
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
        image = blend_splats(splats, values, None, instances, ranges, plan, **SIZE, max_alpha=0.984375)[0]
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
