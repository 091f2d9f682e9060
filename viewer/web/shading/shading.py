"""From a rendered frame to the image of a page: colours, and false colours for everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.application import TO_SUN
from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import ROWS, layers_of
from luxel.render.raster.rasterize import rasterize
from luxel.render.scene import About, Draw, Scene
from luxel.viewer.web.session import ForeignMarks, class_of_primitives
from luxel.viewer.web.shading.emptiness import is_empty, why_empty, write_on
from luxel.viewer.web.shading.legend import Caption, Legend, false_colour, legend_of, spread
from luxel.viewer.web.shading.object_colours import ObjectSource, label_frame, shade_objects
from luxel.viewer.web.shading.probe import Contributor, contributors, surface_normal
from luxel.viewer.web.shading.shapes import POINT_DILATION, footprints, points, reshapes, solids
from luxel.viewer.web.shading.shown_frame import ShownFrame
from luxel.viewer.web.shading.visibility import (
    VisibilityCounter,
    count_visible,
    shade_visibility,
    surface_depth,
)

CACHED = 1 << 18  # numbers that are converted at a time
OVERLAY = 0.7  # how much of the objects' colours a page shows at first
GREYS = np.array([[0, 0, 0], [255, 255, 255]], np.float32)


def _colour(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    return frame.rgb, ""


def _alpha(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    return frame.alpha[..., None].expand(*frame.alpha.shape, 3), Caption("", Legend("0", "1", GREYS))


def _depth(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    low, high = spread(frame.depth[frame.alpha > 0.5])
    colour = false_colour(1 - (frame.depth - low) / max(high - low, 1e-12))
    text = f"{low:.3g} (bright) to {high:.3g}"
    return _over(colour, frame, background), Caption(text, Legend(f"{high:.3g}", f"{low:.3g} capture units"))


def _normals(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    unit = torch.nn.functional.normalize(frame.normals, dim=-1, eps=1e-8)
    return _over(0.5 + 0.5 * unit, frame, background), "x, y, z as red, green, blue"


def _count(frame: Any, background: Tensor) -> tuple[Tensor, str]:
    most = max(int(frame.count.max()), 1)
    colour = false_colour(torch.log1p(frame.count.float()) / np.log1p(most))
    return colour, Caption(f"up to {most} per pixel", Legend("0", f"{most} per pixel (log)"))


def _over(colour: Tensor, frame: Any, background: Tensor) -> Tensor:
    alpha = frame.alpha[..., None]
    return colour * alpha + background * (1 - alpha)


class Output(NamedTuple):
    """How an output of the renderer becomes an image.

    Args:
        shade: (frame, background [3]) -> colours in [0, 1], [H, W, 3], and a caption.
        layers: of the scene, besides colour and alpha; see `luxel.render.scene.Layers`.
        options: of the scene, see `luxel.render.scene.Draw`.
        shape: (primitives, time) -> what luxel's rasterizer draws instead of the scene; see
            `luxel.viewer.web.shading.shapes`. None: the scene is rendered.
        raster: options of the rasterizer with ``shape``.
        about: what the colours mean, a sentence for help texts.
        measure: (frame, scene as it was rendered, camera, settings) -> the frame with what ``shade`` needs besides;
            None: the frame.
        ranged: whether its colours span the range of values in the image.
    """

    shade: Callable[[Any, Tensor], tuple[Tensor, str]]
    about: str
    layers: tuple[str, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012
    shape: Callable[[Any, float], Any] | None = None
    raster: dict[str, Any] = {}  # noqa: RUF012
    measure: Callable[[Any, Scene, Camera, DisplaySettings], Any] | None = None
    ranged: bool = False


_FLAT = {"sh_degree": 0, "antialiased": False}

DEPTH = ("depth", "median_depth")

# What a page can show of scenes that have the layers and options; those with a shape are for all primitives that have
# such shapes. A new output is one entry.
OUTPUTS = {
    "colour": Output(_colour, "the image"),
    "alpha": Output(_alpha, "coverage, black to white", ("alpha",)),
    "depth": Output(_depth, "mean distance along the optical axis", ("alpha", "depth"), ranged=True),
    "normals": Output(_normals, "directions of surfaces", ("alpha", "normal")),
    "count": Output(_count, "primitives that contribute to a pixel", ("count",), ranged=True),
    "overdraw": Output(
        _count,
        "primitives that reach a pixel, hidden ones too",
        shape=footprints,
        raster={"count": True},
        ranged=True,
    ),
    "shaded": Output(
        _colour, "the surface without its colours, lit from the camera", options={"shaded": True}
    ),
    "shadows": Output(_colour, "in the light of a sun, with its shadows", options={"to_sun": TO_SUN}),
    "ellipsoids": Output(_colour, "primitives as opaque bodies", shape=solids, raster=_FLAT),
    "points": Output(
        _colour, "centres of the primitives", shape=points, raster={**_FLAT, "dilation": POINT_DILATION}
    ),
}


def _count_seen(frame: Any, scene: Any, camera: Camera, settings: DisplaySettings) -> Any:
    return count_visible(frame, camera, settings.seen)


def _label(frame: Any, scene: Scene, camera: Camera, settings: DisplaySettings) -> Any:
    primitives = _sized(scene, settings)
    options = {} if primitives is None else raster_options(primitives, settings.antialiased, settings.time)
    return label_frame(frame, primitives, camera, settings.objects, settings.overlay, **options)


# Outputs of static scenes with training cameras; `DisplaySettings.seen` counts the views.
VIEW_OUTPUTS = {
    "seen by": Output(
        shade_visibility, "training views that see the surface", DEPTH, measure=_count_seen, ranged=True
    ),
}

# Outputs of scenes that can be edited; `DisplaySettings.objects` has the objects.
OBJECT_OUTPUTS = {
    "objects": Output(shade_objects, "objects of the scene in their colours", measure=_label),
}


@dataclass
class DisplaySettings:
    """What the images of one page show.

    Args:
        output: one of OUTPUTS.
        background: colour in [0, 1] behind the scene.
        backdrop: what pages show behind the scene instead, see `luxel.viewer.web.shading.backdrop`; None: nothing else.
            Films, still images and comparisons with photographs have the background.
        near, far: clipping distances, capture units.
        splat_scale: multiplies the size of every primitive.
        antialiased: compensate opacity for the screen-space dilation (Mip-Splatting), where the scene has that.
        resolution: rendered pixels per pixel of the window, along one side.
        quality: JPEG quality 1..99, or 100 for PNG (lossless).
        time: what is shown of a dynamic scene, in the unit of the capture's times.
        painter: draws the images of a tool instead, see `Painter`; None: the output is rendered.
        seen: counts the training views that see a surface; None: there are none.
        objects: has the objects of the scene; None: it cannot have any.
        overlay: how much of the objects' colours is shown over those of the scene, 0 to 1.
        foreign_marks: show what is selected as the selection of another page.
    """

    output: str = "colour"
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    backdrop: tuple[float, float, float] | None = None
    near: float = 0.01
    far: float = 1e10
    splat_scale: float = 1.0
    antialiased: bool = False
    resolution: float = 1.0
    quality: int = 90
    time: float = 0.0
    painter: Painter | None = None
    seen: VisibilityCounter | None = None
    objects: ObjectSource | None = None
    overlay: float = OVERLAY
    foreign_marks: bool = False

    def on_page(self) -> DisplaySettings:
        """With what pages show behind the scene as the background."""
        return self if self.backdrop is None else replace(self, background=self.backdrop, backdrop=None)


class Painter(Protocol):
    """A tool that draws other images than the output of a page, where its time has come."""

    def paint(self, scene: Scene, camera: Camera, settings: DisplaySettings) -> tuple[Tensor, str] | None:
        """An image and its caption, as `draw` returns them; None: the output of the page is rendered."""
        ...

    def in_films(self) -> Painter | None:
        """What draws the frames of films and the still images of the page; None: the output of the page is rendered."""
        ...

    def sample(
        self,
        scene: Scene,
        camera: Camera,
        settings: DisplaySettings,
        column: int,
        row: int,
    ) -> Sample | None:
        """One pixel of these images, as `sample` returns it; None: that of the scene."""
        ...


@dataclass(frozen=True)
class Sample:
    """One pixel of a rendered frame.

    Args:
        rgb: colour over the background, in [0, 1].
        alpha: coverage in [0, 1]; None where the scene has none.
        depth: distance along the optical axis at which half of the light is blocked (or the mean depth where the
            renderer gives no median), capture units; None where the pixel is emptier than that, or has no depth.
        normal: of the surface around the pixel, towards the camera, world coordinates; None without depth.
        count: how many primitives contribute; None where that is not available.
        strongest: those of them with the largest weights.
        name: of the scene, where a page shows several.
        others: the same pixel in the other scenes.
    """

    rgb: tuple[float, float, float]
    alpha: float | None
    depth: float | None
    normal: tuple[float, float, float] | None = None
    count: int | None = None
    strongest: tuple[Contributor, ...] = ()
    name: str = ""
    others: tuple[Sample, ...] = ()


def outputs_of(
    about: About,
    primitives: type[Parameters] | None = None,
    with_views: bool = False,
    with_objects: bool = False,
) -> tuple[str, ...]:
    """Those of OUTPUTS that a scene has, with those of VIEW_OUTPUTS where there are training views, and those of
    OBJECT_OUTPUTS where there may be objects.

    Args:
        about: of the scene.
        primitives: class of its primitives; None: it has none.
    """
    reshaped = primitives is not None and reshapes(primitives)
    own = tuple(
        name for name, output in OUTPUTS.items() if (reshaped if output.shape else _has(about, output))
    )
    countable = not about.moves and {"depth", "alpha"} <= set(own)
    further = tuple(VIEW_OUTPUTS) if with_views and countable else ()
    return own + further + (tuple(OBJECT_OUTPUTS) if with_objects and reshaped else ())


def _has(about: About, output: Output) -> bool:
    return set(output.layers) <= set(about.layers) and set(output.options) <= set(about.options)


def output_named(name: str) -> Output:
    """One of OUTPUTS, VIEW_OUTPUTS or OBJECT_OUTPUTS."""
    return (OUTPUTS | VIEW_OUTPUTS | OBJECT_OUTPUTS)[name]


def require_output(scene: Scene, settings: DisplaySettings) -> None:
    """Refuses an output that a scene has not.

    Raises:
        LuxelError: the scene has no such output.
    """
    outputs = outputs_of(
        scene.about, class_of_primitives(scene), settings.seen is not None, settings.objects is not None
    )
    if settings.output not in outputs:
        raise LuxelError(
            f"this scene of {scene.about.noun} has no output {settings.output!r}.",
            f"Choose one of these: {', '.join(outputs)}.",
        )


def raster_options(primitives: Parameters, antialiased: bool, time: float) -> dict[str, Any]:
    """Options of the rasterizer that primitives support."""
    options: dict[str, Any] = {"antialiased": antialiased} if primitives.antialiases else {}
    return options | {"time": time} if primitives.moves else options


def draw(scene: Scene, camera: Camera, settings: DisplaySettings) -> tuple[Tensor, str]:
    """Renders and shades one image.

    Args:
        scene, camera: on one device.
        settings: what to show.

    Returns:
        uint8 [H, W, 3] on the device of the scene, and a caption (the range of a false-colour image; empty for
        colours).

    Raises:
        LuxelError: the scene has no such output.
    """
    require_output(scene, settings)
    if settings.foreign_marks and (marked := scene.part(ForeignMarks)) is not None:
        scene = marked.scene
    if settings.painter is not None:
        painted = settings.painter.paint(scene, camera, settings)
        if painted is not None:
            return painted
    settings = settings.on_page()
    with torch.no_grad():
        frame, background = render_output(scene, camera, settings)
        rgb, caption = output_named(settings.output).shade(frame, background)
        image = as_uint8(rgb)
        if not is_empty(frame):
            return image, caption
        notice = why_empty(scene, camera, settings.time)
        written = write_on(image.cpu().numpy(), notice)
        return torch.from_numpy(written).to(image.device), Caption(caption, legend_of(caption), notice)


def render_output(scene: Scene, camera: Camera, settings: DisplaySettings) -> tuple[Any, Tensor]:
    """A frame with all that the chosen output's ``shade`` needs, and the background [3]."""
    output = output_named(settings.output)
    frame, background = render_frame(scene, camera, settings, output)
    if output.measure is not None:
        return output.measure(frame, scene, camera, settings), background
    return frame, background


