"""Segmentation: labels of primitives from masks of views, and label images of any camera.

After SAGOnline (Sun et al. 2025) and FlashSplat (Shen et al. 2024). Labels are uint8: 0 is the background, 1 to 254
are objects, 255 says nothing (no vote, no label). Functions that are named like their module are imported from it:
`label_image`, `label_map`, `next_view` and `solve`.
"""

from typing import TYPE_CHECKING

from luxel.render.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from luxel.render.segment.auto import auto_prompts
    from luxel.render.segment.label_image import LabelImage
    from luxel.render.segment.next_view import ViewWeights
    from luxel.render.segment.options import PropagateOptions, SolveOptions
    from luxel.render.segment.propagate import Propagated, Propagation
    from luxel.render.segment.scores import LabelScores, mask_iou
    from luxel.render.segment.segmenter import Box, MaskChoice, Point, Prompt, Segmenter
    from luxel.render.segment.solve import Solution
    from luxel.render.segment.view_maps import Missing, solve_maps
    from luxel.render.segment.votes import MAX_LABELS, NO_LABEL, Votes

__getattr__ = lazy_exports(
    __name__,
    {
        "Box": "segmenter",
        "LabelImage": "label_image",
        "LabelScores": "scores",
        "MAX_LABELS": "votes",
        "MaskChoice": "segmenter",
        "Missing": "view_maps",
        "NO_LABEL": "votes",
        "Point": "segmenter",
        "Prompt": "segmenter",
        "PropagateOptions": "options",
        "Propagated": "propagate",
        "Propagation": "propagate",
        "Segmenter": "segmenter",
        "Solution": "solve",
        "SolveOptions": "options",
        "ViewWeights": "next_view",
        "Votes": "votes",
        "auto_prompts": "auto",
        "mask_iou": "scores",
        "solve_maps": "view_maps",
    },
)
__all__ = [
    "MAX_LABELS",
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
    "mask_iou",
    "solve_maps",
]
