"""Fused Adam against torch.optim.Adam and against plain torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from luxel.render.ops.train.adam import adam_schedule, fused_adam_, scheduled_adam_
from luxel.render.reference.train.adam import adam_

SHAPES = ((501, 3), (501, 4), (501,), (501, 15, 3), (501, 1))
RATES = (1e-3, 5e-3, 2e-2, 1e-4, 0.0)


def start(dtype: torch.dtype, device: torch.device | str, seed: int = 0) -> dict[str, list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    params = [torch.randn(shape, generator=generator).to(device, dtype) for shape in SHAPES]
    return {
        "params": params,
        "exp_avgs": [torch.zeros_like(p) for p in params],
        "exp_avg_sqs": [torch.zeros_like(p) for p in params],
    }


def gradients(step: int, dtype: torch.dtype, device: torch.device | str) -> list[Tensor]:
    """Between 1e-6 and 1, a few exactly 0, as training gives them."""
    generator = torch.Generator().manual_seed(100 + step)
    out = []
    for shape in SHAPES:
        g = torch.randn(shape, generator=generator) * 10 ** (-6 * torch.rand(shape, generator=generator))
        out.append((g * (torch.rand(shape, generator=generator) > 0.1)).to(device, dtype))
    return out


@pytest.mark.parametrize("eps", [1e-15, 1e-8])
def test_equals_torch_adam_over_20_steps(precision: dict[str, Any], eps: float) -> None:
    state = start(**precision)
    witness = [p.detach().clone().double().cpu().requires_grad_() for p in state["params"]]
    optimiser = torch.optim.Adam(
        [{"params": [p], "lr": lr} for p, lr in zip(witness, RATES, strict=True)],
        betas=(0.9, 0.999),
        eps=eps,
    )
    for step in range(1, 21):
        grads = gradients(step, **precision)
        for p, g in zip(witness, grads, strict=True):
            p.grad = g.cpu().double()
        optimiser.step()
        fused_adam_(grads=grads, lrs=RATES, step=step, eps=eps, **state)
    tolerance = 1e-12 if precision["dtype"] == torch.float64 else 1e-6
    for actual, expected in zip(state["params"], witness, strict=True):
        torch.testing.assert_close(
            actual.cpu().double(), expected.detach(), rtol=tolerance, atol=tolerance, check_dtype=False
        )


@pytest.mark.parametrize("masked", [False, True])
def test_a_schedule_on_the_device_moves_as_the_host_does(precision: dict[str, Any], masked: bool) -> None:
    state, other = start(**precision), start(**precision)
    rate_indices = (4, 0, 3, 1, 2)  # of the groups' rates, which are in another order in the schedule
    rates = [RATES[rate_indices.index(k)] for k in range(5)]
    visible = torch.arange(501).remainder(3).ne(0).to(precision["device"]) if masked else None
    skip = torch.zeros(1, dtype=torch.int32, device=precision["device"])
    for step in range(1, 6):
        grads = gradients(step, **precision)
        fused_adam_(grads=grads, lrs=RATES, step=step, visible=visible, **state)
        schedule = torch.tensor(adam_schedule(rates, step), dtype=torch.float64).to(**precision)
        scheduled_adam_(
            grads=grads, rate_indices=rate_indices, schedule=schedule, visible=visible, skip=skip, **other
        )
    tolerance = 1e-12 if precision["dtype"] == torch.float64 else 1e-6
    for part, tensors in state.items():
        for actual, expected in zip(other[part], tensors, strict=True):
            torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    before = [t.clone() for part in other.values() for t in part]
    skip.fill_(1)
    scheduled_adam_(
        grads=grads, rate_indices=rate_indices, schedule=schedule, visible=visible, skip=skip, **other
    )
    assert all(torch.equal(a, b) for a, b in zip(before, (t for p in other.values() for t in p), strict=True))


def test_schedules_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="adam_schedule: step must be at least 1, got"):
        adam_schedule([0.1], 0)
    halves = [[torch.zeros(2, 3, dtype=torch.float16)] for _ in range(4)]
    with pytest.raises(
        ValueError, match=r"params must be float32, or float64 on the CPU, got torch.float16 on cpu"
    ):
        fused_adam_(*halves, [0.1], 1)
    tensors = [[torch.zeros(2, 3)] for _ in range(4)]
    with pytest.raises(ValueError, match="rate_indices must be 0 to"):
        scheduled_adam_(*tensors, [1], torch.zeros(3))
    with pytest.raises(ValueError, match="schedule must be"):
        scheduled_adam_(*tensors, [0], torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("mask_type", [torch.bool, torch.uint8])
def test_unseen_primitives_stay(precision: dict[str, Any], mask_type: torch.dtype) -> None:
    state, witness = start(**precision), start(torch.float64, "cpu")
    for step in range(1, 6):
        visible = (torch.rand(501, generator=torch.Generator().manual_seed(step)) > 0.6).to(mask_type)
        before = [t.clone() for part in state.values() for t in part]
        grads = gradients(step, **precision)
        fused_adam_(grads=grads, lrs=RATES, step=step, visible=visible.to(precision["device"]), **state)
        adam_(grads=[g.cpu().double() for g in grads], lrs=RATES, step=step, visible=visible, **witness)
        hidden = (visible == 0).to(precision["device"])
        after = [t for part in state.values() for t in part]
        assert all(torch.equal(a[hidden], b[hidden]) for a, b in zip(after, before, strict=True))
    for part, tensors in state.items():
        for actual, expected in zip(tensors, witness[part], strict=True):
            torch.testing.assert_close(
                actual.cpu().double(), expected, rtol=2e-5, atol=1e-6, msg=lambda m, part=part: f"{part}: {m}"
            )


def test_addresses_that_are_not_aligned(device: torch.device) -> None:
    flat = [torch.randn(402, generator=torch.Generator().manual_seed(i)).to(device) for i in range(2)]
    shifted = [t[1:401].reshape(100, 4) for t in flat]
    aligned = [t.clone() for t in shifted]
    zeros = [torch.zeros(100, 4, device=device) for _ in range(4)]
    fused_adam_([shifted[0]], [shifted[1]], zeros[:1], zeros[1:2], [0.1], 1)
    fused_adam_([aligned[0]], [aligned[1]], zeros[2:3], zeros[3:], [0.1], 1)
    assert torch.equal(shifted[0], aligned[0]) and torch.equal(zeros[0], zeros[2])


def test_more_groups_than_one_launch_takes(device: torch.device) -> None:
    params = [torch.ones(5 + i, 2, device=device) for i in range(37)]
    moments = [[torch.zeros_like(p) for p in params] for _ in range(2)]
    fused_adam_(params, [torch.ones_like(p) for p in params], *moments, [0.01 * i for i in range(37)], 1)
    for i, p in enumerate(params):  # the first step moves by the learning rate
        torch.testing.assert_close(p, torch.full_like(p, 1 - 0.01 * i), rtol=0, atol=1e-6)


def test_nothing_to_do(device: torch.device) -> None:
    fused_adam_([], [], [], [], [], 1)
    empty = torch.zeros(0, 3, device=device)
    other = torch.ones(4, device=device)
    moments = [torch.zeros_like(other) for _ in range(2)]
    fused_adam_([empty, other], [empty, other], [empty, moments[0]], [empty, moments[1]], [1.0, 0.5], 1)
    torch.testing.assert_close(other, torch.full_like(other, 0.5))


def test_a_leaf_that_requires_a_gradient(device: torch.device) -> None:
    p = torch.ones(6, 2, device=device, requires_grad=True)
    p.square().sum().backward()
    assert p.grad is not None
    fused_adam_([p], [p.grad], [torch.zeros_like(p)], [torch.zeros_like(p)], [0.25], 1)
    torch.testing.assert_close(p.detach(), torch.full((6, 2), 0.75, device=device))


def test_strided_gradients(device: torch.device) -> None:
    p, g = torch.zeros(3, 5, device=device), torch.rand(5, 3, device=device).mT
    mean = torch.zeros_like(p)
    fused_adam_([p], [g], [mean], [torch.zeros_like(p)], [0.1], 1)
    torch.testing.assert_close(mean, 0.1 * g)


def test_opcheck_and_fake_tensors(device: torch.device) -> None:
    state = start(torch.float32, device)
    grads = gradients(1, torch.float32, device)
    arguments = (state["params"], grads, state["exp_avgs"], state["exp_avg_sqs"], list(RATES))
    torch.library.opcheck(torch.ops.luxel.adam_.default, (*arguments, 1, 0.9, 0.999, 1e-15, None))
    schedule = torch.tensor(adam_schedule(RATES, 1), device=device)
    options = (list(range(len(RATES))), schedule, 0.9, 0.999, 1e-15, None, None)
    torch.library.opcheck(torch.ops.luxel.scheduled_adam_.default, (*arguments[:4], *options))
    with FakeTensorMode():
        p = torch.empty(4, 3)
        fused_adam_([p], [p.clone()], [p.clone()], [p.clone()], [1e-3], 1)
        scheduled_adam_([p], [p.clone()], [p.clone()], [p.clone()], [0], torch.empty(3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grads": [torch.zeros(4, 2)]}, r"grads\[0\] must be \[4, 3\] like params\[0\], got \[4, 2\]"),
        ({"exp_avgs": [torch.zeros(4, 3).double()]}, r"exp_avgs\[0\] must be torch.float32"),
        ({"exp_avg_sqs": [torch.zeros(3, 4).mT]}, r"exp_avg_sqs\[0\] .* must be contiguous"),
        ({"lrs": [0.1, 0.2]}, "differ in length"),
        ({"step": 0}, "step must be at least 1"),
        ({"visible": torch.ones(5, dtype=torch.bool)}, r"visible must be \[N\] = \[4\]"),
        ({"visible": torch.ones(4)}, "visible must be bool or uint8"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        **{name: [torch.zeros(4, 3)] for name in ("params", "grads", "exp_avgs", "exp_avg_sqs")},
        "lrs": [0.1],
        "step": 1,
        **change,
    }
    with pytest.raises(ValueError, match=message):
        fused_adam_(**arguments)
