"""Which mask of a segmenter carries an object on, given what its labels show in the view."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from luxel.render.segment import NO_LABEL, Box, MaskChoice, Point, PropagateOptions
from luxel.render.segment.carried_mask import ShownLabels, carried_mask, stability

SIDE = 40


def area(x0: int, x1: int) -> Tensor:
    """The columns from x0 to x1 of an image, bool."""
    mask = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    mask[:, x0:x1] = True
    return mask


def choice(*masks: Tensor, logit: float = 5.0) -> MaskChoice:
    stacked = torch.stack(masks)
    return MaskChoice(stacked, torch.where(stacked, logit, -logit), torch.full((len(masks),), 0.9))


class Prompts:
    """A segmenter with one answer to prompts with a box and another one to points, which it remembers."""

    def __init__(self, boxed: MaskChoice, pointed: MaskChoice) -> None:
        self.boxed, self.pointed = boxed, pointed
        self.points: list[Sequence[Point]] = []
        self.boxes: list[Box | None] = []

    def __call__(self, points: Sequence[Point], box: Box | None) -> MaskChoice:
        self.points.append(points)
        self.boxes.append(box)
        return self.pointed if box is None else self.boxed


def shown(labels: Tensor, unknown: Tensor) -> ShownLabels:
    given = labels.to(torch.uint8)
    return ShownLabels(given, given.masked_fill(unknown, NO_LABEL))


def test_a_mask_may_go_beyond_what_is_known() -> None:
    # Columns 0 to 10 are known to be the object, and from 20 on to be background; between them nothing is known.
    prompts = Prompts(choice(area(0, 8)), choice(area(0, 20)))
    logits = carried_mask(prompts, shown(area(0, 10), area(10, 20)), 1, PropagateOptions())
    assert isinstance(logits, Tensor) and torch.equal(logits > 0, area(0, 20))
    assert prompts.boxes == [(0, 0, 10, SIDE), None]
    assert [len(points) for points in prompts.points] == [1, 3]


def test_what_unknown_labels_show_prompts_too_where_it_differs() -> None:
    prompts = Prompts(choice(area(0, 20)), choice(area(30, 40)))
    logits = carried_mask(prompts, shown(area(0, 20), area(10, 20)), 1, PropagateOptions())
    assert isinstance(logits, Tensor) and torch.equal(logits > 0, area(0, 20))
    assert prompts.boxes == [(0, 0, 10, SIDE), None, (0, 0, 20, SIDE)]


def test_a_mask_that_disagrees_with_what_is_known_is_refused() -> None:
    prompts = Prompts(choice(area(0, 40)), choice(area(0, 36)))
    refused = carried_mask(prompts, shown(area(0, 10), area(40, 40)), 1, PropagateOptions())
    assert refused == "the best mask has an IoU of 0.28"


def test_of_equal_masks_the_one_with_a_sure_border_counts() -> None:
    unsure = choice(area(0, 10))
    unsure.logits[:, :, 10:12] = -0.5
    prompts = Prompts(unsure, choice(area(0, 11)))
    logits = carried_mask(prompts, shown(area(0, 10), area(40, 40)), 1, PropagateOptions())
    assert isinstance(logits, Tensor) and torch.equal(logits > 0, area(0, 11))
    assert stability(unsure.logits) == pytest.approx([10 / 12])
    assert stability(torch.full((2, 3, 3), -4.0)) == [0, 0]


@pytest.mark.parametrize(("columns", "says"), [(0, ""), (1, "only 40 pixels are visible")])
def test_objects_that_are_hardly_visible(columns: int, says: str) -> None:
    prompts = Prompts(choice(area(0, 1)), choice(area(0, 1)))
    labels = shown(area(0, columns), area(40, 40))
    assert carried_mask(prompts, labels, 1, PropagateOptions(least_pixels=41)) == says
    assert not prompts.boxes


def test_an_object_of_which_nothing_is_known_prompts_by_its_labels() -> None:
    prompts = Prompts(choice(area(0, 10)), choice(area(0, 10)))
    logits = carried_mask(prompts, shown(area(0, 10), area(0, 10)), 1, PropagateOptions())
    assert isinstance(logits, Tensor)
    assert prompts.boxes == [(0, 0, 10, SIDE), None]
