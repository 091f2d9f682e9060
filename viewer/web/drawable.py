"""What the viewer draws: primitives, or a neural field.

Both have the same attributes, so that the viewer needs no branches: ``noun`` and ``count`` (what it consists of, and
how many), ``outputs`` (what can be shown, of `luxel.viewer.web.shading.OUTPUTS`), ``moves``, ``antialiases``,
``resizable``, ``device``, ``centres`` (points that mark its place and size), ``numbers()`` and ``detach()``. Only the
function that draws differs, see `render_function`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.backends import Backend, rasterizer
from luxel.render.camera import Camera
from luxel.render.fields.application import Application
from luxel.render.primitives import Parameters
from luxel.viewer.commands.options import require_drawable

Drawable = Parameters | Application


@dataclass
class FieldFrame:
    """A rendered image of a field, as `luxel.render.rasterize.Frame` has it: rgb [H, W, 3] in [0, 1]."""

    rgb: Tensor


def render_field(scene: Application, camera: Camera, *, background: Tensor | None = None) -> FieldFrame:
    """Renders a field; called like luxel.render.rasterize.

    Args:
        scene: the field.
        camera: one camera, on the field's device.
        background: colour in [0, 1] behind the field, [3]; None: black.
    """
    with torch.no_grad():
        return FieldFrame(scene.render(camera, background))


def render_function(scene: Drawable, backend: Backend) -> Callable[..., Any]:
    """The function that draws a scene: (scene, camera, **options) -> Frame.

    Args:
        scene: on the device that draws it.
        backend: rasterizer backend of primitives; fields are rendered by luxel.

    Raises:
        LuxelError: the backend cannot be used on this device, or cannot draw this primitive.
    """
    render = rasterizer(backend, scene.device)
    if isinstance(scene, Application):
        return render_field
    require_drawable(backend, scene)
    return render


def field_orientation(
    scene: Application,
    up: np.ndarray | None = None,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> dict[str, Any]:
    """Up, front and background of a field, as `luxel.viewer.web.session.Session` has them.

    Args:
        up: upward direction of its data, [3]; None: the field's own.
        background: colour in [0, 1] that a page starts with.
    """
    front = None if scene.front is None else np.array(scene.front)
    return {"up": np.array(scene.up) if up is None else up, "front": front, "background": background}
