"""Which row of poses_bounds.npy is which camera.

LLFF and the loaders of Neural 3D Video sort names as text: cam_0, cam_1, cam_10, cam_2. Where the order by number is
another one, the first images of the cameras decide, by how many of their matched points agree with the poses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np

from luxel.scenes.captures.contents import SourceImage, image_files, natural_key
from luxel.scenes.captures.films.film import opened_film
from luxel.scenes.captures.formats import llff
from luxel.scenes.captures.images.images import ImageHeader, decode, resize
from luxel.scenes.errors import CaptureError

SIDE = 640  # pixels of the longer side of images that are matched
FEATURES = 1000  # of an image
MAX_PAIRS = 120  # of images that are matched
RATIO = 0.8  # of the distances of the best and the second match (Lowe 2004)
NEAR = 0.005  # distance from the epipolar line, of the longer side, of matches that agree
MIN_MATCHES = 20  # that agree with one of the orders
DECISIVE = 1.5  # times as many as with the other one
Match = tuple[
    int, int, np.ndarray, np.ndarray
]  # two cameras, and points [N, 2] of each in shares of the image


def ordered_as_rows(
    file: Path, sources: Mapping[str, Path], table: np.ndarray, warnings: list[str]
) -> list[tuple[str, Path]]:
    """Names and films or folders of cameras in the order of the rows of a table of poses.

    Args:
        file: poses_bounds.npy.
        sources: by name, as many as rows.
        table: see `luxel.scenes.captures.formats.llff.read_table`.
        warnings: gets a sentence where the order by text and by number differ.
    """
    as_text = sorted(sources)
    by_number = sorted(sources, key=natural_key)
    if as_text == by_number:
        return [(name, sources[name]) for name in as_text]
    agreeing = _agreements(file, sources, table, (as_text, by_number))
    low, high = sorted(agreeing)
    decided = high >= MIN_MATCHES and high >= DECISIVE * low
    order = by_number if decided and agreeing[1] > agreeing[0] else as_text
    other = as_text if order is by_number else by_number
    how = "by number" if order is by_number else "as text, as LLFF sorts them"
    row = next(i for i, (one, two) in enumerate(zip(order, other, strict=True)) if one != two)
    check = (
        "Their images agree with it."
        if decided
        else "Their images do not say whether that is so: if the scene fails, rename them with leading zeros."
    )
    warnings.append(
        f"{file.name}: its rows are taken for the cameras sorted {how}: row {row} is {order[row]}, not {other[row]}. "
        f"{check}"
    )
    return [(name, sources[name]) for name in order]


def _agreements(
    file: Path, sources: Mapping[str, Path], table: np.ndarray, orders: Sequence[Sequence[str]]
) -> list[int]:
    """How many matches of the first images agree with the poses in each order of the cameras."""
    names = list(sources)
    images = [_first_image(sources[name]) for name in names]
    matches = _matches(images)
    out = []
    for order in orders:
        try:
            placed = [
                llff.place(
                    file,
                    sources[name],
                    ImageHeader(image.shape[1], image.shape[0], 1, False),
                    table[order.index(name)],
                )
                for name, image in zip(names, images, strict=True)
            ]
        except CaptureError:  # images of other sizes than the rows
            out.append(0)
            continue
        out.append(sum(_agreeing(placed[i], placed[j], one, two) for i, j, one, two in matches))
    return out


def _first_image(source: Path) -> np.ndarray:
    if source.is_dir():
        return decode(image_files(source)[0], oriented=True)[..., :3]
    with opened_film(source) as film:
        for frame in film.frames():
            return film.pixels(frame)[..., :3]
    raise CaptureError(f"{source}: there are no frames in this film.", "Copy the film again.")


def _matches(images: Sequence[np.ndarray]) -> list[Match]:
    """Points of pairs of images that look alike, of the most alike in both directions."""
    sift = cv2.SIFT_create(FEATURES)  # type: ignore[attr-defined]
    features = []
    for image in images:
        scale = min(1.0, SIDE / max(image.shape[:2]))
        width, height = (max(1, round(side * scale)) for side in image.shape[1::-1])
        grey = cv2.cvtColor(resize(image, width, height), cv2.COLOR_RGB2GRAY)
        points, descriptors = sift.detectAndCompute(grey, None)
        features.append((np.array([p.pt for p in points]).reshape(-1, 2) / (width, height), descriptors))
    pairs = sorted(combinations(range(len(images)), 2), key=lambda pair: pair[1] - pair[0])[:MAX_PAIRS]
    matcher = cv2.BFMatcher()
    out = []
    for i, j in pairs:
        (one, first), (two, second) = features[i], features[j]
        if min(len(one), len(two)) < 2:
            continue
        best = [a for a, b in matcher.knnMatch(first, second, 2) if a.distance < RATIO * b.distance]
        back = {m.queryIdx: m.trainIdx for m in matcher.match(second, first)}
        rows = [(m.queryIdx, m.trainIdx) for m in best if back[m.trainIdx] == m.queryIdx]
        if rows:
            left, right = np.array(rows).T
            out.append((i, j, one[left], two[right]))
    return out


def _agreeing(first: SourceImage, second: SourceImage, one: np.ndarray, two: np.ndarray) -> int:
    """How many matches are near the epipolar line of each other, and in front of both cameras."""
    rays_one, rays_two = _rays(first, one), _rays(second, two)
    relative = second.world_to_cam @ np.linalg.inv(first.world_to_cam)
    rotation, shift = relative[:3, :3], relative[:3, 3]
    if not np.linalg.norm(shift) > 0:
        return 0
    normals = np.cross(
        shift, rays_one @ rotation.T
    )  # of the epipolar planes in the axes of the second camera
    distance = np.abs((normals * rays_two).sum(1)) / np.maximum(np.linalg.norm(normals[:, :2], axis=1), 1e-12)
    turned = rays_one @ rotation.T
    # depth_two rays_two = depth_one turned + shift, by least squares
    a, b, c = (turned**2).sum(1), (turned * rays_two).sum(1), (rays_two**2).sum(1)
    d, e = turned @ shift, rays_two @ shift
    spread = np.maximum(a * c - b * b, 1e-12)
    in_front = ((b * e - c * d) / spread > 0) & ((a * e - b * d) / spread > 0)
    focal = second.lens.fx / max(second.lens.width, second.lens.height)
    return int(((distance * focal < NEAR) & in_front).sum())


def _rays(source: SourceImage, points: np.ndarray) -> np.ndarray:
    """Directions of points given in shares of the image, in the axes of the camera, z = 1, [N, 3]."""
    lens = source.lens
    pixels = points * (lens.width, lens.height)
    return np.c_[(pixels - (lens.cx, lens.cy)) / (lens.fx, lens.fy), np.ones(len(points))]
