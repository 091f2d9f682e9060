"""Adam fused into the projection's backward as an operation of torch: its registration, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fused_step import RATES, VIEW, State, gradients_of, project, scene
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from luxel.render.camera import Camera
from luxel.render.ops.adam import adam_schedule
from luxel.render.ops.project_gaussians_adam import project_gaussians_adam_


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
