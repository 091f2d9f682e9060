"""Frames of films and still images: what a page shows, without what its tools add."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.scene import Scene
from luxel.viewer.films.straight_alpha import with_straight_alpha
from luxel.viewer.web.session import Unmarked
from luxel.viewer.web.shading.shading import (
    DisplaySettings,
    as_uint8,
    output_named,
    render_output,
    require_output,
)


def film_frame(
    scene: Scene, camera: Camera, settings: DisplaySettings, *, transparent: bool = False
) -> np.ndarray:
    """The image of `luxel.viewer.web.shading.shading.draw` without the colour of a selection, previews of edits,
    photographs of Compare, and the sentence that says why an image is empty.

    Args:
        scene, camera: on one device.
        settings: what to show.
        transparent: render straight alpha instead of a background.

    Returns:
        uint8 [H, W, 3], or [H, W, 4].

    Raises:
        LuxelError: the scene has no such output, or no alpha.
    """
    settings = replace(settings, backdrop=None)
    unmarked = scene.part(Unmarked)
    scene = scene if unmarked is None else unmarked.scene
    painter = None if settings.painter is None else settings.painter.in_films()
    require_output(scene, settings)
    if transparent and (painter is not None or "alpha" not in scene.about.layers):
        what = f"this scene of {scene.about.noun}" if painter is None else "an image of two scenes"
        raise LuxelError(f"{what} has no alpha.", "Render it with its background.")
    if painter is not None:
        painted = painter.paint(scene, camera, settings)
        if painted is not None:
            return painted[0].cpu().numpy()
    if transparent:
        settings = replace(settings, background=(0.0, 0.0, 0.0))
    with torch.no_grad():
        frame, background = render_output(scene, camera, settings)
        rgb, _ = output_named(settings.output).shade(frame, background)
        image = with_straight_alpha(rgb, frame.alpha) if transparent else rgb
        return as_uint8(image).cpu().numpy()
