"""Images that are trained as they are: the lens of their camera, and which of their pixels count."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_lens, imaged, limit_of_image, radial_lens
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.errors import CaptureError

DARK = 16  # largest value of a pixel outside of the image circle
SAMPLES = 5  # images of a lens in which its image circle is looked for
SIDE = 400  # pixels of the longer side of these
RINGS = 200  # in which they are divided
INWARD = 0.99  # share of the image circle that counts: its edge is not sharp
SMALLEST = 0.3  # share of the distance to the farthest corner that an image circle has at least


def lens_row(lens: Lens, where: str, circle: float | None = None) -> Tensor:
    """The lens as cameras and kernels take it, see `luxel.render.geometry.lens`; float32 [8].

    Args:
        lens: of the image.
        where: beginning of messages.
        circle: radius of the image circle in focal lengths; None: it is not known, or there is none.

    Raises:
        CaptureError: the model cannot be retained; the message begins with ``where``.
    """
    if lens.model:
        raise CaptureError(
            f"{where}: images of the camera model {lens.model} cannot be trained without undistortion.",
            "Leave --lens keep out, or calibrate with OPENCV_FISHEYE or OPENCV.",
        )
    corner = float(_distances(lens, lens.width, lens.height).max())
    visible = corner if circle is None else min(circle, corner)
    if lens.fisheye:
        return fisheye_lens(lens.distortion, limit_of_image(fisheye_lens(lens.distortion), visible))
    k1, k2, p1, p2, k3, *more = (*lens.distortion, *(0.0,) * 8)[:8]
    if any(more):
        raise CaptureError(
            f"{where}: images with the coefficients k4 to k6 of FULL_OPENCV cannot be trained without undistortion.",
            "Leave --lens keep out, or calibrate with OPENCV.",
        )
    return radial_lens((k1, k2, k3), (p1, p2), limit_of_image(radial_lens((k1, k2, k3)), visible))


def distorted_camera(lens: Lens, world_to_cam: np.ndarray, where: str, circle: float | None = None) -> Camera:
    """The camera of images that are not undistorted; arguments as of `lens_row`.

    Raises:
        CaptureError: as of `lens_row`.
    """
    return Camera(
        torch.tensor(world_to_cam, dtype=torch.float32),
        torch.tensor([lens.fx, lens.fy, lens.cx, lens.cy], dtype=torch.float32),
        lens.width,
        lens.height,
        lens=lens_row(lens, where, circle) if lens.distorted else None,
    )


@lru_cache(maxsize=8)
def counted_pixels(lens: Lens, circle: float | None) -> np.ndarray | None:
    """Which pixels of an image show something, bool [H, W], read-only; None: all do.

    Left out are those beyond the limit of the lens and those outside of the image circle.

    Args:
        lens: of the image.
        circle: radius of the image circle in focal lengths; None: it is not known.
    """
    inside = imaged(distorted_camera(lens, np.eye(4), "lens"))
    if circle is not None:
        inside &= _distances(lens, lens.width, lens.height) <= circle
    inside.setflags(write=False)
    return None if inside.all() else inside


def image_circle(lens: Lens, images: Sequence[np.ndarray]) -> float | None:
    """The radius of the image circle of a fisheye in focal lengths, beyond which images are black.

    Args:
        lens: of the images.
        images: some of them, uint8 [h, w, 3], of any size.

    Returns:
        None where something is visible up to the corners.
    """
    brightest: np.ndarray | None = None
    width, height = max(1, round(lens.width * _factor(lens))), max(1, round(lens.height * _factor(lens)))
    for image in images:
        values = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA).max(-1)
        brightest = values if brightest is None else np.maximum(brightest, values)
    if brightest is None:
        return None
    distance = _distances(lens, width, height)
    farthest = float(distance.max())
    ring = np.minimum((distance / farthest * RINGS).astype(int), RINGS - 1)
    lit = np.array([np.count_nonzero(brightest[ring == i] >= DARK) for i in range(RINGS)])
    sizes = np.bincount(ring.ravel(), minlength=RINGS)
    visible = np.flatnonzero(lit > 0.1 * np.maximum(sizes, 1))
    if not len(visible) or visible[-1] >= RINGS - 2 or visible[-1] < SMALLEST * RINGS:
        return None
    return float(INWARD * farthest * (visible[-1] + 1) / RINGS)


def sampled(paths: Sequence[Path]) -> list[Path]:
    """The images in which the image circle is looked for, evenly spread."""
    rows = np.linspace(0, len(paths) - 1, min(SAMPLES, len(paths))).round().astype(int)
    return [paths[row] for row in rows]


def _factor(lens: Lens) -> float:
    return min(1.0, SIDE / max(lens.width, lens.height))


def _distances(lens: Lens, width: int, height: int) -> np.ndarray:
    """Distances of pixels from the principal point in focal lengths, [height, width], of the image at another size."""
    x = ((np.arange(width) + 0.5) * lens.width / width - lens.cx) / lens.fx
    y = ((np.arange(height) + 0.5) * lens.height / height - lens.cy) / lens.fy
    return np.hypot(x[None], y[:, None])
