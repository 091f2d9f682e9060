"""Which of the masks that a segmenter proposes is meant by the points that prompted it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from luxel.render.segment.segmenter import MaskChoice, Point

INTRUSION = 0.1  # of predicted IoU, for each click on another object that a mask holds
TIE, MAX_GROWTH = 0.02, 2.0  # of predicted IoU, and of area


def best_for(choice: MaskChoice, points: Sequence[Point], others: Sequence[Point] = ()) -> int:
    """The mask that is meant by points: of those that most of them agree with, that of the largest predicted IoU.

    Where the segmenter has a single answer to the points, it counts if no other mask agrees with more of them. Else: a
    part and the whole of an object are often predicted to be equally good. Of masks within `TIE` of the largest
    predicted IoU, the largest counts, up to `MAX_GROWTH` times the area: what is larger still is rather background.

    Args:
        choice: the masks.
        points: of the object.
        others: on other objects. Objects do not overlap, so a mask loses `INTRUSION` for each that it holds.
    """
    height, width = choice.masks.shape[-2:]

    def within(mask: Tensor, point: Point) -> bool:
        return bool(mask[min(int(point[1]), height - 1), min(int(point[0]), width - 1)])

    agreeing = [sum(within(mask, point) == point[2] for point in points) for mask in choice.masks]
    worth = [
        float(sure) - INTRUSION * sum(within(mask, point) for point in others)
        for mask, sure in zip(choice.masks, choice.predicted_iou, strict=True)
    ]
    area = [int(mask.sum()) for mask in choice.masks]
    candidates = [index for index, count in enumerate(agreeing) if count == max(agreeing)]
    if choice.single and 0 in candidates and not any(within(choice.masks[0], point) for point in others):
        return 0
    best = max(candidates, key=worth.__getitem__)
    alike = (i for i in candidates if worth[i] >= worth[best] - TIE and area[i] <= MAX_GROWTH * area[best])
    return max(alike, key=area.__getitem__)
