"""The mask of an object in a view that its rendered labels prompt, and that agrees with them where they are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.segment.mask_prompt import innermost_point, spread_points, trimmed_box
from luxel.render.segment.options import PropagateOptions
from luxel.render.segment.scores import mask_iou, mask_ious
from luxel.render.segment.segmenter import Box, MaskChoice, Point
from luxel.render.segment.votes import NO_LABEL

ALIKE = 0.8  # IoU of what is shown with and without unknown labels, above which one box does
POINTS = 3  # of the prompt without a box
UNSURE = 1.0  # size of logits, below which a pixel may as well be on the other side of a border

FindMasks = Callable[[Sequence[Point], Box | None], MaskChoice]
"""Masks of a view for points and a box."""


class ShownLabels(NamedTuple):
    """What labels show in a view, uint8 [H, W] each.

    Args:
        labels: of all primitives.
        voted: the same; NO_LABEL where primitives are visible that are not known, whose labels are those of their
            neighbours, or of what is in front of them in other views.
    """

    labels: Tensor
    voted: Tensor


def carried_mask(
    find_masks: FindMasks, shown: ShownLabels, value: int, options: PropagateOptions
) -> Tensor | str:
    """Logits of an object in a view, prompted by what its labels show.

    Prompts are the box of what is known of the object, with its innermost point; that of all that has its label, where
    they differ; and points without a box: a mask may go beyond what is known. Of the masks that the segmenter proposes
    the one counts whose IoU with the known labels, where these are known, is largest, times the IoU that the segmenter
    predicts, times its stability.

    Args:
        find_masks: of the view.
        shown: rendered labels.
        value: of the object in them.
        options: what is too small, and what agrees too little.

    Returns:
        Logits, float [H, W], above 0 inside; or why there are none, empty where the object is not visible.
    """
    full, voted = shown.labels == value, shown.voted == value
    pixels = int(full.sum())
    if pixels < options.least_pixels:
        return f"only {pixels} pixels are visible" if pixels else ""
    known = shown.voted != NO_LABEL
    if int(voted.sum()) < options.least_pixels:
        voted, known = full, torch.ones_like(known)
    prompts: list[tuple[Sequence[Point], Box | None]] = [
        ([innermost_point(voted)], trimmed_box(voted)),
        (spread_points(voted, POINTS), None),
    ]
    if mask_iou(voted, full) <= ALIKE:
        prompts.append(([innermost_point(full)], trimmed_box(full)))
    best, agreement, logits = -1.0, 0.0, torch.empty(0)
    for points, box in prompts:
        choice = find_masks(points, box)
        rated = zip(
            choice.predicted_iou.tolist(),
            mask_ious(choice.masks & known, voted),
            stability(choice.logits),
            strict=True,
        )
        for index, (sure, iou, stable) in enumerate(rated):
            # Weighted, as a label that is rendered from one side agrees best with a mask of that part.
            rating = sure * iou * stable
            if rating > best:
                best, agreement = rating, iou
                logits = inside(choice, index)
    if agreement < options.least_iou:
        return f"the best mask has an IoU of {agreement:.2f}"
    return logits


def stability(logits: Tensor) -> list[float]:
    """Of each mask the IoU of what is above and below 0 by `UNSURE`: 1 for a border that no threshold moves.

    After the stability score of SAM's automatic masks (Kirillov et al. 2023).

    Args:
        logits: [M, H, W].
    """
    counts = torch.stack([(logits > UNSURE).sum((1, 2)), (logits > -UNSURE).sum((1, 2))])
    inner, outer = counts.tolist()
    return [few / many if many else 0.0 for few, many in zip(inner, outer, strict=True)]


def inside(choice: MaskChoice, index: int) -> Tensor:
    """Logits [H, W] of a mask, above 0 just where the mask is."""
    logits = choice.logits[index].float()
    return torch.where(choice.masks[index], logits.clamp_min(1e-6), logits.clamp_max(0))
