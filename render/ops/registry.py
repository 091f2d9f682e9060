"""How a stage becomes a torch.library operation: one namespace, one implementation for CPU and CUDA alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("luxel", "DEF")


def define(schema: str) -> None:
    """Declares ``luxel::<schema>``."""
    _LIBRARY.define(schema)


def register_implementation(
    name: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
) -> None:
    """Gives an operation its body, its shapes for fake tensors, and its gradient.

    The body picks the native library by the device of its tensors, so that one function serves every backend.
    """
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, run, key)
    torch.library.register_fake(f"luxel::{name}", fake, lib=_LIBRARY)
    if backward is not None:
        torch.library.register_autograd(f"luxel::{name}", backward, setup_context=setup_context, lib=_LIBRARY)
