"""Evaluates a scene on views and writes the report page with images and scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.metrics.evaluate import METRICS, Evaluation, ViewScore, evaluate, further_in_words
from luxel.render.primitives import Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.scene import Scene
from luxel.render.storage.folder import OutputFolder
from luxel.scenes import Capture
from luxel.viewer.progress import counting
from luxel.viewer.reports.evaluation_report import Report, ReportedView

COLOURS = {"white": (1.0, 1.0, 1.0), "black": (0.0, 0.0, 0.0)}


def background_of(name: str, capture: Capture) -> tuple[float, float, float]:
    """The background colour of an evaluation: white for "random"; "auto" is white for cut-out captures, else black."""
    if name == "auto":
        name = "white" if capture.cutout else "black"
    return COLOURS["black" if name == "black" else "white"]


def is_free(name: str, capture: Capture) -> bool:
    """Whether the scene of a training with this background is cut out, and would suit another colour behind it."""
    return capture.cutout and name in ("auto", "random")


def score(
    scene: Parameters | Scene,
    views: Sequence[View],
    folder: OutputFolder,
    *,
    title: str,
    background: tuple[float, float, float],
    antialiased: bool = False,
    lpips: bool = True,
    aligned: bool = False,
    camera_response: Callable[..., Tensor] | None = None,
    refine: float | None = None,
    depth: Literal["metric", "align"] | None = None,
    known: Evaluation | None = None,
    facts: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    render: Callable[..., Any] = rasterize,
) -> tuple[Evaluation, Path]:
    """Renders the views, scores them, and writes report.json, index.html and its images.

    Args:
        scene: any primitives, or another scene that draws itself, on the device that renders.
        views: to evaluate on, usually held-out ones.
        folder: of the report.
        title: of the page.
        background: colour behind the scene and behind cut-out images.
        antialiased: whether the scene was trained with antialiasing.
        lpips: compute LPIPS.
        aligned, camera_response, refine, depth: further scores, see `luxel.render.metrics.evaluate.evaluate`.
        known: scores of these views, if they were computed before; only the images are then rendered.
        facts, notes: for the page, see `Report.finish`.
        render: render function, called like luxel.render.raster.rasterize.

    Returns:
        The scores, and the path of index.html.

    Raises:
        ForeignFileError: something that luxel did not make is at the path of a file of the report.
        LuxelError: there are no views, or the folder cannot be written.
    """
    names = [view.name for view in views]
    with Report(folder, names) as report, counting("held-out views", len(views)) as advance:

        def keep(view: View, scores: ViewScore, image: Tensor, photograph: Tensor) -> None:
            report.add(reported(view, scores, image, photograph))
            advance()

        measured = evaluate(
            scene,
            views,
            background=background,
            antialiased=antialiased,
            lpips=lpips and known is None,
            aligned=aligned and known is None,
            camera_response=camera_response,
            refine=refine if known is None else None,
            depth=depth if known is None else None,
            known={scores.name: scores for scores in known.scores} if known else None,
            on_view=keep,
            render=render,
        )
        evaluation = known or measured
        page = report.finish(title=title, mean=means(evaluation), facts=facts or {}, notes=notes)
    return evaluation, page


def reported(view: View, scores: ViewScore, image: Tensor, photograph: Tensor) -> ReportedView:
    """A view of a report, of what `luxel.render.metrics.evaluate.evaluate` says after it."""
    return ReportedView(
        view.name,
        to_bytes(photograph),
        to_bytes(image),
        *_scores(scores),
        weight=lambda: view.read().weight,
        further=scores.further,
    )


def means(evaluation: Evaluation) -> dict[str, float | None]:
    """The mean scores of an evaluation, as `Report.finish` takes them."""
    return {**dict(zip(METRICS, _scores(evaluation.mean), strict=True)), **evaluation.mean.further}


def to_bytes(image: Tensor) -> np.ndarray:
    """uint8 of an image in [0, 1], rounded, on the host."""
    return image.detach().clamp(0, 1).mul(255).round().to(torch.uint8).cpu().numpy()


def psnr_in_words(evaluation: Evaluation) -> str:
    """The mean PSNR, the further scores that were computed, and over how many views where some have no such score."""
    mean = evaluation.mean
    without = sum(math.isnan(score.psnr) for score in evaluation.scores)
    if without == len(evaluation.scores):
        return "not measured, as no pixel of these views counts"
    further = [further_in_words(name, value) for name, value in mean.further.items()]
    if without:
        further.append(f"{without} of {len(evaluation.scores)} views have no pixel that counts")
    return f"{mean.psnr:.2f} dB" + (f" ({', '.join(further)})" if further else "")


def _scores(scores: ViewScore) -> tuple[float, float, float]:
    return scores.psnr, scores.ssim, scores.lpips
