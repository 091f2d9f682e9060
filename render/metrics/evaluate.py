"""Scores of a scene on held-out views: PSNR, SSIM, LPIPS, per image and mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.metrics.depth import DepthErrors, depth_errors
from luxel.render.metrics.image_metrics import (
    LPIPS_MIN_SIDE,
    Lpips,
    MetricError,
    affine_fit,
    loaded_lpips,
    psnr,
    ssim,
)
from luxel.render.metrics.pose_refinement import refine_camera
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.scene import Draw, Scene

METRICS = ("psnr", "ssim", "lpips")
# Columns that are there only where they were computed: headings, name and unit in a sentence, digits.
FURTHER = {
    "psnr_aligned": ("aligned dB", "aligned", " dB", 2),
    "psnr_refined": ("refined dB", "refined", " dB", 2),
    "depth_mean": ("depth", "depth error", " units", 4),
    "depth_relative": ("depth rel.", "relative", "", 4),
    "depth_median": ("median", "median", "", 4),
}


class EvaluationError(LuxelError):
    """The views cannot be evaluated: there are none, or their pixels do not fit their cameras."""


@dataclass(frozen=True)
class ViewScore:
    """Scores of one view; NaN if a metric was not computed or no pixel counts.

    Args:
        name: of the view.
        psnr: dB, infinity for equal images.
        ssim: in [-1, 1], zero padded (see `luxel.render.metrics.image_metrics.ssim`).
        lpips: distance, 0 for equal images.
        width, height: pixels.
        psnr_aligned: PSNR after the affine colour transform of the render that brings it nearest to the image, dB.
        psnr_refined: PSNR from the camera pose that brings the render nearest to the image; where psnr_aligned was
            computed too, after another such transform.
        depth_mean, depth_relative, depth_median: mean absolute error of the depth in capture units, mean and median of
            its relative error, see `luxel.render.metrics.depth.DepthErrors`.
    """

    name: str
    psnr: float
    ssim: float
    lpips: float
    width: int
    height: int
    psnr_aligned: float = math.nan
    psnr_refined: float = math.nan
    depth_mean: float = math.nan
    depth_relative: float = math.nan
    depth_median: float = math.nan

    @property
    def further(self) -> dict[str, float]:
        """The scores of `FURTHER` that were computed."""
        values = {name: getattr(self, name) for name in FURTHER}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    @property
    def scores(self) -> dict[str, str | float | None]:
        """For JSON: NaN becomes None, an infinite PSNR the string "inf"."""
        names = (*METRICS, *self.further)
        return {name: _plain(getattr(self, name)) for name in names}

    def as_dict(self) -> dict[str, str | int | float | None]:
        """For JSON, see `scores`."""
        return {"name": self.name, **self.scores, "width": self.width, "height": self.height}


@dataclass(frozen=True)
class Evaluation:
    """Scores of all views and their mean (over the views where a metric is a number)."""

    scores: list[ViewScore]

    @property
    def mean(self) -> ViewScore:
        """Mean of each metric over the views, each view counting alike."""
        means = {}
        for metric in (*METRICS, *FURTHER):
            values = [getattr(s, metric) for s in self.scores if not math.isnan(getattr(s, metric))]
            means[metric] = sum(values) / len(values) if values else math.nan
        sizes = [(s.width, s.height) for s in self.scores]
        width, height = np.mean(sizes, axis=0).round().astype(int).tolist() if sizes else (0, 0)
        return ViewScore("mean", **means, width=width, height=height)

    def as_dict(self) -> dict[str, object]:
        """For JSON: {"mean": {psnr, ssim, lpips}, "views": [{name, psnr, ssim, lpips, width, height}]}, and
        those of `FURTHER` in each where they were computed."""
        return {"mean": self.mean.scores, "views": [score.as_dict() for score in self.scores]}

    def table(self) -> str:
        """One line per view and the mean last, as plain text."""
        rows = [*self.scores, self.mean]
        name_width = max(len(row.name) for row in rows)
        further = list(self.mean.further)
        more = "".join(f"{FURTHER[name][0]:>10}  " for name in further)
        lines = [f"{'view':<{name_width}}  {'PSNR dB':>8}  {more}{'SSIM':>7}  {'LPIPS':>7}  {'size':>10}"]
        for row in rows:
            cells = (
                _cell(row.psnr, 8, 2),
                *(_cell(getattr(row, name), 10, FURTHER[name][3]) for name in further),
                _cell(row.ssim, 7, 4),
                _cell(row.lpips, 7, 4),
                f"{row.width}x{row.height}".rjust(10) if row is not rows[-1] else "",
            )
            lines.append(f"{row.name:<{name_width}}  {'  '.join(cells)}".rstrip())
        lines.insert(-1, "-" * len(lines[0]))
        return "\n".join(lines)


def evaluate(
    scene: Parameters | Scene,
    views: Sequence[View],
    *,
    background: Sequence[float] | Tensor = (0.0, 0.0, 0.0),
    device: torch.device | str | None = None,
    antialiased: bool = False,
    lpips: bool = True,
    aligned: bool = False,
    camera_response: Callable[[View, Tensor, Tensor, Tensor], Tensor] | None = None,
    refine: float | None = None,
    depth: Literal["metric", "align"] | None = None,
    known: Mapping[str, ViewScore] | None = None,
    on_view: Callable[[View, ViewScore, Tensor, Tensor], None] | None = None,
    render: Callable[..., Any] = rasterize,
    say: Callable[[str], None] | None = None,
) -> Evaluation:
    """Renders every view and compares it with its image.

    The image is composited onto the background by its alpha; the render is clamped to [0, 1] and not
    rounded to bytes. Pixels of weight 0 do not count (for LPIPS, which has no weights, the pixels of the image
    replace those of the render there). A view without a pixel that counts has no scores.

    Args:
        scene: any primitives; or a scene, which draws itself.
        views: cameras with images.
        background: RGB in [0, 1] behind the scene and behind transparent parts of the images.
        device: where to render and compare; None: the device of the scene.
        antialiased: as the scene was trained (Mip-Splatting's opacity compensation).
        lpips: compute LPIPS too; else it is NaN, as for views under 31 pixels a side.
        aligned: compute ``psnr_aligned`` too, which leaves out differences of exposure and white balance; behind images
            with alpha the background keeps its colour.
        camera_response: what the camera of a view makes of a render before that fit, called with view, image [H, W, 3],
            transmittance [H, W] and background [3].
        refine: compute ``psnr_refined`` too, with cameras that are moved on the scene as it is; its extent, capture
            units.
        depth: compare the rendered depth with that of views that have one: as it is, or fitted to the rendered depth
            in each view ("align", see `luxel.render.ops.train.depth_loss.depth_loss`).
        known: scores that were computed before, by name of the view; these views are only rendered.
        on_view: called after each view with (view, its score, render [H, W, 3], ground truth [H, W, 3]).
        render: rasterizer, called like luxel.render.raster.rasterize (see `luxel.render.raster`).
        say: receives a message where LPIPS cannot be computed, which is then left out; None: that is an error.

    Raises:
        EvaluationError: no views, or pixels that do not fit their camera.
        MetricError: the weights of LPIPS cannot be read, without ``say``.
    """
    if not views:
        raise EvaluationError(
            "There are no views to evaluate.", "Hold some views out, or name the training views."
        )
    device = scene.device if device is None else torch.device(device)
    if isinstance(scene, Scene):
        scene = scene if scene.device == device else scene.to(device)
        render = renderer_of(scene)
    else:
        scene = scene.detach().to(device)
    behind = torch.as_tensor(background, dtype=torch.float32).to(device)
    perceptual = _perceptual(device, say) if lpips else None
    scores = []

    def refined(view: View, truth: Tensor, weight: Tensor | None, cut_out: bool) -> Tensor:
        options: dict[str, Any] = {"time": view.time, "background": behind, "antialiased": antialiased}
        given = view.camera.to(device)
        camera = refine_camera(scene, given, truth, weight, extent=refine or 1.0, render=render, **options)
        frame = render(scene, camera, **options)
        return fitted(view, frame, truth, weight, cut_out) if aligned else frame.rgb.clamp(0, 1)

    def fitted(view: View, frame: Any, truth: Tensor, weight: Tensor | None, cut_out: bool) -> Tensor:
        image = frame.rgb
        if camera_response is not None:
            image = camera_response(view, image, 1 - frame.alpha, behind)
        unexposed = (1 - frame.alpha, behind) if cut_out else None
        return affine_fit(image.clamp(0, 1), truth, weight, unexposed)

    for view in views:
        pixels = view.read()
        truth, weight = _composited(view, pixels, behind)
        compares = view, truth, weight, pixels.alpha is not None
        with torch.no_grad():
            score = None if known is None else known.get(view.name)
            measured = score is None and depth is not None and view.depth is not None
            options: dict[str, Any] = {"depth": True} if measured else {}
            options |= {"time": view.time, "background": behind, "antialiased": antialiased}
            frame = render(scene, view.camera.to(device), **options)
            image = frame.rgb.clamp(0, 1)
            if score is None:
                off = DepthErrors()
                if measured:
                    off = depth_errors(frame.depth, frame.alpha, view, weight, fits=depth == "align")
                size = view.camera.width, view.camera.height
                if not pixels.counts:
                    score = ViewScore(view.name, math.nan, math.nan, math.nan, *size)
                else:
                    compared = image if weight is None else torch.where(weight[..., None] > 0, image, truth)
                    distance = math.nan
                    if perceptual is not None and min(truth.shape[:2]) >= LPIPS_MIN_SIDE:
                        distance = float(perceptual(compared, truth))
                    score = ViewScore(
                        view.name,
                        psnr(image, truth, weight),
                        ssim(image, truth, weight),
                        distance,
                        *size,
                        psnr(fitted(view, frame, *compares[1:]), truth, weight) if aligned else math.nan,
                        math.nan if refine is None else psnr(refined(*compares), truth, weight),
                        *off,
                    )
        scores.append(score)
        if on_view is not None:
            on_view(view, score, image, truth)
    return Evaluation(scores)


@dataclass(frozen=True)
class RenderedView:
    """A view of a scene: rgb [H, W, 3]; alpha and depth [H, W], None where the scene has none."""

    rgb: Tensor
    alpha: Tensor | None
    depth: Tensor | None


def renderer_of(scene: Scene) -> Callable[..., RenderedView]:
    """Draws a scene, called like luxel.render.raster.rasterize with that scene."""

    def render(
        _: Any,
        camera: Camera,
        *,
        background: Tensor | None,
        time: float,
        antialiased: bool,
        depth: bool = False,
    ) -> RenderedView:
        layers = ("colour", "alpha", "depth") if depth else ("colour", "alpha")
        chosen = tuple(name for name in layers if name in scene.about.layers)
        options = scene.about.chosen(antialiased=antialiased)
        images = scene.draw(camera, Draw(chosen, time, background, None, options)).images
        return RenderedView(images["colour"], images.get("alpha"), images.get("depth"))

    return render


def further_in_words(name: str, value: float) -> str:
    """A score of `FURTHER` as a clause, such as "aligned 31.25 dB"."""
    _, words, unit, digits = FURTHER[name]
    return f"{words} {value:.{digits}f}{unit}"


def _perceptual(device: torch.device, say: Callable[[str], None] | None) -> Lpips | None:
    try:
        return loaded_lpips(device)
    except MetricError as error:
        if say is None:
            raise
        say(f"{error} Continuing without LPIPS.")
        return None


def ground_truth(view: View, background: Tensor) -> tuple[Tensor, Tensor | None]:
    """The pixels that renders of a view are compared with: composited onto the background, and the weight of each.

    Args:
        view: camera and image.
        background: RGB in [0, 1], [3]; the result is on its device.

    Returns:
        Colours in [0, 1], [H, W, 3], and weights [H, W], or None if all pixels count.

    Raises:
        EvaluationError: the pixels have another size than the camera.
    """
    return _composited(view, view.read(), background)


def _composited(view: View, pixels: Pixels, background: Tensor) -> tuple[Tensor, Tensor | None]:
    height, width = view.camera.height, view.camera.width
    for name, array, shape in (
        ("image", pixels.rgb, (height, width, 3)),
        ("alpha", pixels.alpha, (height, width)),
        ("weight", pixels.weight, (height, width)),
    ):
        if array is not None and array.shape != shape:
            raise EvaluationError(
                f"{view.path or view.name}: the {name} has shape {list(array.shape)}, "
                f"its camera expects {list(shape)}.",
                "Provide the image in the size that its intrinsics are for.",
            )
    rgb = _to_unit(pixels.rgb, background.device)
    if pixels.alpha is not None:
        alpha = _to_unit(pixels.alpha, background.device)[..., None]
        rgb = rgb * alpha + background * (1 - alpha)
    weight = None if pixels.weight is None else _to_unit(pixels.weight, background.device)
    return rgb, weight


def _to_unit(array: np.ndarray, device: torch.device) -> Tensor:
    # A cached image may be read-only, which from_numpy warns of; torch.tensor takes three times as long.
    writable = array if array.flags.writeable else array.copy()
    return torch.from_numpy(writable).to(device).float() / 255


def _plain(value: float) -> float | str | None:
    if math.isinf(value):
        return "inf"
    return None if math.isnan(value) else value


def _cell(value: float, width: int, digits: int) -> str:
    return f"{'-' if math.isnan(value) else f'{value:.{digits}f}':>{width}}"
