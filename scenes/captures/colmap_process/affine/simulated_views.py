"""SIFT features of an image as it looks, and as it would look from aside.

ASIFT (Morel and Yu, ASIFT: A New Framework for Fully Affine Invariant Image Comparison, SIAM J. Imaging Sciences
2009): a smooth surface that is seen at a slant is compressed along one direction. Each image is compressed so on
purpose, along several directions, and features of all versions are collected. Detections of the same spot are one
feature with several descriptors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

TILTS = (2.0,)  # compression of the simulated views
TURN = 72.0  # degrees between their directions, divided by the tilt
ANTI_ALIAS = 0.8  # standard deviation of the blur before compression, times sqrt(tilt^2 - 1), pixels
WORKING_SIZE = 1200  # longer side at which features are detected, pixels
MAX_ENLARGEMENT = 1.5  # of smaller images
CONTRAST = 0.004  # threshold of detection: a tenth of the usual one, for faint texture
MAX_PER_VIEW = 600  # detections of a simulated view
OUTER, MARGIN = (
    2.0,
    0.1,
)  # percent of the detections on each side that may lie outside the part that is simulated, and its margin
SAME_SPOT = 1.0  # pixels of the detected image, within which detections are one feature


@dataclass(frozen=True)
class AffineFeatures:
    """Features of an image with the descriptors of all its simulated views.

    Args:
        positions: of the features, COLMAP's pixels (the centre of the first one is 0.5), float64 [K, 2].
        descriptors: RootSIFT (Arandjelovic and Zisserman 2012), unit vectors, float32 [D, 128], sorted by feature.
        feature: of each descriptor, int [D], ascending; every feature has one at least.
    """

    positions: np.ndarray
    descriptors: np.ndarray
    feature: np.ndarray


def affine_features(image: np.ndarray, mask: np.ndarray | None = None) -> AffineFeatures:
    """The features of an image and of its simulated views, which show the part where it has features.

    Args:
        image: grey levels, uint8 [H, W].
        mask: bool [H, W]; features elsewhere are dropped. None: there is none.
    """
    height, width = image.shape
    scale = min(MAX_ENLARGEMENT, WORKING_SIZE / max(height, width))
    size = (max(1, round(scale * width)), max(1, round(scale * height)))
    factors = np.array(size) / (width, height)
    resized = cv2.resize(image, size, interpolation=cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA)
    sift = cv2.SIFT.create(nfeatures=MAX_PER_VIEW, contrastThreshold=CONTRAST, enable_precise_upscale=True)
    views = [_detected(sift, resized, np.eye(2, 3))]
    (left, top), (right, bottom) = _region(views[0][0], size)
    for view, to_image in simulated_views(resized[top:bottom, left:right]):
        to_image[:, 2] += (left, top)
        views.append(_detected(sift, view, to_image))
    points, descriptors = (np.concatenate([part[k] for part in views]) for k in (0, 1))
    # The image itself first: a position in it is more accurate than one in a compressed view.
    simulated = np.arange(len(points)) >= len(views[0][0])
    order = np.lexsort((-np.concatenate([part[2] for part in views]), simulated))
    positions = (points[order] + 0.5) / factors
    inside = _inside(positions, mask, (width, height))
    positions, descriptors = positions[inside], descriptors[order][inside]
    chosen, feature = merged(positions * factors, SAME_SPOT)
    rows = np.argsort(feature, kind="stable")
    descriptors = descriptors[rows] / np.maximum(descriptors[rows].sum(1, keepdims=True), 1e-9)
    return AffineFeatures(positions[chosen], np.sqrt(descriptors, dtype=np.float32), feature[rows])


def simulated_views(image: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Compressed versions of an image, each with the affine map from its pixels to those of the image, [2, 3]."""
    height, width = image.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64) - 0.5
    for tilt in TILTS:
        for angle in np.radians(np.arange(0, 180, TURN / tilt)):
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            turned = corners @ turn.T
            low, high = turned.min(0) + 0.5, turned.max(0) + 0.5
            across, down = (int(np.ceil(x)) for x in high - low)
            shape, sideways = (across, down), (max(1, int(across / tilt)), down)
            edge = cv2.BORDER_REPLICATE
            view = cv2.warpAffine(
                image, np.column_stack([turn, -low]), shape, flags=cv2.INTER_LINEAR, borderMode=edge
            )
            view = cv2.GaussianBlur(view, (0, 0), ANTI_ALIAS * np.sqrt(tilt * tilt - 1), sigmaY=0.01)
            view = cv2.warpAffine(
                view, np.array([[1 / tilt, 0, 0], [0, 1.0, 0]]), sideways, flags=cv2.INTER_LINEAR
            )
            yield view, np.column_stack([turn.T @ np.diag([tilt, 1.0]), turn.T @ low])


def merged(points: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Points that lie apart, and the one of them that each point belongs to.

    Args:
        points: the most important first, [N, 2].
        radius: within which a point belongs to an earlier one.

    Returns:
        rows of the points that are retained, int [K]; and for each point the index in these, int [N].
    """
    cells: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
    chosen: list[int] = []
    owner = np.zeros(len(points), np.int64)
    for row, (x, y) in enumerate(points.tolist()):
        column, line = int(x // radius), int(y // radius)
        best, least = -1, radius * radius
        for i in (column - 1, column, column + 1):
            for j in (line - 1, line, line + 1):
                for other, u, v in cells.get((i, j), ()):
                    distance = (u - x) ** 2 + (v - y) ** 2
                    if distance < least:
                        best, least = other, distance
        if best < 0:
            best = len(chosen)
            chosen.append(row)
            cells.setdefault((column, line), []).append((best, x, y))
        owner[row] = best
    return np.array(chosen, np.int64), owner


def _detected(sift: Any, view: np.ndarray, to_image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions in the image [N, 2], descriptors [N, 128] and responses [N] of the features of a view."""
    corners, descriptors = sift.detectAndCompute(view, None)
    if descriptors is None:
        return np.zeros((0, 2)), np.zeros((0, 128), np.float32), np.zeros(0)
    points = np.array([corner.pt for corner in corners]) @ to_image[:, :2].T + to_image[:, 2]
    return points, descriptors, np.array([corner.response for corner in corners])


def _region(points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The box with nearly all points and a margin, corners [2, 2] in pixels; the full image where there are none."""
    if not len(points):
        return np.array([(0, 0), size])
    low, high = np.percentile(points, (OUTER, 100 - OUTER), axis=0)
    margin = MARGIN * (high - low)
    return np.clip([low - margin, high + margin + 1], 0, size).astype(np.int64)


def _inside(positions: np.ndarray, mask: np.ndarray | None, size: tuple[int, int]) -> np.ndarray:
    """Whether positions are in an image and not masked, bool [N]."""
    inside = np.all((positions >= 0) & (positions < size), axis=1)
    if mask is not None:
        column, row = np.clip(positions.astype(np.int64), 0, np.array(mask.shape[::-1]) - 1).T
        inside &= mask[row, column]
    return inside
