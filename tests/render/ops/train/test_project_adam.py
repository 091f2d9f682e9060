"""Adam fused into the projection's backward, against the backward followed by Adam, and against torch.optim.Adam."""

from __future__ import annotations

import pytest
import torch
from fused_step import (
    NAMES,
    PENALTIES,
    SIZE,
    SWITCHES,
    State,
    apart,
    assert_moved_alike,
    extras_of,
    fused,
    project,
    projected,
    scene,
)
from torch import Tensor

from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.blend_splats import blend_splats
from luxel.render.ops.train.adam import fused_adam_


@pytest.mark.parametrize(
    ("count", "cameras", "options"),
    [
        (75, 1, {}),
        (75, 1, {"visible_only": True}),
        (75, 1, {"penalties": True}),
        (75, 1, {"penalties": True, "extras": ("sh_rest", "sh_dc")}),
        (64, 1, {"extras": ()}),
        (75, 1, {"visible_only": True, "extras": ("means", "points")}),
        (64, 1, {"sh_degree": 1, "antialiased": True, "with_depth": True}),
        (75, 3, {"with_normals": True, "with_depth": True, "penalties": True}),
        (75, 2, {"visible_only": True, "antialiased": True}),
        (96, 3, {"extras": ("means", "log_delta")}),
        (300, 1, {"with_normals": True, "sh_degree": 2}),
        (1, 1, {}),
    ],
)
@pytest.mark.parametrize("primitive", NAMES)
def test_equals_backward_then_adam(
    primitive, random_gaussians, toy_camera, precision, count, cameras, options
):
    start, views = scene(primitive, random_gaussians, toy_camera, precision, count, cameras)
    actual, expected = start.copy(), start.copy()
    statistics = [torch.zeros(count, 4, **precision) for _ in range(2)]
    options = dict(options)
    but, penalties = options.pop("extras", None), options.pop("penalties", False)
    if penalties:
        options |= PENALTIES[primitive]
    drawing = {k: v for k, v in options.items() if k not in (*PENALTIES[primitive], *SWITCHES)}
    for step in (5, 6, 7):
        given = projected(expected, views, step, **drawing)
        if count > 60:
            assert 0 < (given["tile_counts"] > 0).sum() < given["tile_counts"].numel()
        if but is not None:
            options["extras"] = extras_of(expected, step, *but)
        pose = torch.zeros_like(views[0])
        fused(actual, views, step, **given, **options, statistics=statistics[0], g_world_to_cam=pose)
        g_world_to_cam = apart(expected, views, step, **given, **options, statistics=statistics[1])
        torch.testing.assert_close(pose, g_world_to_cam, rtol=1e-4, atol=1e-4 * pose.abs().max().item())
        found_again = expected.copy()  # so that the next step compares one step, not the drift of three
        assert_moved_alike(actual, expected, start)
        start, actual = found_again.copy(), found_again
    torch.testing.assert_close(statistics[0], statistics[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("extras", [False, True])
@pytest.mark.parametrize("primitive", NAMES)
def test_a_camera_alone_and_without_its_pose(primitive, random_gaussians, toy_camera, precision, extras):
    """As a trainer calls it: what is brought to shared memory turns into gradients where it lies."""
    start, views = scene(primitive, random_gaussians, toy_camera, precision, 200)
    for degree in (3, 0):
        for kept in (0, 60):  # with warps that see nothing
            given = projected(start, views, 2, sh_degree=degree)
            given["tile_counts"][:, 64 : 64 + kept] = 0
            more = {"extras": extras_of(start, 3, "sh_rest")} if extras else {}
            actual, expected = start.copy(), start.copy()
            fused(actual, views, 3, **given, **more, sh_degree=degree, **PENALTIES[primitive])
            apart(expected, views, 3, **given, **more, sh_degree=degree, **PENALTIES[primitive])
            assert_moved_alike(actual, expected, start)


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("primitive", NAMES)
def test_every_number_of_coefficients(primitive, random_gaussians, toy_camera, precision, degree):
    start, views = scene(primitive, random_gaussians, toy_camera, precision, 70, degree=degree)
    actual, expected = start.copy(), start.copy()
    given = projected(start, views)
    fused(actual, views, 3, **given)
    apart(expected, views, 3, **given)
    assert_moved_alike(actual, expected, start)


@pytest.mark.parametrize("primitive", [name for name in NAMES if PENALTIES[name]])
def test_penalties_have_a_factor_on_the_device(primitive, random_gaussians, toy_camera, precision):
    start, views = scene(primitive, random_gaussians, toy_camera, precision, 200)
    actual, expected = start.copy(), start.copy()
    given, penalties = projected(start, views), PENALTIES[primitive]
    fused(actual, views, 3, **given, **penalties, penalty_factor=torch.tensor([0.0625]).to(**precision))
    apart(expected, views, 3, **given, **{name: 0.0625 * weight for name, weight in penalties.items()})
    assert_moved_alike(actual, expected, start)


def test_masks_of_spare_rows_are_not_punished(random_gaussians, toy_camera, precision):
    start, views = scene("convexes", random_gaussians, toy_camera, precision, 100)
    start = start.fresh()
    start.parameters[3][50:] = -torch.inf
    actual, given = start.copy(), projected(start, views)
    assert not given["tile_counts"][:, 50:].any()
    given["g_splats"] *= 0
    fused(actual, views, 1, **given, mask_penalty=0.25)
    mask = start.parameters[6].sigmoid()
    torch.testing.assert_close(
        actual.exp_avgs[6][:50], 0.1 * 0.25 * (mask * (1 - mask))[:50], rtol=1e-5, atol=0
    )
    assert not actual.exp_avgs[6][50:].any() and torch.equal(
        actual.parameters[6][50:], start.parameters[6][50:]
    )


@pytest.mark.parametrize("primitive", NAMES)
def test_of_several_views_the_largest_statistics_count(primitive, random_gaussians, toy_camera, precision):
    start, views = scene(primitive, random_gaussians, toy_camera, precision, 90, cameras=3)
    given = projected(start, views)
    actual = torch.rand(90, 4, generator=torch.Generator().manual_seed(4)).to(**precision)
    expected, parts = actual.clone(), []
    for k in range(3):
        parts.append(torch.zeros_like(actual))
        one = {name: tensor[k : k + 1] for name, tensor in given.items()}
        apart(start.copy(), [view[k : k + 1] for view in views], 1, **one, statistics=parts[-1])
    most = torch.stack(parts).amax(0)
    expected[:, :3] += most[:, :3]
    expected[:, 3] = torch.maximum(expected[:, 3], most[:, 3])
    fused(start.copy(), views, 1, **given, statistics=actual, largest_of_views=True)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def chain(state: State, views: list[Tensor], step: int, target: Tensor, penalties: dict[str, float]) -> None:
    """A training step without autograd."""
    splats, values, tile_counts, totals = project(state, views)
    seen, capacity = totals.tolist()
    instances, ranges, _, plan = bin_splats(
        splats, tile_counts, totals, **SIZE, visible_capacity=seen, capacity=capacity
    )
    lists = (instances, ranges, plan)
    outputs = torch.ops.luxel.blend(
        splats, values, None, *lists, *SIZE.values(), 0.984375, *(False,) * 4, True, 0, "gaussians"
    )
    g_image = 2 * (outputs[0] - target)
    kept = (*outputs[:3], outputs[5], g_image, None)
    g_splats, g_values, _ = torch.ops.luxel.blend_bwd(
        splats, values, None, *lists, *SIZE.values(), 0.984375, *(False,) * 4, True, 0, "gaussians", *kept
    )
    fused(state, views, step, tile_counts=tile_counts, g_splats=g_splats, g_values=g_values, **penalties)


@pytest.mark.parametrize("witness_adam", ["fused_adam_", "torch.optim.Adam"])
def test_three_training_steps_equal_autograd(random_gaussians, toy_camera, precision, witness_adam):
    state, views = scene("gaussians", random_gaussians, toy_camera, precision)
    state = state.fresh()
    start = state.copy()
    target = torch.rand(1, SIZE["height"], SIZE["width"], 3, generator=torch.Generator().manual_seed(2))
    target = target.to(**precision)
    witness = state.fresh()
    leaves = [t.requires_grad_() for t in witness.parameters]
    optimiser = torch.optim.Adam(
        [{"params": [p], "lr": lr} for p, lr in zip(leaves, state.rates, strict=True)], eps=1e-15
    )
    for step in (1, 2, 3):
        chain(state, views, step, target, PENALTIES["gaussians"])
        splats, values, tile_counts, totals = project(witness, views)
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
            fused_adam_([p.detach() for p in leaves], grads, *moments, state.rates, step)
        optimiser.zero_grad()
    for actual, expected, before in zip(state.parameters, leaves, start.parameters, strict=True):
        assert not torch.equal(actual, before)
        if (
            actual.is_cuda
        ):  # sums in any order, and Adam's step does not shrink with a gradient that is mostly rounding
            assert (actual - expected).norm() <= 1e-2 * (expected - before).norm()
        else:
            tolerance = 1e-12 if actual.dtype == torch.float64 else 2e-6
            torch.testing.assert_close(actual, expected.detach(), rtol=tolerance, atol=tolerance)
