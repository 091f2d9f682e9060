"""From a rendered frame to the bytes of a page: colours, and false colours for everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.viewer.web.drawable import Drawable

MODES = ("colour", "alpha", "depth", "normals", "count")
Render = Callable[..., Any]  # (scene, camera, **options) -> Frame, as luxel.render.rasterize

# Dark to bright with rising lightness, so that order is seen without reading a legend.
EMBER = np.array(
    [[10, 8, 30], [62, 18, 110], [150, 36, 110], [222, 74, 62], [250, 150, 40], [252, 236, 160]], np.float32
)


@dataclass
class Look:
    """What one page has chosen to see.

    Args:
        mode: one of MODES.
        background: colour in [0, 1] behind the scene.
        near, far: clipping distances, capture units.
        splat_scale: multiplies the size of every primitive.
        antialiased: compensate opacity for the screen-space dilation (Mip-Splatting); not for convexes.
        resolution: rendered pixels per pixel of the window, along one side.
        quality: JPEG quality 1..99, or 100 for PNG (lossless).
        time: what is shown of a scene that moves, in the unit of the capture's times.
    """

    mode: str = "colour"
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    near: float = 0.01
    far: float = 1e10
    splat_scale: float = 1.0
    antialiased: bool = False
    resolution: float = 1.0
    quality: int = 90
    time: float = 0.0


def modes_of(kind: type[Drawable]) -> tuple[str, ...]:
    """Those of MODES that a kind of scene gives."""
    return tuple(mode for mode in MODES if mode in kind.outputs)


def drawing_options(scene: Drawable, *, antialiased: bool, time: float) -> dict[str, Any]:
    """What a drawing function must be told of a scene beside the camera: only what it heeds."""
    options: dict[str, Any] = {"antialiased": antialiased} if scene.antialiases else {}
    return options | {"time": time} if scene.moves else options


def draw(render: Render, scene: Drawable, camera: Camera, look: Look) -> tuple[np.ndarray, str]:
    """Renders and shades one image.

    Args:
        render: luxel.render.rasterize or a function like it; told the time of scenes that move.
        scene, camera: on one device.
        look: what to show.

    Returns:
        uint8 [H, W, 3], and a caption (the range of a false-colour image; empty for colours).

    Raises:
        LuxelError: the scene has no such output.
    """
    if look.mode not in modes_of(type(scene)):
        raise LuxelError(f"there are no {look.mode} of {scene.noun}.", "Choose another output.")
    if look.splat_scale != 1 and isinstance(scene, Parameters):
        scene = scene.scaled(look.splat_scale)
    options = drawing_options(scene, antialiased=look.antialiased, time=look.time)
    if look.mode in ("depth", "normals", "count"):
        options[look.mode] = True
    background = torch.tensor(look.background, device=scene.device)
    with torch.no_grad():
        frame = render(scene, camera, background=background, **options)
        rgb, caption = shade(frame, look.mode, background)
        return (rgb.clamp(0, 1) * 255 + 0.5).to(torch.uint8).cpu().numpy(), caption


def shade(frame: Any, mode: str, background: Tensor) -> tuple[Tensor, str]:
    """The chosen output as colours in [0, 1], [H, W, 3], and its caption."""
    if mode == "colour":
        return frame.rgb, ""
    alpha = frame.alpha[..., None]
    if mode == "alpha":
        return alpha.expand(*frame.alpha.shape, 3), ""
    if mode == "depth":
        low, high = spread(frame.depth[frame.alpha > 0.5])
        colour = false_colour(1 - (frame.depth - low) / max(high - low, 1e-12))
        return colour * alpha + background * (1 - alpha), f"{low:.3g} (bright) to {high:.3g}"
    if mode == "normals":
        unit = torch.nn.functional.normalize(frame.normals, dim=-1, eps=1e-8)
        return (0.5 + 0.5 * unit) * alpha + background * (1 - alpha), "x, y, z as red, green, blue"
    most = max(int(frame.count.max()), 1)
    return false_colour(torch.log1p(frame.count.float()) / np.log1p(most)), f"up to {most} per pixel"


def spread(values: Tensor, limit: int = 100_000) -> tuple[float, float]:
    """The 2nd and 98th percentile of the finite values, every n-th where there are many; (0, 1) of none."""
    values = values.detach().flatten()
    values = values[:: max(1, values.numel() // limit)]
    values = values[torch.isfinite(values)].float()
    if values.numel() == 0:
        return 0.0, 1.0
    low, high = torch.quantile(values, values.new_tensor([0.02, 0.98])).tolist()
    return low, high


def false_colour(values: Tensor) -> Tensor:
    """Colours [..., 3] of values in [0, 1] (clamped; NaN becomes 0), interpolated in EMBER."""
    table = torch.as_tensor(EMBER / 255, dtype=torch.float32, device=values.device)
    position = values.float().nan_to_num(0.0).clamp(0, 1) * (len(table) - 1)
    lower = position.floor().clamp(max=len(table) - 2).long()
    weight = (position - lower)[..., None]
    return table[lower] * (1 - weight) + table[lower + 1] * weight
