"""Affine features of all images and their matches, in a database of their own for COLMAP's mapping."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from luxel.scenes.captures.colmap_process.affine.matching import matches
from luxel.scenes.captures.colmap_process.affine.simulated_views import AffineFeatures, affine_features
from luxel.scenes.captures.colmap_process.likeness import aggregate, most_alike
from luxel.scenes.captures.colmap_process.mapping import copy_database, verify

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress

ALIKE = 14  # pairs of each image with those most like it
NEIGHBOURS = 2  # in order, on each side
INLIERS = 20  # with the geometry of a pair: pairs of other sides of an object were seen to have up to 19
LEAST = 8  # matches of a pair that is verified


def match_affine(
    pycolmap: Any, folder: Path, source: Path, target: Path, names: Sequence[str], on_progress: Progress
) -> None:
    """Writes a database with affine features, their matches and the verified pairs.

    Args:
        pycolmap: the module.
        folder: with the folders ``images`` and ``masks``.
        source: the database with the cameras and images.
        target: the database to write; one that is there is replaced.
        names: of the images, in order.
        on_progress: called with (stage, fraction done in [0, 1]).
    """
    features = []
    for done, name in enumerate(names):
        on_progress("finding features of slanted surfaces", done / len(names))
        features.append(_features(folder, name))
    pairs = pairs_of(features)
    target.unlink(missing_ok=True)
    copy_database(source, target)
    with pycolmap.Database.open(str(target)) as opened, pycolmap.DatabaseTransaction(opened):
        ids = {image.name: image.image_id for image in opened.read_all_images()}
        opened.clear_two_view_geometries()
        opened.clear_matches()
        opened.clear_descriptors()
        opened.clear_keypoints()
        for name, of_image in zip(names, features, strict=True):
            opened.write_keypoints(ids[name], of_image.positions.astype(np.float32))
        for done, (a, b) in enumerate(pairs):
            on_progress("matching slanted surfaces", done / len(pairs))
            rows = matches(features[a], features[b])
            if len(rows) >= LEAST:
                opened.write_matches(ids[names[a]], ids[names[b]], rows.astype(np.uint32))
    verify(pycolmap, target, INLIERS)


def pairs_of(features: Sequence[AffineFeatures]) -> list[tuple[int, int]]:
    """Pairs of images to match, ascending: neighbours in order, and each with those most like it."""
    count = len(features)
    near = {(k, k + step) for step in range(1, NEIGHBOURS + 1) for k in range(count - step)}
    return sorted(near.union(most_alike(aggregate([one.descriptors for one in features]), ALIKE)))


def _features(folder: Path, name: str) -> AffineFeatures:
    image = cv2.imread(str(folder / "images" / name), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION)
    masked = folder / "masks" / f"{name}.png"
    mask = cv2.imread(str(masked), cv2.IMREAD_GRAYSCALE) if masked.exists() else None
    return affine_features(np.asarray(image, np.uint8), None if mask is None else np.asarray(mask) > 0)
