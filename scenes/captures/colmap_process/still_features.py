"""Features that stand still from image to image while others move: the background of a turntable.

Where a camera stands still and the object turns, what stands still contradicts the motion of the object. Images of one
position of the camera are known by matches at the same place in both; a feature with such matches in many of them is
of the background, or of the camera itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.captures.colmap_process.mapping import copy_database

STILL = 0.0025  # of the longer side: displacement of a match below which it stands still
MOVED = 3.0  # of that displacement: a match beyond moves
MIN_STILL = 12  # matches that stand still, of a pair that one camera position took
MIN_SPREAD = 0.3  # of width or height, over which they are distributed
MIN_MOVING = 15  # matches that move, of a pair that shows a turning object
MIN_GROUP = 5  # images of one camera position
MIN_DENSE = 0.5  # of the other images of a group with which one must be in a pair that stands still
MIN_SHARE = 0.5  # of all images that must be in groups
MIN_VOTES, VOTE_SHARE = 3, 0.15  # images in which a feature stands still, and their share of the group


@dataclass(frozen=True)
class PairMatches:
    """Matches of a pair of images before geometric verification.

    Args:
        ids: of both images.
        rows: of their features, int [M, 2].
        still: whether they stand still, bool [M].
        moving: number of those that move.
    """

    ids: tuple[int, int]
    rows: np.ndarray
    still: np.ndarray
    moving: int


@dataclass(frozen=True)
class Turntable:
    """Images of an object that turns before cameras that stand still.

    Args:
        groups: image ids of each camera position, ascending.
        still: for each image id, whether its features stand still, bool [K].
    """

    groups: list[list[int]]
    still: dict[int, np.ndarray]

    @property
    def group_of(self) -> dict[int, int]:
        """Number of the group by image id."""
        return {key: number for number, group in enumerate(self.groups) for key in group}


def read_turntable(pycolmap: Any, database: Path) -> Turntable | None:
    """`find_turntable` of the matches of COLMAP's database."""
    with pycolmap.Database.open(str(database)) as opened:
        cameras = {camera.camera_id: (camera.width, camera.height) for camera in opened.read_all_cameras()}
        images = sorted(opened.read_all_images(), key=lambda image: image.name)
        positions = {image.image_id: _positions(opened, image.image_id) for image in images}
        sizes = {image.image_id: cameras[image.camera_id] for image in images}
        keys, matches = opened.read_all_matches()
    pairs = [
        (tuple(pycolmap.pair_id_to_image_pair(key)), rows) for key, rows in zip(keys, matches, strict=True)
    ]
    turntable = find_turntable(pairs, positions, sizes)
    if turntable is None:
        return None
    order = {image.image_id: row for row, image in enumerate(images)}
    return Turntable(
        sorted(sorted(group, key=order.__getitem__) for group in turntable.groups), turntable.still
    )


def write_moving(pycolmap: Any, database: Path, target: Path, turntable: Turntable) -> None:
    """Copies a database without the matches of what stands still, and without verified pairs."""
    target.unlink(missing_ok=True)
    copy_database(database, target)
    group_of = turntable.group_of
    with pycolmap.Database.open(str(target)) as opened, pycolmap.DatabaseTransaction(opened):
        cameras = {camera.camera_id: max(camera.width, camera.height) for camera in opened.read_all_cameras()}
        images = {image.image_id: image for image in opened.read_all_images()}
        positions = {key: _positions(opened, key) for key in images}
        keys, matches = opened.read_all_matches()
        opened.clear_two_view_geometries()
        for key, rows in zip(keys, matches, strict=True):
            a, b = pycolmap.pair_id_to_image_pair(key)
            drop = turntable.still[a][rows[:, 0]] | turntable.still[b][rows[:, 1]]
            if group_of.get(a, -1) == group_of.get(b, -2):
                shift = np.linalg.norm(positions[a][rows[:, 0]] - positions[b][rows[:, 1]], axis=1)
                drop |= shift < STILL * cameras[images[a].camera_id]
            opened.delete_matches(a, b)
            opened.write_matches(a, b, rows[~drop])


