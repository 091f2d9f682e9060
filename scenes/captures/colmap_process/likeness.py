"""Likeness of images from their features, without a vocabulary from elsewhere.

VLAD (Jegou et al., Aggregating local descriptors into a compact image representation, CVPR 2010) over clusters of the
capture's own features, each cluster's sum normalised (Arandjelovic and Zisserman, All about VLAD, CVPR 2013).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CLUSTERS = 64
ROUNDS = 12  # of k-means
SAMPLE = 20_000  # descriptors that the clusters are made from
PER_IMAGE = 1000  # descriptors of an image that count


def aggregate(descriptors: Sequence[np.ndarray], seed: int = 0) -> np.ndarray:
    """Global descriptors of images, unit vectors [V, CLUSTERS * D] whose inner product is the likeness.

    Args:
        descriptors: of the features of each image, [K, D] of any K; an image without features gets zeros.
        seed: of the samples.
    """
    random = np.random.default_rng([seed, 31])
    chosen = [_sampled(rows, PER_IMAGE, random) for rows in descriptors]
    pool = np.concatenate(chosen) if chosen else np.zeros((0, 1), np.float32)
    if not len(pool):
        return np.zeros((len(chosen), 1), np.float32)
    centres = clusters(_sampled(pool, SAMPLE, random), random)
    out = np.zeros((len(chosen), *centres.shape), np.float32)
    for row, rows in enumerate(chosen):
        if len(rows):
            nearest = _nearest(rows, centres)
            np.add.at(out[row], nearest, rows - centres[nearest])
    out /= np.maximum(np.linalg.norm(out, axis=2, keepdims=True), 1e-9)
    flat = out.reshape(len(chosen), -1)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-9)


def clusters(points: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Centres of at most CLUSTERS clusters by k-means (Lloyd 1982), [M, D].

    Args:
        points: at least one, [P, D].
        random: draws the first centres, and new ones for empty clusters.
    """
    count = min(CLUSTERS, len(points))
    centres = points[random.permutation(len(points))[:count]].copy()
    for _ in range(ROUNDS):
        nearest = _nearest(points, centres)
        size = np.bincount(nearest, minlength=count)
        total = np.zeros_like(centres)
        np.add.at(total, nearest, points)
        empty = size == 0
        centres = total / np.maximum(size, 1)[:, None].astype(np.float32)
        centres[empty] = points[random.integers(0, len(points), int(empty.sum()))]
    return centres


def most_alike(vectors: np.ndarray, nearest: int) -> list[tuple[int, int]]:
    """Pairs of each image with those most like it, each pair once, ascending.

    Args:
        vectors: of `aggregate`, [V, ...].
        nearest: number of pairs for each image.
    """
    count = len(vectors)
    pairs = set()
    for row in range(count):
        likeness = vectors @ vectors[row]
        likeness[row] = -np.inf
        for other in np.argsort(-likeness, kind="stable")[: min(nearest, count - 1)]:
            if likeness[other] > 0:
                pairs.add((min(row, int(other)), max(row, int(other))))
    return sorted(pairs)


def _sampled(rows: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    rows = np.asarray(rows)
    if len(rows) > most:
        rows = rows[np.sort(random.permutation(len(rows))[:most])]
    return rows.astype(np.float32)


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Index of the nearest centre of each point, [P]."""
    return (points @ centres.T - 0.5 * (centres * centres).sum(1)).argmax(1)
