"""Adam fused into the projection's backward: what it leaves as it was, and inputs of unusual shape and place."""

from __future__ import annotations

import pytest
import torch
from fused_step import (
    NAMES,
    PENALTIES,
    assert_moved_alike,
    extras_of,
    fused,
    project,
    projected,
    scene,
)

from luxel.render.ops.train.adam import adam_schedule, fused_adam_

pytestmark = pytest.mark.parametrize("primitive", NAMES)


def test_coefficients_stay_where_asked(primitive, random_gaussians, toy_camera, precision):
    start, views = scene(primitive, random_gaussians, toy_camera, precision, 200)
    actual, expected = start.copy(), start.copy()
    given = {**projected(start, views), **PENALTIES[primitive]}
    fused(actual, views, 3, **given, keep_sh_rest=True)
    fused(expected, views, 3, **given)
    for part in zip(*(state.parts for state in (actual, expected, start)), strict=True):
        for i, (a, b, before) in enumerate(zip(*part, strict=True)):
            assert torch.equal(a, before if i == start.rest else b)
    assert not torch.equal(expected.parameters[start.rest], start.parameters[start.rest])


def test_unseen_rows_stay_where_asked(primitive, random_gaussians, toy_camera, precision):
    state, views = scene(primitive, random_gaussians, toy_camera, precision, 300)
    before = state.copy()
    given = projected(state, views)
    fused(state, views, 3, **given, visible_only=True, **PENALTIES[primitive])
    unseen = given["tile_counts"][0] == 0
    assert unseen.any() and not unseen.all()
    for actual, old in zip(state.tensors(), before.tensors(), strict=True):
        assert torch.equal(actual[unseen], old[unseen]) and not torch.equal(actual[~unseen], old[~unseen])


def test_skipped_steps_change_nothing(primitive, random_gaussians, toy_camera, precision):
    state, views = scene(primitive, random_gaussians, toy_camera, precision)
    before = state.copy()
    given = projected(state, views)
    statistics, pose = torch.zeros(75, 4, **precision), torch.zeros_like(views[0])
    skip = torch.ones(1, dtype=torch.int32, device=precision["device"])
    fused(state, views, 3, **given, skip=skip, statistics=statistics, g_world_to_cam=pose)
    assert all(torch.equal(a, b) for a, b in zip(state.tensors(), before.tensors(), strict=True))
    assert not statistics.any() and not pose.any()
    expected = (False,) * len(state.projection.moving)
    arguments = (
        *state.parameters,
        *views,
        statistics,
        *state.options({}).values(),
        *given.values(),
        *expected,
    )
    backward = getattr(torch.ops.luxel, f"{state.projection.stage}_bwd")
    skipped = backward(*arguments, skip=skip)[: len(state.parameters)]
    assert not statistics.any()
    plain = backward(*arguments, skip=torch.zeros_like(skip))[: len(state.parameters)]
    assert statistics.any()
    assert all(torch.equal(a, b) for a, b in zip(skipped, plain, strict=True))


def test_coefficients_above_the_degree_can_be_left_alone(primitive, random_gaussians, toy_camera, precision):
    state, views = scene(primitive, random_gaussians, toy_camera, precision)
    fresh = [state.fresh(), state.fresh()]
    for step, degree in enumerate((0, 1, 1, 2, 3), start=1):  # a degree that only grows: nothing is lost
        given = projected(fresh[0], views, step, sh_degree=degree)
        for one, active_sh_only in zip(fresh, (False, True), strict=True):
            fused(one, views, step, **given, sh_degree=degree, active_sh_only=active_sh_only)
        assert all(torch.equal(a, b) for a, b in zip(fresh[0].tensors(), fresh[1].tensors(), strict=True))
    before = state.copy()
    given = {**projected(state, views, sh_degree=1), "sh_degree": 1}
    fused(state, views, 9, **given, active_sh_only=True)
    for part, old in zip(state.parts, before.parts, strict=True):
        actual, kept = part[state.rest], old[state.rest]
        assert torch.equal(actual[:, 3:], kept[:, 3:]) and not torch.equal(actual[:, :3], kept[:, :3])


def test_addresses_that_are_not_aligned(primitive, random_gaussians, toy_camera, device):
    start, views = scene(primitive, random_gaussians, toy_camera, {"dtype": torch.float32, "device": device})
    given = {**projected(start, views), "extras": extras_of(start, 2, "sh_dc")}
    shifted = start.copy()
    for part in shifted.parts:
        for i, t in enumerate(part):
            part[i] = torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape)
    assert torch.equal(project(shifted, views)[2], given["tile_counts"])
    for one in (start, shifted):
        fused(one, views, 2, **given)
    for a, b in zip(shifted.tensors(), start.tensors(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_nothing_there(primitive, random_gaussians, toy_camera, device):
    precision = {"dtype": torch.float32, "device": device}
    state, views = scene(primitive, random_gaussians, toy_camera, precision)
    none = state.copy()
    for part in none.parts:
        part[:] = [t[:0].clone() for t in part]
    fused(none, views, 1, **projected(none, views))
    actual, expected, row = state.copy(), state.copy(), state.projection.row
    given = {
        "tile_counts": torch.zeros(0, 75, dtype=torch.int32, device=device),
        "g_splats": torch.zeros(0, 75, row, device=device),
        "g_values": torch.zeros(0, 75, 3, device=device),
    }
    fused(actual, [view[:0] for view in views], 2, **given)
    parameters, *moments = expected.parts
    zeros = [torch.zeros_like(t) for t in parameters]
    fused_adam_(parameters, zeros, *moments, expected.rates, 2)
    assert_moved_alike(actual, expected, state)


def test_a_captured_step_follows_its_schedule(primitive, random_gaussians, toy_camera, device):
    if device.type != "cuda":
        pytest.skip("graphs are captured on a GPU only")
    start, views = scene(
        primitive, random_gaussians, toy_camera, {"dtype": torch.float32, "device": device}, 300
    )
    given = {**projected(start, views), "extras": extras_of(start, 2, "sh_rest")}
    actual, expected = start.copy(), start.copy()
    schedule = torch.tensor(adam_schedule(start.rates, 1), device=device)
    skip = torch.zeros(1, dtype=torch.int32, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fused(actual, views, 1, **given, schedule=schedule, skip=skip)
    for step in (1, 2, 3):
        schedule.copy_(torch.tensor(adam_schedule(start.rates, step)))
        skip.fill_(int(step == 2))
        graph.replay()
        if step != 2:
            fused(expected, views, step, **given)
    assert all(torch.equal(a, b) for a, b in zip(actual.tensors(), expected.tensors(), strict=True))
