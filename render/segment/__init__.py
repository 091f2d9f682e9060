"""Segmentation: labels of primitives from masks of views, and label images of any camera.

After SAGOnline (Sun et al. 2025) and FlashSplat (Shen et al. 2024). Labels are uint8: 0 is the background, 1 to 254
are objects, 255 says nothing (no vote, no label).
"""

from luxel.render.segment.label_image import LabelImage, label_image
from luxel.render.segment.label_map import label_map
from luxel.render.segment.scores import LabelScores, mask_iou
from luxel.render.segment.solve import Solution, SolveOptions, solve
from luxel.render.segment.votes import MOST_LABELS, NO_LABEL, Votes

__all__ = [
    "MOST_LABELS",
    "NO_LABEL",
    "LabelImage",
    "LabelScores",
    "Solution",
    "SolveOptions",
    "Votes",
    "label_image",
    "label_map",
    "mask_iou",
    "solve",
]
