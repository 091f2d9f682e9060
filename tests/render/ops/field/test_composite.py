"""Colours of rays: by the reference, by hand, by finite differences; and what the colour network takes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.ops.field.colour_inputs import colour_inputs
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.spherical_harmonics import sh_basis
from luxel.render.reference.field.composite import composite_reference, distortion_reference

D = torch.float64
SCALE = 0.7


def drawn(
    counts: list[int], seed: int = 0, spare: int = 5, thick: float = 2.0, spread: float = 1.5
) -> dict[str, Tensor]:
    """Samples of rays of so many each, side by side, in any order; some samples are of no ray. Float64.

    Colours before their activation have a standard deviation of ``spread``.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).double()

    number = torch.tensor(counts)
    order = torch.randperm(len(counts), generator=generator)
    first = torch.zeros(len(counts), dtype=torch.long)
    first[order] = number[order].cumsum(0) - number[order]
    samples = int(number.sum()) + spare
    counters = torch.tensor([samples - spare, samples - spare, len(counts), 0, 0])
    return {
        "density": thick + 1.5 * normal(samples),
        "colour": spread * normal(samples, 3),
        "dt": 0.02 + 0.01 * normal(samples).tanh(),
        "t": 1 + normal(samples).abs(),
        "ranges": torch.stack([first, number], -1).int(),
        "counters": counters,
        "background": normal(len(counts), 3).sigmoid(),
    }


def moved(given: dict[str, Tensor], dtype: torch.dtype, device: Any) -> dict[str, Tensor]:
    """On a device; floats in another type, rounded to float32 first."""
    return {
        name: t.float().to(device, dtype) if t.is_floating_point() else t.to(device)
        for name, t in given.items()
    }


def gradients(outputs: Any, leaves: list[Tensor], keep: Tensor) -> list[Tensor]:
    """Of a random weighting of all outputs of the rays to keep."""
    generator = torch.Generator().manual_seed(9)
    total = torch.zeros((), dtype=D)
    for tensor in outputs[:3]:
        weight = torch.randn(tensor.shape, generator=generator, dtype=D)
        weight *= keep.reshape(-1, *[1] * (tensor.dim() - 1))
        total = total + (tensor.cpu().double() * weight).sum()
    return [g.cpu().double() for g in torch.autograd.grad(total, leaves)]


@pytest.mark.parametrize(("thick", "spread"), [(-3.0, 1.5), (2.0, 1.5), (5.0, 1.5), (0.0, 12.0)])
def test_it_is_the_reference(precision, thick, spread):
    counts = [0, 1, 31, 32, 33, 200, 0, 64, 65, 7, 1000, 3] + [k % 41 for k in range(60)]
    given = moved(drawn(counts, thick=thick, spread=spread), **precision)
    true = {
        name: t.detach().cpu().double() if t.is_floating_point() else t.cpu() for name, t in given.items()
    }
    for values in (given, true):
        values["density"].requires_grad_()
        values["colour"].requires_grad_()
    actual = composite(**given, scale=SCALE)[:3]
    counters = true.pop("counters")
    *expected, margin = composite_reference(**true, scale=SCALE)
    single = given["density"].dtype == torch.float32
    keep = margin > (1e-3 if single else 1e-9)
    assert keep.float().mean() > 0.9
    for name, a, b in zip(("rgb", "transmittance", "depth"), actual, expected, strict=True):
        scale = max(1.0, b.abs().max().item())
        off = (1e-5 if single else 1e-12) * scale
        torch.testing.assert_close(
            a.detach().cpu().double()[keep],
            b.detach()[keep],
            rtol=0,
            atol=off,
            msg=lambda m, n=name: f"{n}: {m}",
        )
    got = gradients(actual, [given["density"], given["colour"]], keep)
    for name, a, b in zip(
        ("density", "colour"), got, gradients(expected, [true["density"], true["colour"]], keep), strict=True
    ):
        assert (a - b).norm() <= (1e-4 if single else 1e-10) * b.norm(), name
        assert not a[int(counters[0]) :].any()


