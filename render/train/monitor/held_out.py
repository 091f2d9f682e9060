"""Evaluates a scene on the held-out views."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.metrics.evaluate import Evaluation, ViewScore, evaluate
from luxel.render.metrics.image_metrics import load_lpips_meanwhile
from luxel.render.primitives.parameters import Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.render.runs.folder.run_folder import RunFolder

WRITERS = min(8, os.cpu_count() or 1)  # threads that write renders
TIMED = 8  # views that are rendered once more for the time it takes, where all have depth


OnView = Callable[[View, ViewScore, Tensor, Tensor], None]  # see `luxel.render.metrics.evaluate.evaluate`
Watch = Callable[[Sequence[View]], OnView | None]  # called with the views when they begin to be measured


class HeldOut(NamedTuple):
    """Scores of held-out views, and the median time in ms to render one (without the first, if there are others)."""

    evaluation: Evaluation
    frame_ms: float


def prepare(run: Any) -> None:
    """Begins to load what the last evaluation of a `luxel.render.train.Trainer` needs while its steps use the GPU."""
    if run.device.type == "cuda" and run.config.lpips and run.test_views:
        load_lpips_meanwhile(run.device)


def measure(
    scene: Parameters,
    views: Sequence[View],
    background: Tensor,
    folder: RunFolder,
    *,
    antialiased: bool,
    lpips: bool,
    save_renders: int,
    aligned: bool = False,
    camera_response: Callable[..., Tensor] | None = None,
    refine: float | None = None,
    depth: Literal["metric", "align"] | None = None,
    render: Callable[..., Any] = rasterize,
    watch: Watch | None = None,
) -> HeldOut | None:
    """Scores of held-out views, and the time to render them; None if there are none.

    Args:
        background: of render and image, [3]; evaluation runs on its device.
        folder: where renders are written.
        antialiased: as in training.
        lpips: LPIPS too, if its weights are available.
        save_renders: number of renders written next to the ground truth, evenly spread over the views.
        aligned, camera_response, refine, depth, render: see `luxel.render.metrics.evaluate.evaluate`.
        watch: gives what is called after each view; None, or where it gives None: nothing is.
    """
    if not views:
        return None
    spread = np.linspace(0, len(views) - 1, min(save_renders, len(views)))
    chosen = {views[i].name for i in spread.round().astype(int)}
    seconds: list[float] = []

    def timed(*args: Any, **options: Any) -> Any:
        if torch.is_grad_enabled() or options.get("depth"):  # a camera is refined, or depth compared
            return render(*args, **options)
        wait_for(background.device)
        start = time.perf_counter()
        frame = render(*args, **options)
        wait_for(background.device)
        seconds.append(time.perf_counter() - start)
        return frame

    # Compressing PNG takes longer than all metrics together.
    with folder.saving_renders() as save_render, ThreadPoolExecutor(WRITERS) as pool:
        writes: deque[Future[None]] = deque()
        watched = watch(views) if watch is not None else None

        def save(view: View, score: ViewScore, render: Tensor, image: Tensor) -> None:
            if watched is not None:
                watched(view, score, render, image)
            if view.name in chosen:
                if len(writes) >= 2 * WRITERS:  # images that wait fill the memory
                    writes.popleft().result()
                both = torch.cat([image, render], 1).clamp(0, 1).mul(255).add(0.5).to(torch.uint8)
                writes.append(pool.submit(save_render, view.name, both.cpu().numpy()))

        evaluation = evaluate(
            scene.detach(),
            views,
            background=background,
            device=background.device,
            antialiased=antialiased,
            lpips=lpips,
            aligned=aligned,
            camera_response=camera_response,
            refine=refine,
            depth=depth,
            on_view=save,
            render=timed,
            say=folder.say,
        )
        for write in writes:
            write.result()
    if not seconds:  # every view was rendered with its depth
        options = {"background": background, "antialiased": antialiased}
        with torch.no_grad():
            for view in views[:TIMED]:
                timed(scene.detach(), view.camera.to(background.device), time=view.time, **options)
    return HeldOut(evaluation, 1e3 * statistics.median(seconds[1:] or seconds))


def measured(
    run: Any, render: Callable[..., Any], lpips: bool, save_renders: int, watch: Watch | None = None
) -> HeldOut | None:
    """The held-out views of a `luxel.render.train.Trainer`, measured with what memory there is; None: not measured.

    See `measure` for the other arguments, and `MemoryBudget.measured`.
    """
    background = torch.full((3,), 0.0 if run.background == "black" else 1.0, device=run.device)
    options: dict[str, Any] = {
        "antialiased": run.config.antialiased,
        "save_renders": save_renders,
        "render": render,
        "watch": watch,
    }
    options |= run.models.scoring
    options["depth"] = None if run.config.depth == "none" else run.config.depth_scale
    return run.memory.measured(
        lambda lpips: measure(
            run.scene,
            run.models.evaluation_views(run.test_views),
            background,
            run.folder,
            lpips=lpips,
            **options,
        ),
        None if run.dataset.streaming else run.stream_images,
        lpips,
        f"luxel eval {run.folder.path}",
    )


def wait_for(device: torch.device) -> None:
    """Returns when a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
