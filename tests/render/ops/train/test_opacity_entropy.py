"""The entropy of opacities: values by hand, the reference, finite differences, and what has no part in it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from luxel.render.ops.train.opacity_entropy import opacity_entropy
from luxel.render.reference.train.opacity_entropy import opacity_entropy_reference

D = torch.float64


def drawn(n: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits of which some are held at either end and some are spare, and which of them are seen."""
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(n, generator=generator, dtype=D)
    visible = torch.rand(n, generator=generator) > 0.4
    spare = torch.arange(n) % 7 == 3
    logits[spare] = -math.inf
    return logits.to(dtype), visible & ~spare


@pytest.mark.parametrize("of", [opacity_entropy, opacity_entropy_reference], ids=["stage", "reference"])
def test_by_hand(device, of):
    o = torch.tensor([0.5, 0.1, 0.9, 0.2, 1 - 1e-12, 1e-9], dtype=D)
    logits = o.logit().float().to(device)
    visible = torch.tensor([True, True, False, False, False, False], device=device)

    def each(p: float) -> float:
        return -p * math.log(p)

    seen = (each(0.5) + each(0.1)) / 2
    others = (each(0.9) + each(0.2) + each(0.999) + each(0.001)) / 4
    tolerances = {"rtol": 1e-5, "atol": 1e-7}
    torch.testing.assert_close(of(logits, visible).item(), seen + 0.01 * others, **tolerances)
    torch.testing.assert_close(of(logits, visible, 0.5).item(), seen + 0.5 * others, **tolerances)
    everything, whole = torch.ones_like(visible), (2 * seen + 4 * others) / 6
    torch.testing.assert_close(of(logits, everything).item(), whole, **tolerances)
    torch.testing.assert_close(of(logits, ~everything).item(), 0.01 * whole, **tolerances)
    assert of(logits[:0], visible[:0]) == 0


@pytest.mark.parametrize("n", [0, 1, 7, 256, 257, 20_011])
@pytest.mark.parametrize("dtype", [torch.float32, D], ids=["float", "double"])
def test_it_is_the_reference(device, n, dtype):
    if dtype == D and device.type == "cuda":
        pytest.skip("the GPU has float32 only")
    logits, visible = (t.to(device) for t in drawn(n, dtype))
    of = (1e-12, 1e-10) if dtype == D else (1e-5, 1e-4)
    for mask in (visible, torch.zeros_like(visible)):
        leaf, true = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        actual, expected = opacity_entropy(leaf, mask, 0.3), opacity_entropy_reference(true, mask, 0.3)
        torch.testing.assert_close(actual, expected, rtol=of[0], atol=of[0])
        (1.7 * actual).backward()
        (1.7 * expected).backward()
        torch.testing.assert_close(leaf.grad, true.grad, rtol=of[1], atol=of[1] / max(1, n))


def test_gradients(device):
    leaf = torch.tensor([-9.0, 0.0, 9.0, -math.inf, math.inf, math.nan], device=device, requires_grad=True)
    loss = opacity_entropy(leaf, torch.tensor([True, True, True, False, True, False], device=device))
    loss.backward()
    assert loss.isfinite() and leaf.grad is not None
    assert leaf.grad.tolist()[0] == 0 and leaf.grad.tolist()[2:] == [0, 0, 0, 0]
    assert leaf.grad[1] < 0  # d(-o ln o) = -ln o - 1: opacities above 1/e grow
    logits, visible = drawn(40, D)
    logits = logits.clamp(-6, 6)[logits.isfinite()].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: opacity_entropy(x, visible[: len(x)]), logits)


def test_opcheck_and_what_is_refused(device):
    logits, visible = (t.to(device) for t in drawn(50, torch.float32))
    leaf = logits.clone().requires_grad_()
    torch.library.opcheck(torch.ops.luxel.opacity_entropy.default, (leaf, visible, 0.01))
    _, shares = torch.ops.luxel.opacity_entropy(logits, visible, 0.01)
    backward = torch.ones((), device=device), logits, visible, shares
    torch.library.opcheck(torch.ops.luxel.opacity_entropy_bwd.default, backward)
    with pytest.raises(ValueError, match=r"visible must be \[50\] torch.bool .*\[49\]"):
        opacity_entropy(logits, visible[1:])
    with pytest.raises(ValueError, match=r"opacity_logits must be \[N\], float32 or float64"):
        opacity_entropy(logits[:, None], visible)
