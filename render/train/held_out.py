"""Measures a scene on the views that training does not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from luxel.render.camera import View
from luxel.render.evaluate import Evaluation, evaluate
from luxel.render.metrics import MetricError
from luxel.render.primitives.parameters import Parameters
from luxel.render.rasterize import rasterize
from luxel.render.runs.run_folder import RunFolder


def measure(
    scene: Parameters,
    views: Sequence[View],
    background: Tensor,
    folder: RunFolder,
    *,
    antialiased: bool,
    lpips: bool,
    save_renders: int,
    render: Callable[..., Any] = rasterize,
) -> Evaluation | None:
    """Scores of held-out views; None where there are none.

    Args:
        background: behind render and photograph, [3]; its device is where the work is done.
        folder: gets the renders.
        antialiased: as in training.
        lpips: LPIPS too, where its weights are at hand.
        save_renders: how many renders to write beside their photographs, evenly spread over the views.
        render: as `luxel.render.evaluate.evaluate`.
    """
    if not views:
        return None
    spread = np.linspace(0, len(views) - 1, min(save_renders, len(views)))
    chosen = {views[i].name for i in spread.round().astype(int)}

    def save(view: View, _: Any, render: Tensor, photograph: Tensor) -> None:
        if view.name in chosen:
            folder.save_render(view.name, photograph, render)

    def score(with_lpips: bool) -> Evaluation:
        options = {"background": background, "device": background.device, "antialiased": antialiased}
        return evaluate(scene.detach(), views, lpips=with_lpips, on_view=save, render=render, **options)

    try:
        return score(lpips)
    except MetricError as error:
        folder.say(f"{error} Going on without LPIPS.")
        return score(False)
