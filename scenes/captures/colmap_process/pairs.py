"""Which pairs of images are matched: all, neighbours in order, those that look alike, or neighbours by pose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.colmap_process.likeness import aggregate, most_alike

EXHAUSTIVE_UP_TO = 150  # images; beyond, neighbours in the order of names, and images that look alike
ALIKE = 24  # pairs of each image with those most like it


def pairs_to_match(pycolmap: Any, database: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of images to match where poses are unknown.

    All pairs of up to 150 images. Of more, neighbours by order, and each image with the 24 that look most like it: of a
    film or a walk the first are most of what is needed, of images in no order the second.

    Args:
        pycolmap: the module.
        database: COLMAP's database with the features of all images.
        names: of the images, in order.
    """
    if len(names) <= EXHAUSTIVE_UP_TO:
        return [(names[i], names[j]) for i, j in pairs_in_order(len(names))]
    with pycolmap.Database.open(str(database)) as opened:
        ids = {image.name: image.image_id for image in opened.read_all_images()}
        descriptors = [np.asarray(opened.read_descriptors(ids[name]).data) for name in names]
    chosen = {*neighbours_in_order(len(names)), *most_alike(aggregate(descriptors), ALIKE)}
    return [(names[i], names[j]) for i, j in sorted(chosen)]


def pairs_in_order(count: int) -> list[tuple[int, int]]:
    """Pairs of ``count`` images to match where nothing is known of what they show: all pairs of up to 150; of more,
    neighbours, and every 10th image with every other 10th."""
    if count <= EXHAUSTIVE_UP_TO:
        return [(i, j) for i in range(count) for j in range(i + 1, count)]
    far = {(i, j) for i in range(0, count, 10) for j in range(i + 10, count, 10)}
    return sorted(far.union(neighbours_in_order(count)))


def neighbours_in_order(count: int) -> list[tuple[int, int]]:
    """Pairs of each of ``count`` images with the next 10, and those at offsets 16, 32, 64 ..."""
    steps = [*range(1, 11), *(1 << k for k in range(4, count.bit_length()))]
    return sorted({(i, i + step) for i in range(count) for step in steps if i + step < count})


def pairs_by_pose(names: Sequence[str], cam_to_world: np.ndarray, nearest: int = 16) -> list[tuple[str, str]]:
    """Pairs of each image with those of the most similar position and viewing direction.

    Args:
        names: images, V.
        cam_to_world: their OpenCV poses, [V, 4, 4].
        nearest: number of pairs for each image.
    """
    position, direction = cam_to_world[:, :3, 3], cam_to_world[:, :3, 2]
    distance = np.linalg.norm(position[:, None] - position[None], axis=-1)
    typical = float(np.median(np.linalg.norm(position - position.mean(axis=0), axis=1))) or 1.0
    angle = np.arccos(np.clip(direction @ direction.T, -1, 1))
    cost = distance / typical + angle
    np.fill_diagonal(cost, np.inf)
    order = np.argsort(cost, axis=1)[:, : min(nearest, len(names) - 1)]
    chosen = {(min(i, int(j)), max(i, int(j))) for i, row in enumerate(order) for j in row}
    return [(names[i], names[j]) for i, j in sorted(chosen)]
