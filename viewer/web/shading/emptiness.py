"""Why an image shows nothing."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.scene import Extent, Scene

MIN_OPACITY = 1 / 255  # less is never rendered
LINE = 44  # characters


def is_empty(frame: Any) -> bool:
    """Whether nothing of the scene is visible in a frame; false where the renderer gives no alpha."""
    alpha = getattr(frame, "alpha", None)
    if alpha is None or bool(
        (alpha[::8, ::8] > 0).any()
    ):  # most frames show at a few pixels that they are not
        return False
    return not bool((alpha > 0).any())


def why_empty(scene: Scene, camera: Camera, time: float = 0.0) -> str:
    """The most likely reason why a frame without any alpha is empty, and what to do; plain text.

    Args:
        scene: as it was rendered.
        camera: with its clipping distances.
        time: of a dynamic scene.
    """
    noun, count = scene.about.noun, scene.count
    if count == 0:
        return f"The scene has no {noun}."
    extent = scene.part(Extent)
    broken = 0 if extent is None else count - int(extent.finite().sum())
    if broken == count:
        return f"All {count:,} {noun} have values that are not finite (NaN or infinite): train or load again."
    also = f" {broken:,} of {count:,} {noun} have values that are not finite." if broken else ""
    if extent is None:
        positions, opacities = scene.centres(), scene.centres().new_ones(len(scene.centres()))
    else:
        positions, opacities = extent.opacities(time)
    retained = torch.isfinite(positions).all(-1)
    positions, opacities = positions[retained], opacities[retained]
    if len(positions) == 0:
        return f"No {noun} are visible at time {time:.4g}: choose another time.{also}"
    return _outside(positions, opacities, camera, noun, count / len(scene.centres())) + also


def _outside(positions: Tensor, opacities: Tensor, camera: Camera, noun: str, each: float = 1.0) -> str:
    """Why none of the primitives at these places, [N, 3], is in the image; ``each``: primitives per place."""
    matrix = camera.world_to_cam.to(positions)
    x, y, z = (positions @ matrix[:3, :3].T + matrix[:3, 3]).unbind(-1)
    ahead = z > 0
    if not bool(ahead.any()):
        return f"All {round(each * len(positions)):,} {noun} are behind the camera: turn round, or press Reset view."
    within = ahead & (z >= camera.near) & (z <= camera.far)
    if not bool(within.any()):
        low, high = float(z[ahead].min()), float(z[ahead].max())
        return (
            f"Near {camera.near:.4g} and Far {camera.far:.4g} cut all {noun} in front of the camera, which are "
            f"{low:.4g} to {high:.4g} away: change them under Show, More."
        )
    fx, fy, cx, cy = camera.intrinsics.tolist()
    column, row = fx * x / z + cx, fy * y / z + cy
    visible = within & (column >= 0) & (column < camera.width) & (row >= 0) & (row < camera.height)
    if not bool(visible.any()):
        return f"No {noun} lie within the image: turn the camera, or press Reset view."
    if not bool((opacities[visible] >= MIN_OPACITY).any()):
        return (
            f"All {round(each * int(visible.sum())):,} {noun} within the image have an opacity below 1/255."
        )
    return f"The {round(each * int(visible.sum())):,} {noun} within the image are too faint or too small to be visible."


def write_on(image: np.ndarray, text: str) -> np.ndarray:
    """An image, uint8 [H, W, 3], with lines of text in its middle, white on a dark box."""
    height, width = image.shape[:2]
    size = max(9, round(min(width / 32, height / 16, 20)))
    lines = textwrap.fill(text, max(16, min(LINE, int(width / (0.6 * size)))))
    canvas = Image.fromarray(image)
    draw = ImageDraw.Draw(canvas, "RGBA")
    font = ImageFont.load_default(size)
    position = (width / 2, height / 2)
    left, top, right, bottom = draw.multiline_textbbox(position, lines, font, "mm", align="center")
    pad = size
    draw.rounded_rectangle((left - pad, top - pad, right + pad, bottom + pad), pad / 2, (20, 20, 24, 220))
    draw.multiline_text(position, lines, (240, 240, 240, 255), font, "mm", align="center")
    return np.array(canvas)
