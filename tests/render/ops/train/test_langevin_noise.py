"""Random moves against their formula: distribution, gate, shape, and what they are a function of."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.ops.train.alpha_slope import alpha_slope
from luxel.render.ops.train.langevin_noise import langevin_noise_

N = 20_000


def moved(
    device: torch.device,
    opacity: float = 0.004,
    log_scale: tuple[float, float, float] = (0.0, 0.0, 0.0),
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0),
    step: int = 7,
    seed: int = 3,
    skip: int | None = None,
    rate: float = 1e-2,
) -> Tensor:
    """Where N Gaussians that stood at the origin end, on the CPU."""
    means = torch.zeros(N, 3, device=device)
    langevin_noise_(
        means,
        torch.tensor(quat, device=device).repeat(N, 1),
        torch.tensor(log_scale, device=device).repeat(N, 1),
        torch.full((N,), math.log(opacity / (1 - opacity)), device=device),
        torch.tensor([rate], device=device),
        torch.tensor([step], dtype=torch.int32, device=device),
        None if skip is None else torch.tensor([skip], dtype=torch.int32, device=device),
        strength=100.0,
        seed=seed,
    )
    return means.cpu()


def gate(opacity: float) -> float:
    return 1 / (1 + math.exp(100 * (opacity - 0.005)))


def test_noise_is_standard_normal(device: torch.device) -> None:
    noise = moved(device).double() / gate(0.004)
    ordered = noise.sort(dim=0).values
    below = 0.5 * (1 + torch.erf(ordered / math.sqrt(2)))
    ranks = (torch.arange(N) + 0.5)[:, None] / N
    assert (below - ranks).abs().max() < 1.95 / math.sqrt(N), "Kolmogorov-Smirnov, 0.1 %"
    correlation = torch.corrcoef(noise.T)
    assert (correlation - torch.eye(3)).abs().max() < 4.5 / math.sqrt(N)
    neighbours = (noise[1:] * noise[:-1]).mean(0)
    assert neighbours.abs().max() < 4.5 / math.sqrt(N)


def test_noise_is_a_function_of_seed_step_and_row(device: torch.device) -> None:
    base = moved(device)
    assert torch.equal(base, moved(device))
    for other in (moved(device, step=8), moved(device, seed=4), moved(device, seed=3 + (1 << 32))):
        assert abs(float((base * other).mean())) < 4.5 * gate(0.004) ** 2 / math.sqrt(3 * N)
    torch.testing.assert_close(base, moved(torch.device("cpu")), rtol=1e-4, atol=1e-6)


def test_noise_has_the_shape_of_the_gaussian(device: torch.device) -> None:
    half = math.sqrt(0.5)  # a quarter turn about z: the long axis x becomes y
    spread = moved(device, log_scale=(math.log(0.5), -7.0, -7.0), quat=(half, 0.0, 0.0, half)).std(0)
    assert abs(float(spread[1]) / (0.25 * gate(0.004)) - 1) < 0.03
    assert float(spread[0]) < 1e-4 and float(spread[2]) < 1e-4


@pytest.mark.parametrize("options", [{"opacity": 0.9}, {"skip": 1}, {"rate": 0.0}], ids=str)
def test_what_stays(device: torch.device, options: dict[str, Any]) -> None:
    assert moved(device, **options).abs().max() < 1e-30
    assert moved(device, skip=0).abs().max() > 1


def test_what_does_not_fit_is_named(device: torch.device) -> None:
    means, rate = torch.zeros(2, 3, device=device), torch.ones(1, device=device)
    step = torch.zeros(1, dtype=torch.int32, device=device)
    rest = torch.zeros(2, 4, device=device), torch.zeros(2, 3, device=device), torch.zeros(3, device=device)
    with pytest.raises(ValueError, match=r"opacity_logits must be \[2\] torch.float32 .*\[3\]"):
        langevin_noise_(means, *rest, rate, step, strength=1.0, seed=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_alpha_slope_is_the_gradient(device: torch.device, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    transmittance, target, weight = (torch.rand(9, 13, generator=generator).to(device) for _ in range(3))
    target[0] = 1 - transmittance[0]
    leaf = transmittance.clone().requires_grad_()
    off = (1 - leaf - target).abs()
    (0.3 * (off * weight if weighted else off).mean()).backward()
    actual = alpha_slope(transmittance, target, weight if weighted else None, 0.3)
    assert leaf.grad is not None
    torch.testing.assert_close(actual[1:], leaf.grad[1:], rtol=1e-6, atol=1e-9)


def test_library_checks(device: torch.device) -> None:
    image = torch.rand(4, 5, device=device)
    torch.library.opcheck(torch.ops.luxel.alpha_slope, (image, image.clone(), None, 0.1))
    rows = [torch.zeros(2, *shape, device=device) for shape in ((3,), (4,), (3,), ())]
    step = torch.zeros(1, dtype=torch.int32, device=device)
    torch.library.opcheck(
        torch.ops.luxel.langevin_noise_, (*rows, torch.ones(1, device=device), step, None, 1.0, 0)
    )
