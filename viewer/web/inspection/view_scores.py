"""PSNR of each view of a session: as the evaluation of its run has left it, or measured now."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from luxel.render.geometry.camera import View
from luxel.render.metrics.evaluate import evaluate
from luxel.render.runs.folder.strict_json import read_object
from luxel.viewer.web.images.shading import DisplaySettings, Render, render_frame
from luxel.viewer.web.session import Session

REPORT = Path("eval") / "report.json"  # in a run folder, as `luxel train` and `luxel eval` write it


def read_scores(folder: Path | None) -> dict[str, float]:
    """PSNR in dB by the name of the view, from the report of a run; empty where there is none."""
    if folder is None or not (folder / REPORT).is_file():
        return {}
    try:
        views = read_object(folder / REPORT)["views"]
        return {str(view["name"]): float(view["psnr"]) for view in views if view.get("psnr") is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # of another program, or half written
        return {}


def measure_scores(
    session: Session,
    render: Render,
    settings: DisplaySettings,
    on_score: Callable[[str, float], None],
    cancelled: Callable[[], bool],
) -> None:
    """Renders all views of a session one by one and compares them with their photographs.

    The scene is borrowed for one view at a time, and not while a photograph is read.

    Args:
        session: its scene and views.
        render: luxel.render.raster.rasterize or a function like it.
        settings: background, clipping, antialiasing and splat scale as the page shows them.
        on_score: called with the name of each view and its PSNR in dB; NaN where the photograph cannot be read.
        cancelled: called before each view; True ends the measurement.
    """
    for view in session.views:
        if cancelled():
            return
        try:
            pixels = view.read()
        except Exception:  # a missing file costs its score, not the others
            on_score(view.name, math.nan)
            continue
        loaded = replace(view, read=lambda pixels=pixels: pixels)
        with session.borrow() as scene:
            score = _measure(scene, loaded, render, settings)
        on_score(view.name, score)


def _measure(scene: object, view: View, render: Render, settings: DisplaySettings) -> float:
    """PSNR of one view whose pixels are in memory."""
    appearance = replace(settings, painter=None, time=view.time)

    def draw(drawn: object, camera: object, **_: object) -> object:
        return render_frame(render, drawn, camera, appearance, {})[0]  # pyright: ignore[reportArgumentType]

    with torch.no_grad():
        evaluation = evaluate(
            scene,  # pyright: ignore[reportArgumentType]
            [view],
            background=settings.background,
            lpips=False,
            render=draw,
        )
    return evaluation.scores[0].psnr
