"""Labels from votes, and their scores."""

from __future__ import annotations

import math

import pytest
import torch
from convex_scenes import random_convexes
from gaussians4d_scenes import random_gaussians4d
from made_up import MadeUpScene

from luxel.render.primitives.gaussians import Gaussians
from luxel.render.segment import NO_LABEL, LabelScores, SolveOptions, Votes, mask_iou, solve_maps
from luxel.render.segment.label_map import label_map
from luxel.render.segment.solve import solve
from luxel.render.segment.votes import Leaders
from luxel.scenes.synthetic.id_segmenter import displaced


def voted(made: MadeUpScene, names: list[str], noise: float = 0.0) -> Votes:
    votes = Votes(made.gaussians.count, made.count)
    for index, view in enumerate(made.views):
        if view.name in names:
            votes.add(made.gaussians, view.camera, displaced(made.ids[view.name], noise, index))
    return votes


def names_of(made: MadeUpScene, part: slice) -> list[str]:
    return [view.name for view in made.views[part]]


def mean_iou(made: MadeUpScene, labels: torch.Tensor, part: slice) -> float:
    scores = LabelScores(made.count)
    for view in made.views[part]:
        scores.add(label_map(made.gaussians, view.camera, labels, made.count), made.ids[view.name])
    return scores.mean_iou


@pytest.mark.parametrize(("noise", "least"), [(0.0, 0.93), (2.0, 0.9)])
def test_masks_of_half_of_the_views_label_the_scene(solids_scene: MadeUpScene, noise, least):
    solution = solve(
        solids_scene.gaussians, voted(solids_scene, names_of(solids_scene, slice(0, None, 2)), noise)
    )
    assert mean_iou(solids_scene, solution.labels, slice(1, None, 2)) > least
    assert (solution.labels == solids_scene.solids)[solution.margin > 2].float().mean() > 0.95


def test_odd_and_even_views_agree(solids_scene: MadeUpScene):
    parts = [voted(solids_scene, names_of(solids_scene, slice(start, None, 2))) for start in (0, 1)]
    a, b = (solve(solids_scene.gaussians, votes).labels for votes in parts)
    visible = (parts[0].seen > 0.1) & (parts[1].seen > 0.1)
    assert (a == b)[visible].float().mean() > 0.98


def test_masks_that_are_missing_do_not_vote_for_the_background(solids_scene: MadeUpScene):
    views = solids_scene.views[:3]
    maps = [solids_scene.ids[view.name].clone() for view in views]
    maps[1][maps[1] == 3] = 0
    given = (solids_scene.gaussians, views, maps, solids_scene.count)
    solution, votes, missing = solve_maps(*given)
    assert [(entry.view, entry.label) for entry in missing] == [(views[1].name, 3)]
    plain, unmended, none = solve_maps(*given, check=False)
    assert none == []
    assert votes.weights[:, 0].sum() < unmended.weights[:, 0].sum()
    solid = solids_scene.solids == 3
    assert (solution.labels == 3)[solid].sum() >= (plain.labels == 3)[solid].sum()


def line(count: int) -> Gaussians:
    """Gaussians on a line, 1 apart."""
    means = torch.zeros(count, 3)
    means[:, 0] = torch.arange(count)
    return Gaussians(
        means=means,
        quats=torch.tensor([1.0, 0, 0, 0]).repeat(count, 1),
        log_scales=torch.full((count, 3), math.log(0.2)),
        opacity_logits=torch.zeros(count),
        sh_dc=torch.zeros(count, 3),
        sh_rest=torch.zeros(count, 0, 3),
    )


class GivenVotes(Votes):
    """Votes with given sums [N, L]."""

    def __init__(self, sums: torch.Tensor) -> None:
        super().__init__(len(sums), sums.shape[1])
        self._given = sums

    @property
    def weights(self) -> torch.Tensor:
        return self._given

    @property
    def seen(self) -> torch.Tensor:
        return self._given.sum(1)

    def leaders(self, background_bias: float = 1.0) -> Leaders:
        weights = self._given.clone()
        weights[:, 0] *= background_bias
        top, index = weights.topk(2, dim=1)
        label = torch.where(top[:, 0] > 0, index[:, 0], NO_LABEL).to(torch.uint8)
        return Leaders(label, top[:, 0], top[:, 1])


def test_undecided_primitives_take_the_label_of_their_neighbours():
    sums = torch.zeros(12, 3)
    sums[0, 1], sums[11, 2] = 5, 5
    solution = solve(line(12), GivenVotes(sums), SolveOptions(neighbours=2))
    assert solution.labels.tolist() == [1] * 6 + [2] * 6
    assert solution.filled.tolist() == [False] + [True] * 10 + [False]
    unfilled = solve(line(12), GivenVotes(sums), SolveOptions(neighbours=0)).labels
    assert unfilled.tolist() == [1] + [NO_LABEL] * 10 + [2]


