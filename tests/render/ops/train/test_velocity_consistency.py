"""How much 4D Gaussians move unlike their neighbours: by hand, by the reference, by finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from luxel.render.ops.train.neighbours import neighbours
from luxel.render.ops.train.velocity_consistency import velocity_consistency
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.reference.train.velocity_consistency import velocities, velocity_consistency_reference

D = torch.float64
SHAPE = ("rotors", "log_scales", "log_scale_t")
Inputs = tuple[Tensor, Tensor, Tensor]


def moving(n: int, seed: int = 0) -> Gaussians4d:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"means": (3,), "times": (), "log_scales": (3,), "log_scale_t": (), "rotors": (8,)}
    shapes |= {"opacity_logits": (), "sh_dc": (3,), "sh_rest": (0, 3)}
    return Gaussians4d(
        **{name: torch.randn(n, *shape, generator=generator, dtype=D) for name, shape in shapes.items()}
    )


def shape_of(gaussians: Gaussians4d) -> Inputs:
    rotors, log_scales, log_scale_t = (getattr(gaussians, name) for name in SHAPE)
    return rotors, 0.4 * log_scales, 0.4 * log_scale_t


def with_velocity(velocity: Tensor) -> Inputs:
    """4D Gaussians that move so: a rotor in the plane of the velocity and time, and one scale in time of 1e3.

    With so long a life of so thin a thread v is the tangent of the rotor's angle.
    """
    speed = velocity.norm(dim=-1)
    half = speed.atan() / 2
    direction = velocity / speed.clamp_min(1e-12)[:, None]
    rotors = torch.zeros(len(velocity), 8, dtype=velocity.dtype, device=velocity.device)
    rotors[:, 0], rotors[:, 4:7] = half.cos(), direction * half.sin()[:, None]
    log_scales = torch.full_like(velocity, -math.log(1e3))
    return rotors, log_scales, torch.zeros_like(speed)


def test_velocities_are_those_of_the_slice():
    gaussians = moving(100)
    gaussians.rotors[0] = torch.eye(8, dtype=D)[0]
    actual = velocities(gaussians.rotors, gaussians.log_scales, gaussians.log_scale_t)
    torch.testing.assert_close(actual, gaussians.slice(0.3).velocity, atol=1e-12, rtol=1e-10)
    assert not actual[0].any()
    # By what they mean: the slice's mean moves by v per unit of time.
    moved = gaussians.slice(1.3).means - gaussians.slice(0.3).means
    torch.testing.assert_close(actual, moved, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "of", [velocity_consistency, velocity_consistency_reference], ids=["stage", "reference"]
)
def test_by_hand(device, of):
    """Four in a row; the one that nobody sees and nobody has for a neighbour may hold anything."""
    velocity = torch.tensor([[1.0, 0, 0], [0, 2, 0], [0, 0, 4], [1, 1, 1], [1, 9, 9]], device=device)
    rotors, log_scales, log_scale_t = with_velocity(velocity)
    sign = velocities(rotors[:1], log_scales[:1], log_scale_t[:1])[0, 0].sign()
    rotors[:, 4:7] *= sign  # whichever way the plane turns
    torch.testing.assert_close(velocities(rotors, log_scales, log_scale_t), velocity, rtol=1e-3, atol=1e-3)
    rotors[4] = math.nan
    near = torch.tensor([[1, 2], [0, 2], [1, 3], [2, 1], [4, 4]], dtype=torch.int32, device=device)
    visible = torch.tensor([True, True, True, True, False], device=device)
    parts = [
        abs(1 - 0) + abs(0 - 1) + abs(0 - 2),
        abs(0 - 0.5) + abs(2 - 0) + abs(0 - 2),
        abs(0 - 0.5) + abs(0 - 1.5) + abs(4 - 0.5),
        abs(1 - 0) + abs(1 - 1) + abs(1 - 2),
    ]
    actual = of(rotors, log_scales, log_scale_t, near, visible)
    torch.testing.assert_close(actual.item(), sum(parts) / 4, rtol=1e-3, atol=0)
    assert of(rotors, log_scales, log_scale_t, near, torch.zeros_like(visible)) == 0


def compare(given: Inputs, near: Tensor, visible: Tensor, stage: tuple[float, float]) -> list[Tensor]:
    """Asserts that stage and reference agree; returns the gradients of the stage."""
    leaves, truth = ([t.detach().clone().requires_grad_() for t in given] for _ in range(2))
    actual = velocity_consistency(*leaves, near, visible)
    expected = velocity_consistency_reference(*truth, near, visible)
    torch.testing.assert_close(actual, expected, rtol=stage[0], atol=stage[0])
    gradients = list(torch.autograd.grad(1.7 * actual, leaves))
    true = torch.autograd.grad(1.7 * expected, truth)
    for name, a, b in zip(SHAPE, gradients, true, strict=True):
        bound = stage[1] * b.abs().max().item() if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=stage[1], atol=bound, msg=lambda m, n=name: f"{n}: {m}")
    return gradients


@pytest.mark.parametrize("n", [1, 5, 257, 4000])
@pytest.mark.parametrize("dtype", [torch.float32, D], ids=["float", "double"])
@pytest.mark.parametrize("k", [1, 8, 16])
def test_it_is_the_reference(device, n, dtype, k):
    if dtype == D and device.type == "cuda":
        pytest.skip("the GPU has float32 only")
    gaussians = moving(n, seed=n)
    visible = (torch.arange(n) % 3 != 1).to(device)
    near = neighbours(gaussians.means.float().to(device), k)
    given: Inputs = tuple(t.to(device, dtype) for t in shape_of(gaussians))  # type: ignore[assignment]
    gradients = compare(given, near, visible, (1e-12, 1e-10) if dtype == D else (1e-5, 1e-4))
    if n == 257 and k == 8:  # those that are not seen have a gradient where they are neighbours
        assert gradients[0][~visible].any(-1).float().mean() > 0.9
    assert not any(g.any() for g in compare(given, near, torch.zeros_like(visible), (0.0, 0.0)))


def test_gradients_by_finite_differences():
    gaussians = moving(12)
    near, visible = neighbours(gaussians.means, 4), torch.arange(12) % 4 != 1
    given = [t.clone().requires_grad_() for t in shape_of(gaussians)]
    assert torch.autograd.gradcheck(lambda *x: velocity_consistency(*x, near, visible), given)


@pytest.mark.parametrize("change", [-200.0, 200.0])
def test_scales_of_any_size(device, change):
    given = tuple(t.float().to(device) for t in shape_of(moving(300)))
    near, visible = (
        neighbours(given[0][:, :3].contiguous(), 8),
        torch.ones(300, dtype=torch.bool, device=device),
    )
    expected = compare(given, near, visible, (1e-5, 1e-4))
    actual = compare((given[0], given[1] + change, given[2] + change), near, visible, (1e-5, 1e-4))
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2 * b.abs().max().item())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_left_out_may_hold_anything(device, value):
    gaussians = moving(60)
    near = neighbours(gaussians.means.float().to(device), 8, (torch.arange(60) < 40).to(device))
    given = [t.float().to(device) for t in shape_of(gaussians)]
    visible = (torch.arange(60) % 3 > 0).to(device) & (torch.arange(60) < 40).to(device)
    expected = compare(tuple(given), near, visible, (1e-5, 1e-4))  # type: ignore[arg-type]
    for tensor in given:
        tensor[40:] = value
    actual = compare(tuple(given), near, visible, (1e-5, 1e-4))  # type: ignore[arg-type]
    for a, b in zip(actual, expected, strict=True):
        assert torch.equal(a, b) and a.isfinite().all() and not a[40:].any()


def test_a_broken_neighbour_counts_as_standing_still(device):
    rotors, log_scales, log_scale_t = (t.float().to(device) for t in shape_of(moving(40)))
    near, visible = neighbours(rotors[:, :3].contiguous(), 8), torch.ones(40, dtype=torch.bool, device=device)
    visible[7] = False
    still = rotors.clone()
    rotors[7], still[7] = math.nan, torch.eye(8, device=device)[0]
    leaves = [t.requires_grad_() for t in (rotors, log_scales, log_scale_t)]
    loss = velocity_consistency(*leaves, near, visible)
    torch.testing.assert_close(loss, velocity_consistency(still, log_scales, log_scale_t, near, visible))
    for gradient in torch.autograd.grad(loss, leaves):
        assert gradient.isfinite().all() and not gradient[7].any() and gradient[8].any()


def test_what_is_out_of_range_stands_for_the_row(device):
    given = tuple(t.float().to(device) for t in shape_of(moving(30)))
    near, visible = (
        neighbours(given[0][:, :3].contiguous(), 4),
        torch.ones(30, dtype=torch.bool, device=device),
    )
    near[:, 1], near[:, 2] = -1, 30
    own = near.clone()
    own[:, 1:3] = torch.arange(30, dtype=torch.int32, device=device)[:, None]
    assert torch.equal(
        velocity_consistency(*given, near, visible), velocity_consistency(*given, own, visible)
    )


def test_it_repeats_to_the_bit(device):
    """Many have the same neighbours: threads meet."""
    given = [t.float().to(device).requires_grad_() for t in shape_of(moving(20_000))]
    near = torch.randint(0, 50, (20_000, 8), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    near, visible = near.to(device), torch.ones(20_000, dtype=torch.bool, device=device)

    def run() -> list[Tensor]:
        loss = velocity_consistency(*given, near, visible)
        return [loss, *torch.autograd.grad(loss, given)]

    first, again = run(), run()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    compare(tuple(given), near, visible, (1e-4, 1e-3))  # type: ignore[arg-type]


def test_opcheck_and_what_is_refused(device):
    given = [t.float().to(device).requires_grad_() for t in shape_of(moving(30))]
    near, visible = neighbours(given[0][:, :3].contiguous(), 4), torch.arange(30, device=device) % 3 > 0
    torch.library.opcheck(torch.ops.luxel.velocity_consistency.default, (*given, near, visible))
    plain = [t.detach() for t in given]
    _, share, pulls = torch.ops.luxel.velocity_consistency(*plain, near, visible)
    backward = torch.ones((), device=device), *plain, near, visible, share, pulls
    torch.library.opcheck(torch.ops.luxel.velocity_consistency_bwd.default, backward)
    with pytest.raises(ValueError, match=r"log_scales must be \[30, 3\] .*\[29, 3\]"):
        velocity_consistency(plain[0], plain[1][1:], plain[2], near, visible)
    with pytest.raises(ValueError, match=r"neighbours must be \[N, 1 to 16\], got \[30, 0\]"):
        velocity_consistency(*plain, near[:, :0], visible)
    with pytest.raises(ValueError, match=r"neighbours must be \[30, 4\] torch.int32"):
        velocity_consistency(*plain, near.long(), visible)
    with pytest.raises(ValueError, match=r"rotors must be float32 or float64, got torch.float16"):
        velocity_consistency(*(t.half() for t in plain), near, visible)
