"""Matches of features that have several descriptors each."""

from __future__ import annotations

import numpy as np
import torch

from luxel.scenes.captures.colmap_process.affine.simulated_views import AffineFeatures

RATIO = 0.8  # distance of the best match to that of the next one elsewhere (Lowe 2004)
ELSEWHERE = 4.0  # pixels
NEXT = 6  # candidates for the next one


def matches(first: AffineFeatures, second: AffineFeatures) -> np.ndarray:
    """Rows of the features of both images that match, int [M, 2].

    The likeness of two features is that of their most similar descriptors. Each of the two must be the best match of
    the other, and clearly better than any that lies elsewhere in the second image.
    """
    if min(len(first.positions), len(second.positions)) < 2:
        return np.zeros((0, 2), np.int64)
    likeness = torch.from_numpy(first.descriptors) @ torch.from_numpy(second.descriptors).T
    table = _largest(_largest(likeness, first.feature).T.contiguous(), second.feature)  # of [second, first]
    back = table.argmax(1).numpy()
    best, at = table.T.contiguous().topk(min(NEXT, len(table)), dim=1)
    at = at.numpy()
    distance = np.sqrt(np.maximum(2 - 2 * best.numpy(), 0))
    elsewhere = np.linalg.norm(second.positions[at] - second.positions[at[:, :1]], axis=2) > ELSEWHERE
    following = np.where(elsewhere, distance, np.inf).min(1)
    following = np.where(np.isinf(following), distance[:, -1], following)
    mutual = np.linalg.norm(first.positions[back[at[:, 0]]] - first.positions, axis=1) <= 1.0
    rows = np.nonzero(mutual & (distance[:, 0] < RATIO * following))[0]
    return np.column_stack([rows, at[rows, 0]])


def _largest(likeness: torch.Tensor, feature: np.ndarray) -> torch.Tensor:
    """The largest value of the descriptors of each feature, [K, N] of [D, N]."""
    out = torch.full((int(feature[-1]) + 1, likeness.shape[1]), -1.0)
    rows = torch.from_numpy(feature)[:, None].expand(-1, likeness.shape[1])
    return out.scatter_reduce_(0, rows, likeness, "amax")
