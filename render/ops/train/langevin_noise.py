"""Stage: random moves of nearly transparent Gaussians (3DGS-MCMC)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

define(
    "langevin_noise_(Tensor(a!) means, Tensor quats, Tensor log_scales, Tensor opacity_logits, Tensor rate, "
    "Tensor step, Tensor? skip, float strength, int seed) -> ()"
)


def langevin_noise_(
    means: Tensor,
    quats: Tensor,
    log_scales: Tensor,
    opacity_logits: Tensor,
    rate: Tensor,
    step: Tensor,
    skip: Tensor | None = None,
    *,
    strength: float,
    seed: int,
) -> None:
    """Moves centres in place by covariance times normal noise, gated to nearly transparent Gaussians.

    Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", eq. 8:
    mean += strength rate sigmoid(-100 (opacity - 0.005)) Sigma n. The noise n depends on seed, step and row alone,
    so that a repeated step moves everything as it did, on every backend.

    Args:
        means [N, 3], quats [N, 4], log_scales [N, 3], opacity_logits [N]: of `Gaussians`, float32, contiguous; of
            `Surfels`, whose log_scales are [N, 2], nothing moves along the normal.
        rate: learning rate of the means, float32 [1], on the device.
        step: int32 [1], on the device.
        skip: int32 [1], on the device; nothing moves where it is not 0.
        strength: of the noise, times the rate.
        seed: 64 bits.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    torch.ops.luxel.langevin_noise_(
        means, quats, log_scales, opacity_logits, rate, step, skip, strength, seed
    )


def _run(
    means: Tensor,
    quats: Tensor,
    log_scales: Tensor,
    opacity_logits: Tensor,
    rate: Tensor,
    step: Tensor,
    skip: Tensor | None,
    strength: float,
    seed: int,
) -> None:
    n, flat = means.shape[0], log_scales.dim() == 2 and log_scales.shape[1] == 2
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "means": (means, torch.float32, (n, 3)),
        "quats": (quats, torch.float32, (n, 4)),
        "log_scales": (log_scales, torch.float32, (n, 2 if flat else 3)),
        "opacity_logits": (opacity_logits, torch.float32, (n,)),
        "rate": (rate, torch.float32, (1,)),
        "step": (step, torch.int32, (1,)),
        "skip": (skip, torch.int32, (1,)),
    }
    require("langevin_noise", means.device, expected)
    library_for(means.device).call(
        "langevin_noise",
        means.device,
        torch.float32,
        **{name: tensor for name, (tensor, *_) in expected.items()},
        seed=seed,
        count=n,
        flat=int(flat),
        strength=strength,
    )


register_implementation("langevin_noise_", _run, lambda *_: None)
