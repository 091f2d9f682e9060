"""Bounds on the weights of networks: what stays the same, what changes, and that a wild run ends at finite weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.fields.application import make_application
from luxel.render.fields.config import defaults
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.fields.training.optimizer import FieldOptimizer
from luxel.render.fields.training.weight_balance import (
    EVERY,
    MAX_GROWTH,
    MAX_LAST,
    State,
    WeightBalance,
    first_norm,
)


def grown(activation: Any = "relu", factors: tuple[float, ...] = (5.0, 3.0, 1.0)) -> tuple[Mlp, State]:
    """A network in double whose layers are multiplied by factors, with random moments."""
    net = Mlp(6, 3, width=16, hidden_layers=2, activation=activation, seed=1, dtype=torch.float64)
    with torch.no_grad():
        for matrix, factor in zip(net.matrices(), factors, strict=True):
            matrix.mul_(factor)
    random = torch.Generator().manual_seed(2)
    noise = torch.rand(3, net.weights.numel(), generator=random, dtype=torch.float64)
    weights = net.weights.detach()
    return net, State(weights, weights * (1 + 0.1 * noise[0]), noise[1] - 0.5, noise[2])


def value(net: Mlp, weights: Tensor, x: Tensor) -> Tensor:
    """The network with other weights."""
    h = x
    for matrix in net.matrices(weights)[:-1]:
        h = (h @ matrix.T).relu() if net.activation == "relu" else h @ matrix.T
    return h @ net.matrices(weights)[-1].T


@pytest.mark.parametrize("activation", ["relu", "none"])
def test_the_function_stays_and_its_mean_too(activation: Any) -> None:
    net, state = grown(activation)
    x = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    before = [value(net, tensor, x) for tensor in state[:2]]
    WeightBalance([net], [net.weights], [state]).apply()
    for tensor, expected in zip(state[:2], before, strict=True):
        torch.testing.assert_close(value(net, tensor, x), expected, rtol=1e-12, atol=1e-12)
    norms = [float(m.norm()) / first_norm(m) for m in net.matrices(state.weights)]
    assert all(norm < MAX_GROWTH * (1 + 1e-12) for norm in norms[:-1]) and norms[-1] > MAX_GROWTH


def test_moments_follow_as_those_of_the_gradients() -> None:
    net, state = grown()
    x = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def gradient() -> Tensor:
        leaf = state.weights.clone().requires_grad_()
        return torch.autograd.grad(value(net, leaf, x).square().sum(), leaf)[0]

    state.first.copy_(gradient())
    state.second.copy_(gradient().square())
    WeightBalance([net], [net.weights], [state]).apply()
    torch.testing.assert_close(state.first, gradient(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state.second, gradient().square(), rtol=1e-12, atol=1e-12)


def test_others_stay_bit_for_bit() -> None:
    """Networks within the bounds, and those whose activation is not homogeneous."""
    for net, state in (grown(factors=(1.0, 1.0, 10.0)), grown("softplus")):
        before = [tensor.clone() for tensor in state]
        WeightBalance([net], [net.weights], [state]).apply()
        assert all(torch.equal(a, b) for a, b in zip(state, before, strict=True))


def test_a_last_layer_is_scaled_down_alone() -> None:
    net, state = grown(factors=(1.0, 1.0, 1e3))
    moments = state.first.clone()
    WeightBalance(
        [net], [net.weights], [state._replace(mean=state.weights)]
    ).apply()  # without a running mean
    last = net.matrices(state.weights)[-1]
    assert float(last.norm()) == pytest.approx(MAX_LAST * first_norm(last)) and torch.equal(
        state.first, moments
    )


def test_training_checks_every_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """And weights that noise drives apart stay in range: with gradients at random at a rate of 0.5."""
    config = replace(defaults("image"), log2_entries=6, width=16, batch=16, rate=0.5, weight_decay=0.0)
    application = make_application(config)
    application.begin(torch.zeros(8, 8, 3, dtype=torch.uint8).numpy(), torch.device("cpu"))
    random = torch.Generator().manual_seed(4)

    def noise(_: Any) -> Tensor:
        parts = [(p * torch.randn(p.shape, generator=random)).sum() for p in application.parameters()]
        return torch.stack(parts).sum()

    monkeypatch.setattr(application, "loss", noise)
    optimizer = FieldOptimizer(application)
    assert optimizer._balance._networks
    assert not FieldOptimizer(make_application(replace(config, weight_decay=1e-6)))._balance._networks
    calls: list[int] = []
    apply = optimizer._balance.apply
    monkeypatch.setattr(optimizer._balance, "apply", lambda: (calls.append(step), apply()))
    for step in range(2 * EVERY):
        optimizer.step(step)
    assert calls == [EVERY - 1, 2 * EVERY - 1]
    (net,) = (module for module in application.modules() if isinstance(module, Mlp))
    for matrix in net.matrices(net.weights.detach())[:-1]:
        assert float(matrix.norm()) <= MAX_GROWTH * first_norm(matrix) * 1.5  # it holds the running mean
