"""Adam fused into the projection's backward: what it leaves as it was, and inputs of unusual shape and place."""

from __future__ import annotations

import pytest
import torch
from fused_step import (
    PENALTIES,
    RATES,
    SIZE,
    VIEW,
    State,
    assert_moved_alike,
    fused,
    gradients_of,
    project,
    scene,
)

from luxel.render.camera import Camera
from luxel.render.ops.adam import adam_schedule, fused_adam_
from luxel.render.primitives.gaussians import Gaussians


def test_coefficients_stay_where_asked(random_gaussians, toy_camera, precision):
    start, camera = scene(random_gaussians, toy_camera, precision, 200)
    found, wanted = start.copy(), start.copy()
    splats, values, tile_counts, _ = project(start, camera)
    given = {"tile_counts": tile_counts, **gradients_of(splats, values, 1), **PENALTIES}
    fused(found, camera, 3, **given, keep_sh_rest=True)
    fused(wanted, camera, 3, **given)
    for part in zip(*(vars(state).values() for state in (found, wanted, start)), strict=True):
        for i, (a, b, before) in enumerate(zip(*part, strict=True)):
            assert torch.equal(a, before if i == 5 else b)
    assert not torch.equal(wanted.parameters[5], start.parameters[5])


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