@pytest.mark.parametrize("growth", [0.0, 1 / 64])
@pytest.mark.parametrize("thick", [-1.0, 2.0])
def test_distortion_is_the_sum_over_pairs(precision, thick, growth):
    """Beside a loss of colours, and for rays without samples."""
    counts = [0, 1, 2, 31, 32, 33, 64, 65, 0, 130, 7]
    given = moved(drawn(counts, thick=thick), **precision)
    for first, count in given[
        "ranges"
    ].tolist():  # in order along the ray, on both sides of where steps begin to grow
        given["t"][first : first + count] = given["t"][first : first + count].sort().values
    true = {
        name: t.detach().cpu().double() if t.is_floating_point() else t.cpu() for name, t in given.items()
    }
    for values in (given, true):
        values["density"].requires_grad_()
    lengths = {"step": 0.03, "growth": growth, "unit": 100.0}
    actual = composite(**given, scale=SCALE, **lengths)
    used = {name: true[name] for name in ("density", "dt", "t", "ranges")}
    expected = distortion_reference(**used, **lengths, scale=SCALE)
    single = given["density"].dtype == torch.float32
    assert expected.max() > 1e-3 and (expected[torch.tensor(counts) == 0] == 0).all()
    off = (1e-5 if single else 1e-12) * max(1.0, expected.max().item())
    torch.testing.assert_close(actual.distortion.detach().cpu().double(), expected.detach(), rtol=0, atol=off)
    rest = {name: t for name, t in true.items() if name != "counters"}
    colours = composite_reference(**rest, scale=SCALE)[0]
    loss = (
        actual.distortion.cpu().double() @ torch.arange(1.0, 12.0, dtype=D) + actual.rgb.cpu().double().sum()
    )
    reference = expected @ torch.arange(1.0, 12.0, dtype=D) + colours.sum()
    (a,), (b,) = torch.autograd.grad(loss, given["density"]), torch.autograd.grad(reference, true["density"])
    assert (a.cpu().double() - b).norm() <= (1e-4 if single else 1e-10) * b.norm()


@pytest.mark.parametrize("end", [-1, 1])
def test_a_saturated_colour_comes_back(precision, end):
    """Half precision holds its gradient; away from the other end it is that of the sigmoid, here next to nothing."""
    given = moved(drawn([1], spare=0), **precision)
    given["colour"] = given["colour"] * 0 + 40.0 * end
    slopes = []
    for towards in (-end, end):
        colour = given["colour"].clone().requires_grad_()
        rgb = composite(**{**given, "colour": colour}, scale=SCALE).rgb
        weight = 1 - composite(**given, scale=SCALE).transmittance
        (gradient,) = torch.autograd.grad((-towards * rgb).sum(), colour)
        slopes.append((gradient.abs() / weight).max())
    assert torch.allclose(slopes[0].double().cpu(), torch.tensor(1 / 1024, dtype=D), rtol=1e-4)
    assert slopes[1] < 1e-15


def test_distortion_needs_a_step(device):
    given = moved(drawn([3]), torch.float32, device)
    assert composite(**given).distortion.shape == (0,)
    with pytest.raises(ValueError, match="unit needs a step above 0"):
        composite(**given, unit=1.0)


def test_by_hand(device):
    density = torch.tensor([math.log(2.0), 20.0, 0.0], device=device)
    colour = torch.tensor([[math.log(3.0), 0, -100], [0, 0, 0], [9, 9, 9]], device=device)
    dt = torch.tensor([0.5, 1.0, 1.0], device=device)
    t = torch.tensor([2.0, 3, 4], device=device)
    ranges = torch.tensor([[0, 1], [0, 0], [0, 3]], dtype=torch.int32, device=device)
    counters = torch.tensor([3, 3, 3, 0, 0], device=device)
    background = torch.tensor([[1.0, 0, 0.5]], device=device).expand(3, 3)
    actual = composite(density, colour, dt, t, ranges, counters, background)
    w = 1 - math.exp(-1)
    rgb = [
        [0.75 * w + 1 - w, 0.5 * w, 0.5 * (1 - w)],
        [1, 0, 0.5],
        [0.75 * w + 0.5 * (1 - w), 0.5, 0.5 * (1 - w)],
    ]
    torch.testing.assert_close(actual.rgb.cpu(), torch.tensor(rgb))
    torch.testing.assert_close(actual.transmittance.cpu(), torch.tensor([1 - w, 1, 0]))
    torch.testing.assert_close(actual.depth.cpu(), torch.tensor([2 * w, 0, 2 * w + 3 * (1 - w)]))


