"""From primitives to images: the pipeline of stages, `rasterize`, renderers, and the table of rasterizers.

Another rasterizer than luxel's is imported only where it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Backend = Literal["luxel", "gsplat"]
# Modules with a function `rasterize`, and, of another one than luxel's, `require`, which checks the device.
RASTERIZERS: dict[str, str] = {
    "luxel": "luxel.render.raster.rasterize",
    "gsplat": "luxel.render.backends.gsplat",
}


def rasterizer(name: Backend, device: torch.device | str | None = None) -> Callable[..., Any]:
    """The drawing function of a backend: (gaussians, camera, **options of luxel.render.raster.rasterize) -> Frame.

    Args:
        name: "luxel", or "gsplat" (see `luxel.render.backends.gsplat` for what it cannot give).
        device: to draw on; None: any.

    Raises:
        LuxelError: the backend is not installed, or has no kernels for that device.
        ValueError: there is no such backend.
    """
    if name not in RASTERIZERS:
        raise ValueError(f"backend must be {' or '.join(RASTERIZERS)}, got {name!r}")
    module = import_module(RASTERIZERS[name])
    if name != "luxel":
        module.require(device)
    return module.rasterize
