"""The losses of 4D Gaussians: values by hand, gradients by finite differences."""

from __future__ import annotations

import math

import pytest
import torch

from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.train.regularisers4d import consistency, entropy, velocities

D = torch.float64


def moving(n: int, seed: int = 0) -> Gaussians4d:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"means": (3,), "times": (), "log_scales": (3,), "log_scale_t": (), "rotors": (8,)}
    shapes |= {"opacity_logits": (), "sh_dc": (3,), "sh_rest": (0, 3)}
    return Gaussians4d(
        **{name: torch.randn(n, *shape, generator=generator, dtype=D) for name, shape in shapes.items()}
    )


def test_entropy_by_hand():
    o = torch.tensor([0.5, 0.1, 0.9, 0.2, 1.0, 1e-9], dtype=D)
    visible = torch.tensor([True, True, False, False, False, False])

    def each(p: float) -> float:
        return -p * math.log(p)

    seen = (each(0.5) + each(0.1)) / 2
    others = (each(0.9) + each(0.2) + each(0.999) + each(0.001)) / 4
    torch.testing.assert_close(entropy(o, visible).item(), seen + 0.01 * others, rtol=1e-12, atol=0)
    torch.testing.assert_close(entropy(o, visible, 0.5).item(), seen + 0.5 * others, rtol=1e-12, atol=0)
    everything = torch.ones(6, dtype=torch.bool)
    torch.testing.assert_close(entropy(o, everything).item(), (2 * seen + 4 * others) / 6, rtol=1e-12, atol=0)
    torch.testing.assert_close(entropy(o, ~everything).item(), (2 * seen + 4 * others) * 0.01 / 6)
    assert entropy(o[:0], visible[:0]) == 0


def test_entropy_gradients():
    o = torch.rand(20, generator=torch.Generator().manual_seed(1), dtype=D).mul(0.9).add(0.05)
    visible = torch.arange(20) % 3 != 0
    assert torch.autograd.gradcheck(lambda x: entropy(x, visible), o.requires_grad_())
    held = torch.tensor([1e-5, 0.5, 1 - 1e-5], requires_grad=True)
    entropy(held, torch.ones(3, dtype=torch.bool)).backward()
    assert (
        held.grad.tolist()[::2] == [0, 0] and held.grad[1] < 0
    )  # d(-o ln o) = -ln o - 1: opacities above 1/e grow


def test_consistency_by_hand(device):
    """Four in a row and one far off that is not visible: neighbours and L1 distances are plain to see."""
    positions = torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0], [2.5, 0, 0, 0], [4.5, 0, 0, 0], [0.1, 0, 0, 0]])
    velocity = torch.tensor([[1.0, 0, 0], [0, 2, 0], [0, 0, 4], [1, 1, 1], [math.nan, 9, 9]])
    positions, velocity = positions.to(device), velocity.to(device)
    visible = torch.tensor([True, True, True, True, False], device=device)
    # The nearest two of 0 are 1 and 2, of 1 they are 0 and 2, of 2 they are 1 and 3 (0 is farther), of 3 they are 2, 1.
    parts = [
        abs(1 - 0) + abs(0 - 1) + abs(0 - 2),
        abs(0 - 0.5) + abs(2 - 0) + abs(0 - 2),
        abs(0 - 0.5) + abs(0 - 1.5) + abs(4 - 0.5),
        abs(1 - 0) + abs(1 - 1) + abs(1 - 2),
    ]
    found = consistency(velocity, positions, visible, k=2, time_weight=1.0)
    torch.testing.assert_close(found.item(), sum(parts) / 4)
    assert consistency(velocity, positions, torch.zeros_like(visible), k=2, time_weight=1.0) == 0
    alone = torch.tensor([True, False, False, False, False], device=device)
    assert consistency(velocity, positions, alone, k=2, time_weight=1.0) == 0


def test_time_weight_decides_who_is_near(device):
    positions = torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0.5], [3, 0, 0, 0]], device=device)
    velocity = torch.tensor([[0.0, 0, 0], [1, 0, 0], [10, 0, 0], [1, 0, 0]], device=device)
    visible = torch.ones(4, dtype=torch.bool, device=device)
    near_in_time = consistency(velocity, positions, visible, k=1, time_weight=1.0)  # 0-2, 1-0, 2-0, 3-1
    near_in_space = consistency(velocity, positions, visible, k=1, time_weight=5.0)  # 0-1, 1-0, 2-0, 3-1
    torch.testing.assert_close(near_in_time.item(), (10 + 1 + 10 + 0) / 4)
    torch.testing.assert_close(near_in_space.item(), (1 + 1 + 10 + 0) / 4)


def test_what_moves_alike_costs_nothing(device):
    positions = torch.randn(200, 4, generator=torch.Generator().manual_seed(2)).to(device)
    velocity = torch.tensor([0.5, -1.0, 2.0], device=device).expand(200, 3).clone().requires_grad_()
    visible = torch.ones(200, dtype=torch.bool, device=device)
    assert consistency(velocity, positions, visible, time_weight=5.0) < 1e-6


def test_consistency_gradients():
    generator = torch.Generator().manual_seed(3)
    positions = torch.randn(30, 4, generator=generator, dtype=D)
    velocity = torch.randn(30, 3, generator=generator, dtype=D, requires_grad=True)
    visible = torch.arange(30) % 4 != 1

    def loss(v):
        return consistency(v, positions, visible, k=5, time_weight=2.0)

    assert torch.autograd.gradcheck(loss, velocity)
    (gradient,) = torch.autograd.grad(loss(velocity), velocity)
    assert gradient[visible].abs().min() > 0 and not gradient[~visible].any()
    # It reaches the neighbours too: moving one alone by much changes what others compare with.
    torch.testing.assert_close(gradient.sum(0), torch.zeros(3, dtype=D), atol=1e-12, rtol=0)


def test_what_is_left_out_may_hold_anything():
    positions, velocity = torch.randn(40, 4, dtype=D), torch.randn(40, 3, dtype=D)
    visible = torch.arange(40) < 30
    positions[35], velocity[31], velocity[35] = math.nan, math.inf, math.nan
    velocity.requires_grad_()
    loss = consistency(velocity, positions, visible, time_weight=1.0)
    loss.backward()
    assert loss.isfinite() and velocity.grad.isfinite().all() and not velocity.grad[30:].any()


def test_velocities_are_those_of_the_slice():
    gaussians = moving(100)
    gaussians.rotors[0] = torch.eye(8, dtype=D)[0]
    found = velocities(gaussians)
    torch.testing.assert_close(found, gaussians.slice(0.3).velocity, atol=1e-12, rtol=1e-10)
    assert not found[0].any()
    # By what they mean: the slice's mean moves by v per unit of time.
    moved = gaussians.slice(1.3).means - gaussians.slice(0.3).means
    torch.testing.assert_close(found, moved, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("change", [-200.0, 200.0])
def test_velocities_do_not_overflow(change):
    gaussians = moving(20).to(torch.float32)
    wanted = velocities(gaussians)
    gaussians.log_scales.add_(change)
    gaussians.log_scale_t.add_(change)
    torch.testing.assert_close(velocities(gaussians), wanted, atol=1e-3, rtol=1e-3)


def test_velocity_gradients():
    names = ("log_scales", "log_scale_t", "rotors")
    gaussians = moving(6)

    def velocity(*given):
        return velocities(Gaussians4d(**gaussians.tensors() | dict(zip(names, given, strict=True))))

    inputs = [getattr(gaussians, name).clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(velocity, inputs)
