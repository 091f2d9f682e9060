"""Opacity and scale of coinciding copies that together look like one Gaussian (3DGS-MCMC)."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

MAX_COPIES = 51  # binomial coefficients above this leave the range in which the alternating sum is accurate


def shared_appearance(opacity: Tensor, copies: Tensor) -> tuple[Tensor, Tensor]:
    """Opacity and scale factor with which n coinciding copies look like one Gaussian did.

    Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", eq. 9:
    o' = 1 - (1 - o)^(1/n);  s'/s = o / sum_{i=1..n} sum_{k=0..i-1} C(i-1, k) (-1)^k o'^(k+1) / sqrt(k + 1).
    Swapping the sums, sum_i C(i-1, k) = C(n, k+1).

    Args:
        opacity: before, in (0, 1), [M].
        copies: how many share it, the original included, int64 [M]; counts above 51 are taken as 51.

    Returns:
        New opacities [M], and factors of the standard deviations [M].
    """
    n = copies.clamp(1, MAX_COPIES)
    o = opacity.double()
    shared = -torch.expm1(torch.log1p(-o.clamp(max=1 - 1e-9)) / n)
    order = torch.arange(1, MAX_COPIES + 1, device=o.device, dtype=torch.float64)
    total = (_alternating()[n] * shared[:, None] ** order).sum(-1)
    return shared.to(opacity.dtype), (o / total).to(opacity.dtype)


@functools.cache
def _alternating() -> Tensor:
    """C(n, k) (-1)^(k-1) / sqrt(k) for n = 0.. and k = 1..MAX_COPIES, float64."""
    rows = [
        [math.comb(n, k) * (-1) ** (k - 1) / math.sqrt(k) for k in range(1, MAX_COPIES + 1)]
        for n in range(MAX_COPIES + 1)
    ]
    return torch.tensor(rows, dtype=torch.float64)
