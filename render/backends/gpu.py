"""Checks that all backends for NVIDIA GPUs share."""

from __future__ import annotations

import torch

from luxel.render.errors import LuxelError


def require_gpu(name: str, device: torch.device | str | None) -> None:
    """Checks that a backend of NVIDIA GPUs can run here.

    Args:
        name: of the backend.
        device: to use; None: any GPU.

    Raises:
        LuxelError: there is no GPU, or the device is not one.
    """
    if not torch.cuda.is_available():
        raise LuxelError(
            f"The {name} backend needs an NVIDIA GPU that torch can use, and there is none.",
            "Leave it out: luxel's own backend runs on this machine (see `luxel doctor`).",
        )
    if device is not None and torch.device(device).type != "cuda":
        raise LuxelError(
            f"The {name} backend works on NVIDIA GPUs only, not on {device}.",
            "Give --device cuda, or leave --backend out.",
        )
