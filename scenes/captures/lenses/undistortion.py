"""Undistortion of stored images to pinhole images, at the size of the stored image or at a smaller one.

At a smaller size the pixels of the stored image are interpolated on a grid within each pixel of the result, about as
fine as they are, and averaged, a band of rows after the other. Where the grid lies in the stored image follows from
positions that are computed once or a few times for each pixel of the result, and interpolated in between.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Lock

import cv2
import numpy as np

from luxel.scenes.captures.lenses.lens import Lens, distort_points, pinhole_of

MAP_BYTES = 512 << 20  # of maps that stay in memory, besides the latest
BAND = 1 << 18  # positions that are computed at once
SMALLER = 2.0  # the least ratio of sizes from which on images are undistorted at the smaller one
DETAIL = (
    4  # times the size of the result, with `opened_image`'s factor of 2, that a stored image has at least
)
LOOKED_AT = 96  # positions along the longer side by which it is judged how fine they have to be computed
PRECISION = 0.01  # pixels of the stored image by which interpolated positions may be wrong
EDGE = 0.5  # pixels around the centres of the outermost pixels that these cover
TOLERANCE = 0.01  # pixels beyond the image: the view was computed on a grid, and by iteration
OUTSIDE = -1e6  # position of what the stored image does not show

Maps = tuple[np.ndarray, np.ndarray, np.ndarray | None]
_maps: OrderedDict[tuple[Lens, int, int], Future[Maps]] = OrderedDict()
_lock = Lock()


def undistortion_maps(lens: Lens, width: int | None = None, height: int | None = None) -> Maps:
    """Positions of the pixels of ``pinhole_of(lens)`` in the stored image.

    Threads that need the same maps at the same time wait for one of them. The latest maps stay in memory, together at
    most `MAP_BYTES`.

    Args:
        lens: of the stored image.
        width, height: pixels of the pinhole image; None: those of the stored image.

    Returns:
        x and y for cv2.remap, float32 [H, W]; and a mask, uint8 [H, W], 0 where the stored image has no data (None:
        it has data everywhere).
    """
    key = (lens, width or lens.width, height or lens.height)
    with _lock:
        entry = _maps.get(key)
        missing = entry is None
        if entry is None:
            entry = _maps[key] = Future()
        _maps.move_to_end(key)
    if missing:
        try:
            entry.set_result(_computed_maps(*key))
        except BaseException as error:
            entry.set_exception(error)
            with _lock:
                _maps.pop(key, None)
            raise
        with _lock:
            _forget_oldest()
    return entry.result()


def _forget_oldest() -> None:
    """Removes the oldest maps while there are more than one and they exceed `MAP_BYTES`."""
    complete = {
        key: sum(plane.nbytes for plane in entry.result() if plane is not None)
        for key, entry in _maps.items()
        if entry.done() and entry.exception() is None
    }
    total = sum(complete.values())
    for key in list(complete)[:-1]:
        if total <= MAP_BYTES:
            break
        total -= complete[key]
        del _maps[key]


def _computed_maps(lens: Lens, width: int, height: int) -> Maps:
    target = pinhole_of(lens).resized(width, height)
    across, down = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    known = np.ones((height, width), np.uint8)
    columns = np.arange(width) + 0.5
    for top, bottom in _bands(height, width):
        source = _positions(lens, target, columns, np.arange(top, bottom) + 0.5)
        across[top:bottom], down[top:bottom] = source[..., 0], source[..., 1]
        known[top:bottom] = _inside(lens, source, TOLERANCE)
    return across, down, None if known.all() else known


def _bands(rows: int, pixels: int) -> Iterator[tuple[int, int]]:
    """First row and end of bands of rows of so many pixels."""
    step = max(1, BAND // max(1, pixels))
    for top in range(0, rows, step):
        yield top, min(rows, top + step)


def _positions(lens: Lens, target: Lens, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where a lens images the directions of the pixels at columns x and rows y of a pinhole camera (whose first pixel
    is from 0 to 1), in pixels as OpenCV counts them; float64 [Y, X, 2]."""
    directions = np.stack(np.meshgrid((x - target.cx) / target.fx, (y - target.cy) / target.fy), axis=-1)
    source = distort_points(lens, directions)
    return np.nan_to_num(source, nan=OUTSIDE, posinf=OUTSIDE, neginf=OUTSIDE)


