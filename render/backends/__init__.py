"""Other rasterizers and field evaluators behind luxel's own calls; imported only where they are chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Backend = Literal["luxel", "gsplat"]
FieldBackend = Literal["luxel", "tiny-cuda-nn"]


def rasterizer(name: Backend, device: torch.device | str | None = None) -> Callable[..., Any]:
    """The drawing function of a backend: (gaussians, camera, **options of luxel.render.raster.rasterize) -> Frame.

    Args:
        name: "luxel", or "gsplat" (see `luxel.render.backends.gsplat` for what it cannot give).
        device: to draw on; None: any.

    Raises:
        LuxelError: the backend is not installed, or has no kernels for that device.
        ValueError: there is no such backend.
    """
    if name == "luxel":
        from luxel.render.raster.rasterize import rasterize

        return rasterize
    if name == "gsplat":
        from luxel.render.backends import gsplat

        gsplat.require(device)
        return gsplat.rasterize
    raise ValueError(f"backend must be luxel or gsplat, got {name!r}")


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
