"""Segmentation: labels of primitives from masks of views, and label images of any camera.

After SAGOnline (Sun et al. 2025) and FlashSplat (Shen et al. 2024). Labels are uint8: 0 is the background, 1 to 254
are objects, 255 says nothing (no vote, no label).
"""

from luxel.render.segment.auto import auto_prompts
from luxel.render.segment.label_image import LabelImage, label_image
from luxel.render.segment.label_map import label_map
from luxel.render.segment.next_view import ViewWeights, next_view
from luxel.render.segment.propagate import Propagated, PropagateOptions, Propagation
from luxel.render.segment.scores import LabelScores, mask_iou
from luxel.render.segment.segmenter import Box, MaskChoice, Point, Prompt, Segmenter
from luxel.render.segment.solve import Solution, SolveOptions, solve
from luxel.render.segment.view_maps import Missing, solve_maps
from luxel.render.segment.votes import MOST_LABELS, NO_LABEL, Votes

__all__ = [
    "MOST_LABELS",
    "NO_LABEL",
    "Box",
    "LabelImage",
    "LabelScores",
    "MaskChoice",
    "Missing",
    "Point",
    "Prompt",
    "PropagateOptions",
    "Propagated",
    "Propagation",
    "Segmenter",
    "Solution",
    "SolveOptions",
    "ViewWeights",
    "Votes",
    "auto_prompts",
    "label_image",
    "label_map",
    "mask_iou",
    "next_view",
    "solve",
    "solve_maps",
]