def test_isolated_groups_take_the_nearest_label():
    scene, sums = line(8), torch.zeros(8, 2)
    scene.means[4:, 0] += 1000
    sums[3, 1] = 1
    assert solve(scene, GivenVotes(sums), SolveOptions(neighbours=2)).labels.tolist() == [1] * 8


def test_primitives_that_are_not_finite_have_no_label():
    scene, sums = line(6), torch.zeros(6, 2)
    scene.means[2] = math.nan
    sums[0, 1] = 1
    labels = solve(scene, GivenVotes(sums), SolveOptions(neighbours=2)).labels
    assert labels.tolist() == [1, 1, NO_LABEL, 1, 1, 1]


def test_primitives_that_are_nan_have_no_votes(solids_scene: MadeUpScene):
    broken = solids_scene.gaussians.map(torch.clone)
    broken.means[:50], broken.opacity_logits[50:100] = math.nan, math.nan
    view = solids_scene.views[0]
    votes = Votes(broken.count, solids_scene.count)
    votes.add(broken, view.camera, solids_scene.ids[view.name])
    assert votes.weights.isfinite().all() and (votes.seen[:100] == 0).all()
    assert (solve(broken, votes).labels[:50] == NO_LABEL).all()


def test_margin_bias_and_limits():
    sums = torch.tensor([[4.0, 5.0], [1.0, 9.0], [0.0, 0.1], [0.0, 0.0]])
    plain = solve(line(4), GivenVotes(sums), SolveOptions(neighbours=0))
    assert plain.labels.tolist() == [1, 1, 1, NO_LABEL]
    assert plain.margin.tolist() == pytest.approx([1.25, 9, math.inf, 0])
    biased = solve(line(4), GivenVotes(sums), SolveOptions(neighbours=0, background_bias=2))
    assert biased.labels.tolist() == [0, 1, 1, NO_LABEL]
    strict = solve(line(4), GivenVotes(sums), SolveOptions(neighbours=0, least_margin=2, least_weight=1))
    assert strict.labels.tolist() == [NO_LABEL, 1, NO_LABEL, NO_LABEL]


def test_smoothing_removes_a_doubtful_speck_and_keeps_a_clear_one():
    sums = torch.tensor([[0.0, 9.0]] * 9)
    sums[3], sums[6] = torch.tensor([5.0, 4.0]), torch.tensor([9.0, 0.0])
    solution = solve(line(9), GivenVotes(sums), SolveOptions(neighbours=2, smoothing=0.5))
    assert solution.labels.tolist() == [1, 1, 1, 1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize("make", [random_convexes, random_gaussians4d], ids=["convexes", "4D Gaussians"])
def test_any_primitive_is_labelled(make, toy_camera):
    scene = make(60).to(torch.float32)
    camera, time = toy_camera(40, 30), 0.5 if scene.moves else None
    maps = torch.zeros(30, 40, dtype=torch.uint8)
    maps[:, 20:] = 1
    votes = Votes(scene.count, 2)
    votes.add(scene, camera, maps, time)
    solution = solve(scene, votes, SolveOptions(smoothing=0.1))
    assert (solution.labels != NO_LABEL).all()
    assert (label_map(scene, camera, solution.labels, 2, time)[:, 30:] == 1).float().mean() > 0.5
    assert solution.filled.any() == (votes.weights.sum(1) == 0).any()


def test_votes_of_another_scene():
    with pytest.raises(ValueError, match="votes must be of 3 primitives"):
        solve(line(3), Votes(4, 2))


def test_scores():
    truth = torch.tensor([[0, 1, 1, 1], [2, 2, 255, 255]], dtype=torch.uint8)
    predicted = torch.tensor([[0, 1, 1, 2], [2, 255, 1, 1]], dtype=torch.uint8)
    scores = LabelScores(4)
    one = scores.add(predicted, truth)
    torch.testing.assert_close(one.iou, scores.iou, equal_nan=True)
    assert scores.iou[:3].tolist() == pytest.approx([1 / 2, 2 / 3, 1 / 3])
    assert math.isnan(scores.iou[3])
    assert scores.mean_iou == pytest.approx(0.5)
    assert scores.accuracy == pytest.approx(4 / 6)
    assert mask_iou(truth == 1, predicted == 1) == pytest.approx(2 / 5)
    with pytest.raises(ValueError, match=r"predicted must be .* like truth"):
        scores.add(predicted, truth[:1])
    with pytest.raises(ValueError, match="labels must be below 2"):
        LabelScores(2).add(predicted, truth)
    with pytest.raises(ValueError, match="count must be 1 to 255"):
        LabelScores(256)