def as_uint8(rgb: Tensor) -> Tensor:
    """Colours in [0, 1] as uint8 [H, W, 3]; what lies outside is clamped."""
    if rgb.is_cuda or not rgb.numel():
        return rgb.mul(255).add_(0.5).clamp_(0, 255).to(torch.uint8)
    # OpenCV takes a sixth of the time of PyTorch, whose threads would keep cores from encoder and browser. A few
    # rows at a time stay in the cache.
    pixels = rgb.numpy()
    result = np.empty(pixels.shape, np.uint8)
    rows = max(1, CACHED // pixels[0].size)
    for first in range(0, len(pixels), rows):
        part = slice(first, first + rows)
        cv2.addWeighted(pixels[part], 255, pixels[part], 0, 0, result[part], cv2.CV_8U)  # NaN becomes 0
    return torch.from_numpy(result)


def sample(scene: Scene, camera: Camera, settings: DisplaySettings, column: int, row: int) -> Sample:
    """Colour, alpha and depth of one pixel, from one rendered frame.

    Args:
        scene, camera, settings: as for `draw`; the chosen output does not matter.
        column, row: the pixel.
    """
    if settings.painter is not None:
        sampled = settings.painter.sample(scene, camera, settings, column, row)
        if sampled is not None:
            return sampled
    settings = settings.on_page()
    with torch.no_grad():
        frame, _ = render_frame(scene, camera, settings, Output(_colour, "", (*DEPTH, *ROWS)))
        red, green, blue = frame.rgb[row, column].clamp(0, 1).tolist()
        alpha = None if frame.alpha is None else float(frame.alpha[row, column])
        depth = normal = None
        if frame.depth is not None and frame.alpha is not None and alpha is not None and alpha >= 0.5:
            depths = frame.depth if frame.median_depth is None else frame.median_depth
            depth = float(depths[row, column]) or None
            normal = None if depth is None else surface_normal(depths, frame.alpha, camera, column, row)
        count, strongest = contributors(scene.part(Parameters), frame, column, row) or (None, ())
    return Sample((red, green, blue), alpha, depth, normal, count, strongest)


def depth_map(scene: Scene, camera: Camera, settings: DisplaySettings) -> Tensor | None:
    """Distances along the optical axis of what a page shows, as `Sample` has them, for all pixels of one frame.

    Args:
        scene, camera, settings: as for `draw`; the chosen output does not matter.

    Returns:
        [H, W] on the scene's device, capture units, 0 where a pixel has no depth; None where the scene has none.
    """
    if not {"depth", "alpha"} <= set(scene.about.layers):
        return None
    with torch.no_grad():
        frame, _ = render_frame(scene, camera, settings, Output(_colour, "", DEPTH))
        return surface_depth(frame)


COLOURS = Output(_colour, "")


def render_frame(
    scene: Scene, camera: Camera, settings: DisplaySettings, output: Output = COLOURS
) -> tuple[ShownFrame, Tensor]:
    """A frame with what an output needs, where the scene has it, and the background [3] on the scene's device."""
    background = torch.tensor(settings.background, device=scene.device)
    if output.shape is not None:
        primitives = _sized(scene, settings)
        assert primitives is not None, "only primitives have other shapes"
        given = raster_options(primitives, settings.antialiased, settings.time)
        shape = output.shape(primitives, settings.time)
        frame = rasterize(shape, camera, background=background, **{**given, **output.raster})
        return ShownFrame.of(layers_of(frame, ("colour", "alpha", "count"))), background
    about = scene.about
    layers = tuple(
        name for name in dict.fromkeys(("colour", "alpha", *output.layers)) if name in about.layers
    )
    options = about.chosen(antialiased=settings.antialiased, scale=settings.splat_scale) | output.options
    return ShownFrame.of(
        scene.draw(camera, Draw(layers, settings.time, background, None, options))
    ), background


def _sized(scene: Scene, settings: DisplaySettings) -> Parameters | None:
    """The primitives of a scene in the chosen size; None: it has none."""
    primitives = scene.part(Parameters)
    if primitives is None or settings.splat_scale == 1 or not primitives.resizable:
        return primitives
    return primitives.scaled(settings.splat_scale)
