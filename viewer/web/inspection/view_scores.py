"""PSNR of each view of a session: as the evaluation of its run has left it, or measured now."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from luxel.render.geometry.camera import Camera, View
from luxel.render.metrics.evaluate import evaluate
from luxel.render.runs.strict_json import read_object
from luxel.render.scene import Draw, Layers, Scene
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.shading import DisplaySettings

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


def score_rows(scores: Mapping[str, float], session: Session) -> list[tuple[str, str]]:
    """Label and text of the mean PSNR: of the held-out views and of all, where both are known.

    Args:
        scores: PSNR in dB by the name of the view; NaN where it is not known.
        session: whose views they are.
    """
    trained = {view.name for view in session.training_views}
    known = {name: score for name, score in scores.items() if math.isfinite(score)}
    held_out = [score for name, score in known.items() if name not in trained]
    rows = []
    if held_out and trained:
        rows.append(("PSNR, held out", _mean(held_out)))
    if len(known) > len(held_out) or (known and not trained):
        rows.append(("PSNR, all" if held_out and trained else "Mean PSNR", _mean(list(known.values()))))
    return rows


def _mean(scores: Sequence[float]) -> str:
    return f"{sum(scores) / len(scores):.2f} dB of {len(scores)} view{'' if len(scores) == 1 else 's'}"


def measure_scores(
    session: Session,
    settings: DisplaySettings,
    on_score: Callable[[str, float], None],
    cancelled: Callable[[], bool],
) -> None:
    """Renders all views of a session one by one and compares them with their images.

    The scene is borrowed for one view at a time, and not while an image is read.

    Args:
        session: its scene and views.
        settings: background, clipping, antialiasing and splat scale as the page shows them.
        on_score: called with the name of each view and its PSNR in dB; NaN where the image cannot be read.
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
            score = _measure(scene, loaded, settings)
        on_score(view.name, score)


def _measure(scene: Scene, view: View, settings: DisplaySettings) -> float:
    """PSNR of one view whose pixels are in memory."""

    def draw(camera: Camera, request: Draw) -> Layers:
        sized = {**request.options, **scene.about.chosen(scale=settings.splat_scale)}
        return scene.draw(camera, request._replace(options=sized))

    with torch.no_grad():
        evaluation = evaluate(
            replace(scene, draw=draw),
            [view],
            background=settings.background,
            antialiased=settings.antialiased,
            lpips=False,
        )
    return evaluation.scores[0].psnr
