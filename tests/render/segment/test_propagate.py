"""Prompts that are carried through a scene by a segmenter made from its true ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from made_up import MadeUpScene
from test_solve import mean_iou

from luxel.render.errors import LuxelError
from luxel.render.segment import (
    NO_LABEL,
    Box,
    MaskChoice,
    Point,
    Prompt,
    PropagateOptions,
    Propagation,
    Segmenter,
    auto_prompts,
)
from luxel.render.segment.mask_choice import best_for
from luxel.render.segment.mask_prompt import innermost_point, spread_points, trimmed_box
from luxel.render.segment.propagate import changed_share


def clicks(made: MadeUpScene, views: list[str]) -> list[Prompt]:
    """One click on each solid, in the views in turn."""
    return [
        Prompt(label, name, ((*made.click(label, name), True),))
        for label in range(1, made.count)
        for name in [views[label % len(views)]]
    ]


@pytest.mark.parametrize(
    "views",
    [["r_000"], pytest.param(["r_000", "r_003"], marks=pytest.mark.slow)],
    ids=["one view", "two views"],
)
def test_one_click_on_each_object_labels_the_scene(solids_scene: MadeUpScene, views):
    made, looked = solids_scene, []
    options = PropagateOptions(views=6, least_change=0)
    propagation = Propagation(
        made.gaussians, made.views, made.segmenter(1.0), clicks(made, views), options, on_view=looked.append
    )
    result = propagation.run()
    assert len(result.maps) == 6
    assert list(result.maps)[: len(views)] == sorted(views, reverse=len(views) > 1)
    assert set(result.maps) == set(looked)
    assert mean_iou(made, result.solution.labels, slice(None)) > 0.9


def test_a_mask_that_disagrees_has_no_vote(solids_scene: MadeUpScene):
    made, segmenter = solids_scene, solids_scene.segmenter(blind={2})
    options = PropagateOptions(views=3, least_change=0)
    result = Propagation(made.gaussians, made.views, segmenter, clicks(made, ["r_000"]), options).run()
    skipped = [(label, why) for _, label, why in result.skipped if "IoU" in why]
    assert 2 in {label for label, _ in skipped}
    for maps in list(result.maps.values())[1:]:
        assert not (maps == 2).any() and (maps == NO_LABEL).any()
    assert mean_iou(made, result.solution.labels, slice(None)) > 0.7


def test_the_search_ends_when_labels_no_longer_change(solids_scene: MadeUpScene):
    made = solids_scene
    options = PropagateOptions(views=10, least_change=0.2)
    result = Propagation(made.gaussians, made.views, made.segmenter(), clicks(made, ["r_000"]), options).run()
    assert len(result.maps) < 10
    assert result.changes[-1] < 0.2 and all(change >= 0.2 for change in result.changes[:-1])


def test_a_box_prompts_too(solids_scene: MadeUpScene):
    made, name = solids_scene, "r_000"
    prompt = Prompt(1, name, box=trimmed_box(made.ids[name] == 3))
    options = PropagateOptions(views=4)
    result = Propagation(made.gaussians, made.views, made.segmenter(), [prompt], options).run()
    labels = result.solution.labels
    assert (labels[made.solids == 3] == 1).float().mean() > 0.8
    assert (labels[made.solids != 3] == 1).float().mean() < 0.05


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        (Prompt(1, "r_000", ((1.0, 1.0, True),)), "is on nothing"),
        (Prompt(1, "r_099", ((1.0, 1.0, True),)), "no such view"),
        (Prompt(1, "r_000", ((99.0, 1.0, True),)), "outside of the image, which has 80x80"),
        (Prompt(1, "r_000", box=(30.0, 30.0, 20.0, 40.0)), "is empty"),
    ],
)
def test_prompts_of_nothing(solids_scene: MadeUpScene, prompt, says):
    made = solids_scene
    with pytest.raises(LuxelError, match=says) as raised:
        Propagation(made.gaussians, made.views, made.segmenter(), [prompt]).run()
    assert raised.value.remedy


def test_no_prompts(solids_scene: MadeUpScene):
    with pytest.raises(LuxelError, match="nothing to segment"):
        Propagation(solids_scene.gaussians, solids_scene.views, solids_scene.segmenter(), []).run()


def test_prompts_from_masks():
    mask = torch.zeros(200, 300, dtype=torch.bool)
    mask[40:120, 50:150] = True
    mask[199, 299] = True  # a stray pixel
    assert trimmed_box(mask) == pytest.approx((50, 40, 150, 120), abs=2)
    x, y, positive = innermost_point(mask)
    assert positive and (x, y) == pytest.approx((100, 80), abs=12)
    points = spread_points(mask, 3)
    assert points[0] == innermost_point(mask) and len(set(points)) == 3
    assert all(bool(mask[int(y), int(x)]) for x, y, _ in points)
    assert len(spread_points(torch.ones(1, 1, dtype=torch.bool), 3)) == 1
    assert spread_points(torch.zeros(9, 9, dtype=torch.bool), 3) == []
    ring = torch.zeros(40, 40, dtype=torch.bool)
    ring[5:35, 5:35] = True
    ring[10:30, 8:32] = False
    x, y, _ = innermost_point(ring)
    assert ring[int(y), int(x)]
    thin = torch.zeros(500, 500, dtype=torch.bool)
    thin[1, 1:400] = True
    x, y, _ = innermost_point(thin)
    assert thin[int(y), int(x)]


def test_the_changed_share_counts_objects_only():
    before = torch.tensor([0, 1, 1, NO_LABEL, 0], dtype=torch.uint8)
    after = torch.tensor([0, 1, 0, NO_LABEL, 2], dtype=torch.uint8)
    area = torch.tensor([9.0, 2.0, 1.0, 9.0, 1.0])
    assert changed_share(before, after, area, 2) == pytest.approx(1 / 3)
    assert changed_share(before, after, area, 3) == pytest.approx(1)  # 2 is new
    assert changed_share(before, before, area, 3) == 0


@pytest.mark.slow
def test_a_grid_of_points_finds_the_objects(solids_scene: MadeUpScene):
    made = solids_scene
    prompts = auto_prompts(made.gaussians, made.views, made.segmenter())
    clicked = [int(made.ids[p.view][int(p.points[0][1]), int(p.points[0][0])]) for p in prompts]
    assert sorted(clicked) == [1, 2, 3, 4]
    assert [prompt.label for prompt in prompts] == [1, 2, 3, 4]
    first = Prompt(1, "r_000", ((*made.click(3, "r_000"), True),))
    more = auto_prompts(made.gaussians, made.views, made.segmenter(), [first])
    assert {prompt.label for prompt in more} == {2, 3, 4}
    assert 3 not in [int(made.ids[p.view][int(p.points[0][1]), int(p.points[0][0])]) for p in more]


def masks_of(*boxes: tuple[int, int, int, int], sure: tuple[float, ...]) -> MaskChoice:
    """Masks of rectangles (x0, y0, x1, y1) in an image of 20x20 pixels."""
    masks = torch.zeros(len(boxes), 20, 20, dtype=torch.bool)
    for mask, (x0, y0, x1, y1) in zip(masks, boxes, strict=True):
        mask[y0:y1, x0:x1] = True
    return MaskChoice(masks, torch.where(masks, 1.0, -1.0), torch.tensor(sure))


def test_a_mask_that_holds_other_objects_is_worth_less() -> None:
    choice = masks_of((0, 0, 4, 4), (0, 0, 12, 12), sure=(0.95, 1.0))
    click = (1.5, 1.5, True)
    assert best_for(choice, [click]) == 1
    assert best_for(choice, [click], [(15.5, 15.5, True)]) == 1  # beside both
    assert best_for(choice, [click], [(10.5, 10.5, True)]) == 0
    # A part that holds none is not better than an object of which one click on another one is a part.
    choice = masks_of((0, 0, 2, 2), (0, 0, 12, 12), (0, 0, 20, 20), sure=(0.6, 0.96, 1.0))
    assert best_for(choice, [click], [(10.5, 10.5, True), (15.5, 15.5, True), (16.5, 3.5, True)]) == 1


def test_the_whole_and_not_a_part_that_is_as_sure() -> None:
    click = (1.5, 1.5, True)
    assert best_for(masks_of((0, 0, 4, 4), (0, 0, 4, 8), sure=(0.983, 0.982)), [click]) == 1
    assert best_for(masks_of((0, 0, 4, 4), (0, 0, 4, 8), sure=(0.983, 0.93)), [click]) == 0
    assert (
        best_for(masks_of((0, 0, 4, 4), (0, 0, 20, 20), sure=(0.983, 0.982)), [click]) == 0
    )  # its surroundings


def test_a_grid_of_points_on_an_empty_scene(solids_scene: MadeUpScene):
    nothing = solids_scene.gaussians.select(torch.zeros(0, dtype=torch.int64))
    with pytest.raises(LuxelError, match="No objects were found"):
        auto_prompts(nothing, solids_scene.views, solids_scene.segmenter())


def test_points_choose_among_the_masks(solids_scene: MadeUpScene):
    made, ids = solids_scene, solids_scene.ids["r_000"] == 3
    segmenter, view = made.segmenter(), made.views[0]
    rows, columns = ids.nonzero().unbind(1)
    top, bottom = (
        (float(columns[rows == row].float().median()) + 0.5, float(row) + 0.5)
        for row in (rows.min(), rows.max())
    )
    choice = segmenter.masks(segmenter.embed(view.read().rgb), [(*top, True)])
    assert best_for(choice, [(*top, True)]) == 1
    assert best_for(choice, [(*top, True), (*bottom, True)]) == 1
    assert best_for(choice, [(*top, True), (*bottom, False)]) == 0
    prompts = [Prompt(1, "r_000", ((*top, True),)), Prompt(1, "r_000", ((*bottom, False),))]
    options = PropagateOptions(views=1)
    part = Propagation(made.gaussians, made.views, segmenter, prompts, options).run().maps["r_000"]
    assert part[int(top[1]), int(top[0])] == 1 and part[int(bottom[1]), int(bottom[0])] == 0
    with pytest.raises(LuxelError, match="a point next to an object, but none on it"):
        Propagation(made.gaussians, made.views, segmenter, prompts[1:], options).run()


class LostInOneView:
    """A segmenter that finds a corner of the second image it is given."""

    def __init__(self, segmenter: Segmenter) -> None:
        self.segmenter, self.embedded = segmenter, 0

    def embed(self, image: np.ndarray) -> tuple[bool, np.ndarray]:
        self.embedded += 1
        return self.embedded == 2, image

    def masks(
        self, embedding: tuple[bool, np.ndarray], points: Sequence[Point], box: Box | None = None
    ) -> MaskChoice:
        lost, image = embedding
        segmenter = CornerSegmenter() if lost else self.segmenter
        return segmenter.masks(segmenter.embed(image), points, box)


def test_a_view_without_votes_does_not_end_the_search(solids_scene: MadeUpScene):
    made, segmenter = solids_scene, LostInOneView(solids_scene.segmenter())
    options = PropagateOptions(views=4, least_change=0)
    result = Propagation(made.gaussians, made.views, segmenter, clicks(made, ["r_000"]), options).run()
    silent = [bool((maps == NO_LABEL).all()) for maps in result.maps.values()]
    assert silent == [False, True, False, False, False]  # another view replaces the silent one
    assert len(result.changes) == 3
    assert mean_iou(made, result.solution.labels, slice(None)) > 0.8


class LostElsewhere(LostInOneView):
    """A segmenter that finds a corner of all images but the first."""

    def embed(self, image: np.ndarray) -> tuple[bool, np.ndarray]:
        lost, image = super().embed(image)
        return lost or self.embedded > 2, image


def test_views_without_votes_are_replaced_by_as_many_at_most(solids_scene: MadeUpScene):
    made = solids_scene
    options = PropagateOptions(views=3)
    result = Propagation(
        made.gaussians, made.views, LostElsewhere(made.segmenter()), clicks(made, ["r_000"]), options
    ).run()
    assert len(result.maps) == 6 and not result.changes


def test_equal_searches_end_in_equal_labels(solids_scene: MadeUpScene):
    made, options = solids_scene, PropagateOptions(views=4)
    first, second = (
        Propagation(made.gaussians, made.views, made.segmenter(1.0), clicks(made, ["r_000"]), options).run()
        for _ in range(2)
    )
    assert list(first.maps) == list(second.maps)
    assert torch.equal(first.solution.labels, second.solution.labels)


class TwoStripes:
    """A segmenter that is sure of the upper part of its mask only."""

    def embed(self, image: np.ndarray) -> tuple[int, ...]:
        return image.shape[:2]

    def masks(
        self, embedding: tuple[int, ...], points: Sequence[Point], box: Box | None = None
    ) -> MaskChoice:
        logits = torch.full((1, *embedding), -5.0)
        logits[:, :40] = 5
        logits[:, 40:50] = 0.5
        return MaskChoice(logits > 0, logits, torch.ones(1))


def test_pixels_that_may_be_on_either_side_of_a_border_have_no_vote(solids_scene: MadeUpScene):
    made = solids_scene
    prompt = Prompt(1, "r_000", ((*made.click(1, "r_000"), True),))
    result = Propagation(made.gaussians, made.views, TwoStripes(), [prompt], PropagateOptions(views=1)).run()
    rows = result.maps["r_000"].unbind()
    assert [int(row.unique()) for row in (rows[0], rows[39], rows[40], rows[49], rows[50])] == [
        1,
        1,
        NO_LABEL,
        NO_LABEL,
        0,
    ]


def test_what_no_view_has_voted_for_prompts_nothing(solids_scene: MadeUpScene):
    made = solids_scene
    prompts = clicks(made, ["r_000"])
    propagation = Propagation(made.gaussians, made.views, made.segmenter(), prompts)
    result = Propagation(
        made.gaussians, made.views, made.segmenter(), prompts, PropagateOptions(views=1)
    ).run()
    view = max(made.views[1:], key=lambda view: int((made.ids[view.name] == 1).sum()))
    everything = torch.ones_like(result.solution.filled)
    plain = propagation._rendered(view, result.solution, everything, made.count)
    assert plain.voted is plain.labels
    known = result.solution.labels != 1  # as if no view had seen the first solid
    shown = propagation._rendered(view, result.solution, known, made.count)
    assert torch.equal(shown.labels, plain.labels)
    hidden = shown.voted == NO_LABEL
    assert torch.equal(shown.voted[~hidden], shown.labels[~hidden])
    assert bool((shown.labels == 1).any()) and bool((shown.labels[hidden] == 1).float().mean() > 0.9)
    assert not bool((shown.voted == 1).any())


class CornerSegmenter:
    """Finds the first pixels of an image, whatever it is asked for."""

    def embed(self, image: np.ndarray) -> tuple[int, ...]:
        return image.shape[:2]

    def masks(
        self, embedding: tuple[int, ...], points: Sequence[Point], box: Box | None = None
    ) -> MaskChoice:
        mask = torch.zeros(3, *embedding, dtype=torch.bool)
        mask[:, :3, :3] = True
        return MaskChoice(mask, mask * 2.0 - 1, torch.ones(3))


def test_a_mask_of_empty_space(solids_scene: MadeUpScene):
    prompt = Prompt(1, "r_000", box=(10.0, 10.0, 60.0, 60.0))
    with pytest.raises(
        LuxelError, match="no primitives of the scene are below the mask of the box 10 10 60 60"
    ):
        Propagation(solids_scene.gaussians, solids_scene.views, CornerSegmenter(), [prompt]).run()


def test_the_segmenter_of_true_ids_knows_its_images_only(solids_scene: MadeUpScene):
    with pytest.raises(LuxelError, match="no true ids of this image"):
        solids_scene.segmenter().embed(np.zeros((8, 8, 3), np.uint8))
