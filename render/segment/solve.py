"""Labels of primitives from their votes: argmax, undecided ones from their neighbours, smoothing.

The argmax of the votes is the optimum of FlashSplat's linear programme (Shen et al. 2024, eq. 8); its bias of the
background is a factor on the votes for label 0. Smoothing takes the energy of Potts (1952) over the graph of nearest
neighbours, by iterated conditional modes (Besag 1986).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.ops.train.neighbours import neighbours
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.options import SolveOptions
from luxel.render.segment.votes import NO_LABEL, Votes

HOPS = 32  # over which a label passes from neighbour to neighbour
SAMPLE = 1 << 14  # labelled primitives that isolated ones are compared with
CHUNK = 1 << 12  # isolated primitives that are compared at a time


class Solution(NamedTuple):
    """Labels of N primitives.

    Args:
        labels: uint8 [N]; NO_LABEL where neither votes nor neighbours decide.
        margin: most over second most votes, float32 [N]: the confidence. Infinite where there is one label, 0 without
            votes.
        filled: bool [N], which have the label of their neighbours.
    """

    labels: Tensor
    margin: Tensor
    filled: Tensor


def nearest_primitives(scene: Parameters, count: int) -> Tensor:
    """The nearest others of each primitive, int64 [N, ``count``], see `neighbours`; for `solve`."""
    return neighbours(_points(scene), count).long()


def solve(
    scene: Parameters, votes: Votes, options: SolveOptions | None = None, nearest: Tensor | None = None
) -> Solution:
    """Labels of the primitives of a scene.

    Args:
        scene: the N primitives; those with centres that are not finite get no label from neighbours and give none.
        votes: of them.
        options: None: the defaults.
        nearest: `nearest_primitives` for ``options.neighbours``, where a scene is solved several times; None: they are
            searched.

    Raises:
        ValueError: votes of another number of primitives.
    """
    options = options or SolveOptions()
    if votes.seen.shape != (scene.count,):
        raise ValueError(f"votes must be of {scene.count} primitives, got {list(votes.seen.shape)}")
    leaders = votes.leaders(options.background_bias)
    margin = torch.where(leaders.top > 0, leaders.top / leaders.second, 0)
    undecided = (margin < options.least_margin) | (leaders.top < options.least_weight)
    labels = leaders.label.masked_fill(undecided, NO_LABEL)
    if not options.neighbours or scene.count < 2:
        return Solution(labels, margin, torch.zeros_like(undecided))
    if nearest is None:
        nearest = nearest_primitives(scene, options.neighbours)
    complete = _filled(labels, _points(scene), nearest)
    if options.smoothing > 0:
        complete = _smoothed(complete, votes, nearest, options)
    return Solution(complete, margin, (labels == NO_LABEL) & (complete != NO_LABEL))


def _points(scene: Parameters) -> Tensor:
    """Centres [N, 3], and [N, 4] of moving primitives: their time counts as much as the space that they fill."""
    centres = scene.centres.detach()
    times = scene.tensors().get("times") if scene.moves else None
    if times is None:
        return centres.contiguous()
    finite = torch.isfinite(centres).all(1)
    extent = centres[finite].std(0).mean() if int(finite.sum()) > 1 else centres.new_ones(())
    spread = times.detach().std().clamp_min(1e-12)
    return torch.cat([centres, (times.detach() / spread * extent).reshape(-1, 1)], dim=1)


def _others(nearest: Tensor) -> Tensor:
    """Which entries of a list of neighbours [N, k] are primitives other than the own, bool [N, k]."""
    return nearest != torch.arange(len(nearest), device=nearest.device)[:, None]


def _most_frequent(given: Tensor, counts: Tensor) -> Tensor:
    """The label that most of the entries [M, k] that count have; of equally frequent ones that of the nearest."""
    same = (given[:, :, None] == given[:, None, :]) & counts[:, None, :]
    frequency = same.sum(2).masked_fill(~counts, 0)
    return given.gather(1, frequency.argmax(1, keepdim=True))[:, 0]


def _filled(labels: Tensor, points: Tensor, nearest: Tensor) -> Tensor:
    """Labels [N] in which undecided primitives take the one that most of their labelled neighbours have.

    Labels pass from neighbour to neighbour; a group without a labelled primitive takes that of the nearest of up to
    `SAMPLE` labelled ones.
    """
    labels = labels.clone()
    usable = torch.isfinite(points).all(1)
    for _ in range(HOPS):
        rows = ((labels == NO_LABEL) & usable).nonzero()[:, 0]
        given = labels[nearest[rows]]
        counts = (given != NO_LABEL) & _others(nearest)[rows]
        reached = counts.any(1)
        if not bool(reached.any()):
            break
        labels[rows[reached]] = _most_frequent(given[reached], counts[reached])
    rows = ((labels == NO_LABEL) & usable).nonzero()[:, 0]
    known = ((labels != NO_LABEL) & usable).nonzero()[:, 0]
    if len(rows) and len(known):
        known = known[:: -(-len(known) // SAMPLE)]
        for part in rows.split(CHUNK):
            labels[part] = labels[known[torch.cdist(points[part], points[known]).argmin(1)]]
    return labels


def _smoothed(labels: Tensor, votes: Votes, nearest: Tensor, options: SolveOptions) -> Tensor:
    """Labels [N] after sweeps that maximise share of own votes + smoothing x share of neighbours with the label."""
    labels, others = labels.clone(), _others(nearest)
    weights = votes.weights
    total = weights.sum(1, keepdim=True).clamp_min(1e-12)
    index = torch.arange(len(labels), device=labels.device)
    for sweep in range(2 * options.sweeps):  # half of the primitives at a time: all at once may alternate
        rows = index[sweep % 2 :: 2]
        given = labels[nearest[rows]]
        counts = others[rows] & (given != NO_LABEL)
        candidates = torch.cat([labels[rows][:, None], given], dim=1)
        agreeing = ((candidates[:, :, None] == given[:, None, :]) & counts[:, None, :]).sum(2)
        own = weights[rows].gather(1, candidates.long().clamp(max=votes.labels - 1)) / total[rows]
        score = own + options.smoothing * agreeing / nearest.shape[1]
        score = score.masked_fill(candidates == NO_LABEL, -1)
        labels[rows] = candidates.gather(1, score.argmax(1, keepdim=True))[:, 0]
    return labels
