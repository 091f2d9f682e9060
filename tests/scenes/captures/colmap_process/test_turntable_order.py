"""The order of the images of a turntable: which pairs begin, and whether the order says anything."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.colmap_process.still_features import Turntable
from luxel.scenes.captures.colmap_process.turntable_mapping import in_order, window_pairs
from luxel.scenes.captures.colmap_process.two_view import VerifiedPairs


def pairs_of(ids: list[tuple[int, int]]) -> VerifiedPairs:
    count = np.full(len(ids), 40)
    return VerifiedPairs(np.array(ids), count, [np.zeros((1, 2), int)] * len(ids), {}, {}, len(ids))


def test_neighbours_within_a_fourteenth_of_a_turn_begin() -> None:
    pairs = window_pairs([list(range(1, 43))])
    assert (1, 2) in pairs and (1, 4) in pairs and (1, 5) not in pairs
    assert (1, 42) not in pairs  # whether the turn is complete is not known yet


def test_at_least_two_neighbours_begin_and_no_pairs_of_different_positions() -> None:
    assert window_pairs([[1, 2, 3, 4], [5, 6]]) == {(1, 2), (2, 3), (3, 4), (1, 3), (2, 4), (5, 6)}


def test_the_order_counts_where_neighbours_match() -> None:
    turntable = Turntable([list(range(1, 11))], {})
    assert in_order(turntable, pairs_of([(k, k + 1) for k in range(1, 10)]))
    assert not in_order(turntable, pairs_of([(k, k + 3) for k in range(1, 8)]))


def test_some_of_the_pairs_are_chosen() -> None:
    pairs = pairs_of([(1, 2), (2, 3), (3, 4)]).chosen(np.array([True, False, True]))
    assert pairs.ids.tolist() == [[1, 2], [3, 4]] and len(pairs.matches) == len(pairs.counts) == 2
