"""Other rasterizers and field evaluators behind luxel's own calls; imported only where they are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

FieldBackend = Literal["luxel", "tiny-cuda-nn"]


def require_field_backend(name: FieldBackend, device: torch.device | str | None = None) -> None:
    """Checks that a backend can evaluate neural fields here.

    Args:
        name: "luxel", or "tiny-cuda-nn" (see `luxel.render.backends.tinycudann`).
        device: to evaluate on; None: any.

    Raises:
        LuxelError: the backend is not installed, or has no kernels for that device.
        ValueError: there is no such backend.
    """
    if name == "tiny-cuda-nn":
        from luxel.render.backends import tinycudann

        tinycudann.require(device)
    elif name != "luxel":
        raise ValueError(f"backend of fields must be luxel or tiny-cuda-nn, got {name!r}")
