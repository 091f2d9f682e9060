"""Global descriptors of photographs."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.colmap_process.likeness import aggregate, clusters, most_alike


def test_images_of_one_place_are_alike() -> None:
    random = np.random.default_rng(0)
    places = [random.uniform(0, 255, (80, 128)) for _ in range(6)]
    images = [places[i % 6] + random.normal(0, 4, (80, 128)) for i in range(18)]
    vectors = aggregate(images)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert most_alike(vectors, 2) == sorted(
        (i + 6 * a, i + 6 * b) for i in range(6) for a, b in ((0, 1), (0, 2), (1, 2))
    )
    assert np.array_equal(vectors, aggregate(images))


def test_images_without_features() -> None:
    random = np.random.default_rng(0)
    empty = np.zeros((0, 128))
    vectors = aggregate([random.uniform(0, 255, (9, 128)), empty, empty])
    assert np.isfinite(vectors).all() and not vectors[1:].any()
    assert most_alike(vectors, 2) == []
    assert most_alike(aggregate([empty, empty]), 1) == [] and aggregate([]).shape[0] == 0


def test_clusters_of_groups() -> None:
    random = np.random.default_rng(0)
    middles = np.repeat(random.uniform(-50, 50, (4, 8)), 200, axis=0).astype(np.float32)
    centres = clusters(middles + random.normal(0, 0.1, middles.shape).astype(np.float32), random)
    assert np.isfinite(centres).all()
    distance = np.linalg.norm(middles[::200, None] - centres[None], axis=2).min(1)
    assert (distance < 1).all()