def test_the_end_of_a_ray(device):
    """Samples behind the least transmittance have no part in it, and gradient 0; those before have theirs."""
    given = moved(drawn([300, 45], thick=5.0), torch.float32, device)
    for name in ("density", "colour"):
        given[name].requires_grad_()
    actual = composite(**given, min_transmittance=0.3)
    g_density, g_colour = torch.autograd.grad(
        actual.rgb.sum() + actual.depth.sum(), [given["density"], given["colour"]]
    )
    depth = given["density"].exp() * given["dt"]
    for first, count in given["ranges"].tolist():
        before = (depth[first : first + count].cumsum(0) - depth[first : first + count]).neg().exp()
        seen = before >= 0.3
        assert 1 < seen.sum() < count and (actual.transmittance < 0.3).all()
        assert g_colour[first : first + count][seen].any(-1).all()
        assert not g_colour[first : first + count][~seen].any()
        assert not g_density[first : first + count][~seen].any()


def test_gradients():
    given = drawn([0, 3, 7, 1], thick=1.0, spare=2)
    leaves = [given.pop("density").requires_grad_(), given.pop("colour").requires_grad_()]
    assert torch.autograd.gradcheck(lambda d, c: tuple(composite(d, c, **given, scale=SCALE)), leaves)
    for only in range(3):
        assert torch.autograd.gradcheck(lambda d, c, k=only: composite(d, c, **given)[k], leaves)


def test_held_densities(device):
    given = moved(drawn([4], spare=0), torch.float32, device)
    given["density"] = torch.tensor([-50.0, 0.5, 15.5, 1.0], device=device, requires_grad=True)
    given["colour"].requires_grad_()
    actual = composite(**given)
    actual.rgb.sum().backward()
    grad = given["density"].grad
    assert grad is not None and grad[0] == 0 and grad[1] != 0 and grad[2] == 0 and grad[3] == 0
    assert actual.rgb.isfinite().all() and actual.transmittance == 0


@pytest.mark.parametrize("width", [4, 16, 64])
def test_colour_inputs(precision, width):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(317, width, generator=generator).to(**precision).requires_grad_()
    directions = torch.nn.functional.normalize(torch.randn(317, 3, generator=generator), dim=-1).to(
        **precision
    )
    directions[5] = 0
    actual, density = colour_inputs(features, directions)
    off = 1e-6 if features.dtype == torch.float32 else 1e-14
    torch.testing.assert_close(actual, torch.cat([features, sh_basis(directions, 3)], -1), rtol=0, atol=off)
    assert torch.equal(density, features[:, 0])
    g_found, g_density = (torch.randn(t.shape, generator=generator).to(t) for t in (actual, density))
    (grad,) = torch.autograd.grad([actual, density], features, [g_found, g_density], retain_graph=True)
    expected = g_found[:, :width].clone()
    (alone,) = torch.autograd.grad(actual, features, g_found, retain_graph=True)
    assert torch.equal(alone, expected)
    expected[:, 0] += g_density
    assert torch.equal(grad, expected)
    (alone,) = torch.autograd.grad(density, features, g_density)
    assert torch.equal(alone[:, 0], g_density) and not alone[:, 1:].any()
    empty, _ = colour_inputs(features[:0], directions[:0])
    assert empty.shape == (0, width + 16)


def test_what_is_refused(device):
    given = moved(drawn([4, 2]), torch.float32, device)
    with pytest.raises(ValueError, match=r"colour must be \[11, 3\]"):
        composite(**given | {"colour": given["colour"][1:]})
    with pytest.raises(ValueError, match=r"ranges must be \[2, 2\] torch.int32"):
        composite(**given | {"ranges": given["ranges"].long()})
    with pytest.raises(ValueError, match="density must be"):
        composite(**given | {"density": given["density"].half()})
    with pytest.raises(ValueError, match="a multiple of 4"):
        colour_inputs(torch.zeros(5, 6, device=device), torch.zeros(5, 3, device=device))
    with pytest.raises(ValueError, match=r"directions must be \[5, 3\]"):
        colour_inputs(torch.zeros(5, 8, device=device), torch.zeros(4, 3, device=device))


def test_opcheck(device):
    given = moved(drawn([4, 40, 2]), torch.float32, device)
    for name in ("density", "colour"):
        given[name].requires_grad_()
    for unit in (0.0, 100.0):
        args = (*given.values(), 1.0, 1e-4, 0.01, 0.0, unit)
        torch.library.opcheck(torch.ops.luxel.composite.default, args)
    features = torch.randn(7, 8, device=device, requires_grad=True)
    torch.library.opcheck(torch.ops.luxel.colour_inputs.default, (features, torch.randn(7, 3, device=device)))
