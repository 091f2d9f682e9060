"""Prompts without a person: a grid of points in a few views, whose masks are merged through the scene.

After the automatic mask generator of SAM (Kirillov et al. 2023): a grid of points, masks that the segmenter is sure of,
suppression of those that overlap. What labels from the views before cover is not prompted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.label_image import label_image
from luxel.render.segment.label_map import label_map
from luxel.render.segment.mask_prompt import innermost_point
from luxel.render.segment.options import PropagateOptions, SolveOptions
from luxel.render.segment.propagate import EMPTY, Propagation, photograph
from luxel.render.segment.segmenter import Point, Prompt, Segmenter, on_cpu
from luxel.render.segment.votes import NO_LABEL

GRID = 12  # points along the longer side of an image
VIEWS = 3  # whose grids are merged
SURE = 0.8  # least predicted IoU of a mask
OVERLAP = 0.5  # IoU, or fraction already labelled, from which a mask is nothing new
LEAST, MOST = 0.001, 0.6  # fractions of the image that a mask may cover
MAX_OBJECTS = 254


class _Candidate(NamedTuple):
    mask: Tensor
    score: float
    point: Point


def auto_prompts(
    scene: Parameters,
    views: Sequence[View],
    segmenter: Segmenter,
    known: Sequence[Prompt] = (),
    options: PropagateOptions | None = None,
    solving: SolveOptions | None = None,
    **render: Any,
) -> list[Prompt]:
    """Prompts of objects that no prompt means yet.

    Args:
        scene: N primitives.
        views: of which `VIEWS` are searched, evenly.
        segmenter: finds masks in them.
        known: prompts of objects that are there already.
        options, solving: of the propagation between the views.
        render: options of `luxel.render.raster.rasterize.rasterize` that change alpha.

    Returns:
        One prompt for each new object, with the labels that follow those of ``known``.

    Raises:
        LuxelError: nothing is found.
    """
    new: list[Prompt] = []
    positions = range(0, len(views), max(1, len(views) // VIEWS))
    for view in [views[position] for position in positions][:VIEWS]:
        time, camera = view.time if scene.moves else None, view.camera.to(scene.device)
        none = torch.zeros(scene.count, dtype=torch.uint8, device=scene.device)
        taken = label_image(scene, camera, none, 1, time, **render).transmittance.cpu() > EMPTY
        prompts = [*known, *new]
        if prompts:
            result = Propagation(scene, views, segmenter, prompts, options, solving, render=render).run()
            count = 1 + max(prompt.label for prompt in prompts)
            visible = label_map(scene, camera, result.solution.labels, count, time, **render).cpu()
            taken |= (visible > 0) & (visible != NO_LABEL)
        label = max((prompt.label for prompt in prompts), default=0)
        for candidate in _candidates(segmenter, view, taken)[: MAX_OBJECTS - label]:
            label += 1
            new.append(Prompt(label, view.name, (candidate.point,)))
    if not new and not known:
        raise LuxelError(
            "No objects were found by a grid of points.", "Click on them: --click VIEW X Y --name NAME."
        )
    return new


def _candidates(segmenter: Segmenter, view: View, taken: Tensor) -> list[_Candidate]:
    """Masks in a view that the segmenter is sure of and that are not ``taken``, bool [H, W]; surest first."""
    embedding = segmenter.embed(photograph(view))
    height, width = taken.shape
    step = max(height, width) / GRID
    candidates = []
    for row in range(max(1, round(height / step))):
        for column in range(max(1, round(width / step))):
            x, y = min((column + 0.5) * step, width - 0.5), min((row + 0.5) * step, height - 0.5)
            if bool(taken[int(y), int(x)]):
                continue
            choice = on_cpu(segmenter.masks(embedding, points=[(x, y, True)], box=None))
            best = choice.surest
            candidates.append(_Candidate(choice.masks[best], float(choice.predicted_iou[best]), (x, y, True)))
    chosen: list[_Candidate] = []
    for candidate in sorted(candidates, key=lambda entry: -entry.score):
        if _is_new(candidate, [other.mask for other in chosen], taken):
            chosen.append(candidate._replace(point=innermost_point(candidate.mask)))
    return chosen


def _is_new(candidate: _Candidate, chosen: list[Tensor], taken: Tensor) -> bool:
    mask, area = candidate.mask, int(candidate.mask.sum())
    if candidate.score < SURE or not LEAST * mask.numel() <= area <= MOST * mask.numel():
        return False
    if int((mask & taken).sum()) > OVERLAP * area:
        return False
    return all(int((mask & other).sum()) <= OVERLAP * min(area, int(other.sum())) for other in chosen)