def _positions(opened: Any, key: int) -> np.ndarray:
    """Positions of the features of an image in a database, [K, 2], pixels."""
    if not opened.exists_keypoints(key):
        return np.zeros((0, 2))
    return np.asarray(opened.read_keypoints(key), np.float64)[:, :2]


def find_turntable(
    pairs: Iterable[tuple[tuple[int, int], np.ndarray]],
    positions: Mapping[int, np.ndarray],
    sizes: Mapping[int, tuple[int, int]],
) -> Turntable | None:
    """Camera positions from which at least half of the images were taken, and the features that stand still there.

    Args:
        pairs: image ids of each pair, and rows of the matched features of both, int [M, 2]; before verification.
        positions: of the features by image id, [K, 2], pixels.
        sizes: width and height by image id, pixels.

    Returns:
        None: the cameras moved, or nothing moves before them.
    """
    known = [_split(ids, rows, positions, sizes) for ids, rows in pairs if sizes[ids[0]] == sizes[ids[1]]]
    quiet = [pair for pair in known if _is_still(pair, positions, sizes)]
    groups = _groups(quiet)
    if sum(map(len, groups)) < MIN_SHARE * len(sizes):
        return None
    group_of = {key: number for number, group in enumerate(groups) for key in group}
    inside = [pair for pair in known if group_of.get(pair.ids[0], -1) == group_of.get(pair.ids[1], -2)]
    moved = {key for pair in inside if pair.moving >= MIN_MOVING for key in pair.ids}
    if len(moved) < MIN_SHARE * len(group_of):
        return None
    votes = {key: np.zeros(len(points), np.int64) for key, points in positions.items()}
    for pair in inside:
        for side, key in enumerate(pair.ids):
            np.add.at(votes[key], pair.rows[pair.still, side], 1)
    least = {
        key: max(MIN_VOTES, VOTE_SHARE * (len(groups[group_of[key]]) - 1)) if key in group_of else np.inf
        for key in votes
    }
    return Turntable(groups, {key: count >= least[key] for key, count in votes.items()})


def _split(
    ids: tuple[int, int],
    rows: np.ndarray,
    positions: Mapping[int, np.ndarray],
    sizes: Mapping[int, tuple[int, int]],
) -> PairMatches:
    shift = np.linalg.norm(positions[ids[0]][rows[:, 0]] - positions[ids[1]][rows[:, 1]], axis=1)
    limit = STILL * max(sizes[ids[0]])
    return PairMatches(ids, rows, shift < limit, int((shift > MOVED * limit).sum()))


def _is_still(
    pair: PairMatches, positions: Mapping[int, np.ndarray], sizes: Mapping[int, tuple[int, int]]
) -> bool:
    """Whether enough matches stand still, all over the image."""
    if pair.still.sum() < MIN_STILL:
        return False
    points = positions[pair.ids[0]][pair.rows[pair.still, 0]]
    low, high = np.percentile(points, (5, 95), axis=0)
    return bool(((high - low) / np.array(sizes[pair.ids[0]])).max() >= MIN_SPREAD)


def _groups(pairs: list[PairMatches]) -> list[list[int]]:
    """Image ids that are connected by pairs, where each is in a pair with at least half of the others."""
    neighbours: dict[int, set[int]] = {}
    for pair in pairs:
        a, b = pair.ids
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    out, left = [], set(neighbours)
    while left:
        group, front = set(), {min(left)}
        while front:
            key = front.pop()
            group.add(key)
            front |= neighbours[key] - group
        left -= group
        dense = sorted(key for key in group if len(neighbours[key]) >= MIN_DENSE * (len(group) - 1))
        if len(dense) >= MIN_GROUP:
            out.append(dense)
    return sorted(out)
