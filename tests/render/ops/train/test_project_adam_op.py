"""Adam fused into the projection's backward as an operation of torch: its registration, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fused_step import NAMES, VIEW, State, extras_of, projected, scene
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from luxel.render.ops.train.adam import adam_schedule
from luxel.render.ops.train.project_adam import adam_step, project_adam_


def operation_arguments(state: State, cameras: list[Tensor]) -> tuple[Any, ...]:
    given = projected(state, cameras)
    first = state.parameters[0]
    schedule = torch.tensor(adam_schedule(state.rates, 1), device=first.device)
    statistics = torch.zeros(first.shape[0], 4, device=first.device)
    penalties = (0.0,) * len(state.projection.penalties)
    last = (schedule, 0.9, 0.999, 1e-15, False, False, False, False, None, None, torch.zeros_like(cameras[0]))
    options = (*state.options({}).values(), *penalties, *given.values())
    return (*state.parts, extras_of(state, 1, "sh_rest"), *cameras, statistics, *options, *last)


@pytest.mark.parametrize("primitive", NAMES)
def test_opcheck_and_fake_tensors(primitive, random_gaussians, toy_camera, device):
    precision = {"dtype": torch.float32, "device": device}
    state, cameras = scene(primitive, random_gaussians, toy_camera, precision)
    arguments = operation_arguments(state, cameras)
    operation = getattr(torch.ops.luxel, adam_step(primitive).name)
    torch.library.opcheck(operation.default, arguments)
    with FakeTensorMode() as mode:

        def fake(a: Any) -> Any:
            if isinstance(a, list):
                return [fake(one) for one in a]
            return mode.from_tensor(a) if isinstance(a, Tensor) else a

        operation(*map(fake, arguments))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"exp_avgs": [torch.zeros(75, 2)] * 6},
            r"exp_avgs\[0\] must be \[75, 3\] torch.float32 on cpu, got \[75, 2\]",
        ),
        ({"exp_avgs": [torch.zeros(75, 3)] * 5}, "exp_avgs must be 6 tensors, got 5"),
        ({"extras": [None] * 4 + [torch.zeros(75)] + [None]}, r"extras\[4\] must be \[75, 3\]"),
        ({"schedule": torch.zeros(7)}, r"schedule must be \[8\]"),
        ({"schedule": torch.zeros(8).double()}, "schedule must be .* torch.float32"),
        ({"tile_counts": torch.zeros(2, 75, dtype=torch.int32)}, r"tile_counts must be \[1, 75\]"),
        ({"g_values": torch.zeros(1, 75, 4)}, r"g_values must be \[1, 75, 3\]"),
        ({"g_splats": torch.zeros(1, 75, 7)}, r"g_splats must be \[1, 75, 8\]"),
        ({"skip": torch.zeros(1)}, "skip must be .* torch.int32"),
        ({"statistics": torch.zeros(4, 75).mT}, "statistics is changed in place and must be contiguous"),
        ({"g_world_to_cam": torch.zeros(4, 4)}, r"g_world_to_cam must be \[1, 4, 4\]"),
        ({"mask_penalty": 1.0}, "missing or unknown: mask_penalty"),
    ],
)
def test_bad_arguments_are_named(random_gaussians, toy_camera, change, message):
    precision = {"dtype": torch.float32, "device": torch.device("cpu")}
    state, cameras = scene("gaussians", random_gaussians, toy_camera, precision)
    arguments = {
        "exp_avgs": state.exp_avgs,
        "exp_avg_sqs": state.exp_avg_sqs,
        **projected(state, cameras),
        "schedule": torch.tensor(adam_schedule(state.rates, 1)),
        **VIEW,
        **change,
    }
    with pytest.raises((ValueError, TypeError), match=message):
        project_adam_("gaussians", state.parameters, cameras=cameras, **arguments)
