"""Labels from given label maps of views, some of whose masks may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import View
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.label_map import label_map
from luxel.render.segment.options import SolveOptions
from luxel.render.segment.scores import mask_iou
from luxel.render.segment.solve import Solution, solve
from luxel.render.segment.votes import NO_LABEL, Votes

MIN_IOU = 0.5
MIN_PIXELS = 16
DOUBT = 0.2  # factor on the background's votes while missing masks are searched: these voted for it


class Missing(NamedTuple):
    """A mask that a view lacks, or that disagrees with all other views.

    Args:
        view: its name.
        label: of the object.
        iou: of the mask with the object as the other views label it.
    """

    view: str
    label: int
    iou: float


def solve_maps(
    scene: Parameters,
    views: Sequence[View],
    maps: Sequence[Tensor],
    count: int,
    options: SolveOptions | None = None,
    *,
    check: bool = True,
    **render: Any,
) -> tuple[Solution, Votes, list[Missing]]:
    """Labels of the primitives from label maps.

    Where an object as it is labelled by all views has an IoU below 0.5 with its mask in one view, as segmenters miss
    some, its pixels that are background there do not vote, and the labels are solved again.

    Args:
        scene: N primitives.
        views, maps: V views and their label maps, uint8 [H, W]; NO_LABEL: no vote.
        count: L; labels are below it.
        options: see `solve`.
        check: whether masks are compared so.
        render: options of `luxel.render.raster.rasterize.rasterize` that change alpha.

    Returns:
        Labels, votes, and the masks that are missing.

    Raises:
        ValueError: maps of another size than their view, or labels of L and more.
    """
    votes = _votes(scene, views, maps, count, render)
    options = options or SolveOptions()
    if not check or len(views) < 3:
        return solve(scene, votes, options), votes, []
    solution = solve(scene, votes, replace(options, background_bias=DOUBT * options.background_bias))
    missing: list[Missing] = []
    mended = [
        _without_missing(view, given, rendered, missing)
        for view, given, rendered in zip(
            views, maps, _rendered(scene, views, solution, count, render), strict=True
        )
    ]
    if missing:
        votes = _votes(scene, views, mended, count, render)
    return solve(scene, votes, options), votes, missing


def _votes(
    scene: Parameters, views: Sequence[View], maps: Sequence[Tensor], count: int, render: dict[str, Any]
) -> Votes:
    votes = Votes(scene.count, count, scene.device)
    for view, given in zip(views, maps, strict=True):
        if not bool((given != NO_LABEL).any()):
            continue
        time = view.time if scene.moves else None
        votes.add(scene, view.camera.to(scene.device), given.to(scene.device), time, **render)
    return votes


def _rendered(
    scene: Parameters, views: Sequence[View], solution: Solution, count: int, render: dict[str, Any]
) -> Iterator[Tensor]:
    for view in views:
        time = view.time if scene.moves else None
        yield label_map(scene, view.camera.to(scene.device), solution.labels, count, time, **render).cpu()


def _without_missing(view: View, given: Tensor, rendered: Tensor, missing: list[Missing]) -> Tensor:
    """A label map in which objects whose mask is missing do not vote for the background; adds to ``missing``."""
    out = given
    for label, pixels in enumerate(torch.bincount(rendered.flatten().int(), minlength=256).tolist()):
        if label in (0, NO_LABEL) or pixels < MIN_PIXELS:
            continue
        shown = rendered == label
        iou = mask_iou(shown & (given != NO_LABEL), given == label)
        if iou < MIN_IOU and bool((shown & (given == 0)).any()):
            missing.append(Missing(view.name, label, iou))
            out = torch.where(shown & (given == 0), NO_LABEL, out).to(torch.uint8)
    return out
