"""From a rendered frame to the image of a page: colours, and false colours for everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.viewer.web.drawable import Drawable

Render = Callable[..., Any]  # (scene, camera, **options) -> Frame, as luxel.render.rasterize

# Dark to bright with rising lightness, so that order is seen without reading a legend.
EMBER = np.array(
    [[10, 8, 30], [62, 18, 110], [150, 36, 110], [222, 74, 62], [250, 150, 40], [252, 236, 160]], np.float32
)


def _colour(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    return frame.rgb, ""


def _alpha(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    return frame.alpha[..., None].expand(*frame.alpha.shape, 3), ""


def _depth(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    low, high = spread(frame.depth[frame.alpha > 0.5])
    colour = false_colour(1 - (frame.depth - low) / max(high - low, 1e-12))
    return _over(colour, frame, background), f"{low:.3g} (bright) to {high:.3g}"


def _normals(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    unit = torch.nn.functional.normalize(frame.normals, dim=-1, eps=1e-8)
    return _over(0.5 + 0.5 * unit, frame, background), "x, y, z as red, green, blue"


def _count(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    most = max(int(frame.count.max()), 1)
    return false_colour(torch.log1p(frame.count.float()) / np.log1p(most)), f"up to {most} per pixel"


def _over(colour: Tensor, frame: Any, background: Tensor) -> Tensor:
    alpha = frame.alpha[..., None]
    return colour * alpha + background * (1 - alpha)


class Output(NamedTuple):
    """How an output of the renderer becomes an image.

    Args:
        shade: (frame, background [3]) -> colours in [0, 1], [H, W, 3], and a caption.
        options: of the render function, which make the frame contain the output.
    """

    shade: Callable[[Any, Tensor], tuple[Tensor, str]]
    options: dict[str, Any]


# What a page can show, by the names that scenes use in their ``outputs``. A new output is one entry.
OUTPUTS = {
    "colour": Output(_colour, {}),
    "alpha": Output(_alpha, {}),
    "depth": Output(_depth, {"depth": True}),
    "normals": Output(_normals, {"normals": True}),
    "count": Output(_count, {"count": True}),
}


@dataclass
class DisplaySettings:
    """What the images of one page show.

    Args:
        output: one of OUTPUTS.
        background: colour in [0, 1] behind the scene.
        near, far: clipping distances, capture units.
        splat_scale: multiplies the size of every primitive.
        antialiased: compensate opacity for the screen-space dilation (Mip-Splatting), where the scene has that.
        resolution: rendered pixels per pixel of the window, along one side.
        quality: JPEG quality 1..99, or 100 for PNG (lossless).
        time: what is shown of a dynamic scene, in the unit of the capture's times.
    """

    output: str = "colour"
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    near: float = 0.01
    far: float = 1e10
    splat_scale: float = 1.0
    antialiased: bool = False
    resolution: float = 1.0
    quality: int = 90
    time: float = 0.0


@dataclass(frozen=True)
class Sample:
    """One pixel of a rendered frame.

    Args:
        rgb: colour over the background, in [0, 1].
        alpha: coverage in [0, 1]; None where the scene has none.
        depth: distance along the optical axis at which half of the light is blocked (or the mean depth where the
            renderer gives no median), capture units; None where the pixel is emptier than that, or has no depth.
    """

    rgb: tuple[float, float, float]
    alpha: float | None
    depth: float | None


def outputs_of(scene_type: type[Drawable]) -> tuple[str, ...]:
    """Those of OUTPUTS that a type of scene supports."""
    return tuple(output for output in OUTPUTS if output in scene_type.outputs)


def drawing_options(scene: Drawable, *, antialiased: bool, time: float) -> dict[str, Any]:
    """Options of the render function that depend on the scene: those that it supports."""
    options: dict[str, Any] = {"antialiased": antialiased} if scene.antialiases else {}
    return options | {"time": time} if scene.moves else options


def draw(
    render: Render, scene: Drawable, camera: Camera, settings: DisplaySettings
) -> tuple[np.ndarray, str]:
    """Renders and shades one image.

    Args:
        render: luxel.render.rasterize or a function like it.
        scene, camera: on one device.
        settings: what to show.

    Returns:
        uint8 [H, W, 3], and a caption (the range of a false-colour image; empty for colours).

    Raises:
        LuxelError: the scene has no such output.
    """
    if settings.output not in outputs_of(type(scene)):
        raise LuxelError(
            f"this scene of {scene.noun} has no output {settings.output!r}.",
            f"Choose one of these: {', '.join(outputs_of(type(scene)))}.",
        )
    output = OUTPUTS[settings.output]
    with torch.no_grad():
        frame, background = _render(render, scene, camera, settings, output.options)
        rgb, caption = output.shade(frame, background)
        return (rgb.clamp(0, 1) * 255 + 0.5).to(torch.uint8).cpu().numpy(), caption


def sample(
    render: Render, scene: Drawable, camera: Camera, settings: DisplaySettings, column: int, row: int
) -> Sample:
    """Colour, alpha and depth of one pixel, from one rendered frame.

    Args:
        render, scene, camera, settings: as for `draw`; the chosen output does not matter.
        column, row: the pixel.
    """
    outputs = outputs_of(type(scene))
    options = OUTPUTS["depth"].options if "depth" in outputs else {}
    with torch.no_grad():
        frame, _ = _render(render, scene, camera, settings, options)
        red, green, blue = frame.rgb[row, column].clamp(0, 1).tolist()
        alpha = float(frame.alpha[row, column]) if "alpha" in outputs else None
        depth = None
        if "depth" in outputs and alpha is not None and alpha >= 0.5:
            median = getattr(frame, "median_depth", None)
            depth = float((frame.depth if median is None else median)[row, column])
    return Sample((red, green, blue), alpha, depth or None)


def depth_map(render: Render, scene: Drawable, camera: Camera, settings: DisplaySettings) -> Tensor | None:
    """Distances along the optical axis of what a page shows, as `Sample` has them, for all pixels of one frame.

    Args:
        render, scene, camera, settings: as for `draw`; the chosen output does not matter.

    Returns:
        [H, W] on the scene's device, capture units, 0 where a pixel has no depth; None where the scene has none.
    """
    if not {"depth", "alpha"} <= set(outputs_of(type(scene))):
        return None
    with torch.no_grad():
        frame, _ = _render(render, scene, camera, settings, OUTPUTS["depth"].options)
        median = getattr(frame, "median_depth", None)
        depth = frame.depth if median is None else median
        return depth * (frame.alpha >= 0.5)


def _render(
    render: Render, scene: Drawable, camera: Camera, settings: DisplaySettings, options: dict[str, Any]
) -> tuple[Any, Tensor]:
    """A frame, and the background [3] on the scene's device."""
    if settings.splat_scale != 1 and scene.resizable:
        scene = cast(Any, scene).scaled(settings.splat_scale)
    background = torch.tensor(settings.background, device=scene.device)
    given = drawing_options(scene, antialiased=settings.antialiased, time=settings.time)
    return render(scene, camera, background=background, **given, **options), background


def spread(values: Tensor, limit: int = 100_000) -> tuple[float, float]:
    """The 2nd and 98th percentile of the finite values, every Nth where there are many; (0, 1) of none."""
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
