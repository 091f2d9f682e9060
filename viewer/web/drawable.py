"""What the viewer draws, whether it is made of primitives or is a neural field.

Both say of themselves what the viewer asks, so that it need not know which of them it has: ``noun`` and ``count`` (what
it consists of, and how many), ``outputs`` (what can be shown, of `luxel.viewer.web.shading.MODES`), ``moves``,
``antialiases``, ``resizable``, ``device``, ``centres`` (points that say where it is and how large), ``numbers()`` and
``detach()``. The one thing that differs is the function that draws: luxel.render.rasterize, or `render_field`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.fields.application import Application
from luxel.render.primitives import Parameters

Drawable = Parameters | Application


@dataclass
class Picture:
    """What a field shows, as `luxel.render.rasterize.Frame` has it: rgb [H, W, 3] in [0, 1]."""

    rgb: Tensor


def render_field(scene: Application, camera: Camera, *, background: Tensor | None = None) -> Picture:
    """Draws a field where luxel.render.rasterize draws primitives."""
    with torch.no_grad():
        return Picture(scene.render(camera, background))


def field_places(
    scene: Application,
    up: np.ndarray | None = None,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> dict[str, Any]:
    """Up, front and background of a field, as `luxel.viewer.web.session.Session` has them.

    Args:
        up: what its data say of it, [3].
        background: likewise.
    """
    front = None if scene.front is None else np.array(scene.front)
    return {"up": np.array(scene.up) if up is None else up, "front": front, "background": background}
