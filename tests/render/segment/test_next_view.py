"""The order in which views are looked at: from view to view around an object."""

from __future__ import annotations

import pytest
import torch
from made_up import MadeUpScene

from luxel.render.segment import ViewWeights
from luxel.render.segment.next_view import KNOWN_AREA, MIN_KNOWN, label_sums, next_view


@pytest.fixture(scope="module")
def weights(solids_scene: MadeUpScene) -> ViewWeights:
    """Of the ten views, 36 degrees apart."""
    return ViewWeights(solids_scene.gaussians, solids_scene.views)


def test_views_follow_each_other_around_the_object(solids_scene: MadeUpScene, weights: ViewWeights):
    labels = (solids_scene.solids == 1).to(torch.uint8)
    looked: dict[str, set[int]] = {"r_000": set()}
    for _ in range(6):
        chosen = next_view(weights, looked, labels, 2)
        assert chosen is not None and chosen.name not in looked
        known = weights.weights[weights.index(chosen.name)].float()
        shown = label_sums(known[None], labels, 2)[0, 1]
        new = label_sums(known[None], labels, 2, weights.voted(looked, labels)[0])[0, 1]
        assert 1 - new / shown >= MIN_KNOWN
        looked[chosen.name] = set()


def test_the_first_step_is_no_neighbour_and_not_the_other_side(
    solids_scene: MadeUpScene, weights: ViewWeights
):
    ball = (solids_scene.solids == 2).to(torch.uint8)  # of which the views opposite share little
    chosen = next_view(weights, {"r_000": set()}, ball, 2)
    assert chosen is not None and chosen.name not in {"r_004", "r_005", "r_006"}


def test_views_without_a_vote_make_nothing_known(solids_scene: MadeUpScene, weights: ViewWeights):
    labels = (solids_scene.solids == 1).to(torch.uint8)
    both = {"r_000": set[int](), "r_001": {1}}
    one = {"r_000": set[int]()}
    of_object = labels == 1
    assert torch.equal(weights.voted(both, labels)[:, of_object], weights.voted(one, labels)[:, of_object])
    assert bool((weights.voted(both, labels) >= weights.voted(one, labels)).all())
    known = weights.known("r_002", both, labels)
    expected = weights.voted(one, labels)[0] >= KNOWN_AREA * weights.weights[2].float()
    assert torch.equal(known[of_object], expected[of_object])
    assert not bool(weights.voted({}, labels).any())


def test_no_view_is_left(solids_scene: MadeUpScene, weights: ViewWeights):
    labels = (solids_scene.solids == 1).to(torch.uint8)
    everything = {view.name: set[int]() for view in solids_scene.views}
    assert next_view(weights, everything, labels, 2) is None
    assert next_view(weights, {}, torch.zeros_like(solids_scene.solids), 2) is None
    assert next_view(weights, {}, labels, 2) is not None  # nothing is known yet