def _inside(lens: Lens, source: np.ndarray, tolerance: float) -> np.ndarray:
    inside = (source >= -tolerance).all(-1) & (source[..., 0] <= lens.width - 1 + tolerance)
    inside &= source[..., 1] <= lens.height - 1 + tolerance
    return inside


def is_smaller(lens: Lens, width: int, height: int) -> bool:
    """Whether an image of this size is undistorted by `undistorted_at` rather than at the size of the stored image."""
    return min(lens.width / width, lens.height / height) >= SMALLER


def undistorted_at(
    lens: Lens,
    width: int,
    height: int,
    stored: tuple[int, int],
    rows: Callable[[int, int], Sequence[np.ndarray]],
) -> tuple[list[np.ndarray], np.ndarray | None]:
    """The pinhole image of a stored one, at a smaller size, without more memory than a few of its rows.

    Args:
        lens: of the stored image.
        width, height: pixels of the result.
        stored: width and height at which the image was decoded, at most those of the lens.
        rows: gives rows of planes of the stored image from a first one to an end, uint8 or float32 [R, W] or [R, W, C].

    Returns:
        The planes, [height, width] or [height, width, C], and which pixels are visible in the stored image throughout,
        bool [height, width] (None: all).
    """
    target = pinhole_of(lens).resized(width, height)
    grid = max(1, math.ceil(max(stored[0] / width, stored[1] / height) - 0.25))
    scale = np.array([stored[0] / lens.width, stored[1] / lens.height])
    nodes = _nodes_per_pixel(lens, target, grid, scale)
    columns = (np.arange(-nodes, (width + 1) * nodes) + 0.5) / nodes
    planes: list[np.ndarray] = []
    known = np.ones((height, width), bool)
    for top, bottom in _bands(height, width * grid * grid):
        lines = (np.arange((top - 1) * nodes, (bottom + 1) * nodes) + 0.5) / nodes
        coarse = (_positions(lens, target, columns, lines) + 0.5) * scale - 0.5
        size = (width + 2) * grid, (bottom - top + 2) * grid
        across, down = (
            cv2.resize(coarse[..., axis].astype(np.float32), size, interpolation=cv2.INTER_LINEAR)[
                grid:-grid, grid:-grid
            ]
            for axis in (0, 1)
        )
        first, last = float(down.min()), float(down.max())
        if not (_within(across, stored[0]) and _within(down, stored[1])):
            inside = (across >= -EDGE) & (across <= stored[0] - 1 + EDGE)
            inside &= (down >= -EDGE) & (down <= stored[1] - 1 + EDGE)
            known[top:bottom] = inside.reshape(bottom - top, grid, width, grid).all((1, 3))
        begin = min(max(0, math.floor(first)), stored[1] - 1)
        end = max(begin + 1, min(stored[1], math.floor(last) + 2))
        down = down - np.float32(begin)
        for index, plane in enumerate(rows(begin, end)):
            fine = cv2.remap(plane, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
            band = cv2.resize(fine, (width, bottom - top), interpolation=cv2.INTER_AREA)
            if index == len(planes):
                planes.append(np.empty((height, *band.shape[1:]), band.dtype))
            planes[index][top:bottom] = band
    return planes, None if known.all() else known


def _within(positions: np.ndarray, side: int) -> bool:
    return bool(positions.min() >= -EDGE and positions.max() <= side - 1 + EDGE)


def _nodes_per_pixel(lens: Lens, target: Lens, grid: int, scale: np.ndarray) -> int:
    """How many positions along each side of a pixel are computed, from 1 to ``grid``, so that linear interpolation in
    between errs by at most `PRECISION`: its error is an eighth of the second difference."""
    step = max(1.0, max(target.width, target.height) / LOOKED_AT)
    columns, lines = (np.arange(0.5, side, step) for side in (target.width, target.height))
    if min(len(columns), len(lines)) < 3:
        return grid
    source = _positions(lens, target, columns, lines)
    inside = _inside(lens, source, 1.0)[1:-1, 1:-1]
    bent = np.abs(np.diff(source, 2, axis=0))[:, 1:-1] + np.abs(np.diff(source, 2, axis=1))[1:-1]
    bent = (bent * scale).max(-1)[inside]
    # Beside directions that the lens does not image, no interpolation is exact.
    bent = bent[bent < max(lens.width, lens.height)]
    error = float(bent.max()) / (8 * step * step) if len(bent) else 0.0
    return min(grid, max(1, math.ceil(math.sqrt(error / PRECISION))))
