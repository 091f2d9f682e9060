"""Prepared frames instead of a renderer, which carry the number of their camera in their pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians

BITS = 7
TURN = 1 << BITS  # camera positions on a circle about the z axis
IMAGES = 8  # different images
SHIFT = 10  # pixels by which a moving image shifts from one position to the next
COLUMNS, ROWS = 32, 24  # a bit covers one cell of this grid, in the upper row


@dataclass(frozen=True)
class PreparedFrame:
    """What the viewer needs of a frame: colours [H, W, 3] and alpha [H, W], in [0, 1]."""

    rgb: Tensor
    alpha: Tensor


class PreparedFrames:
    """A render function that returns frames made before.

    The upper left corner of a frame shows, as black and white cells, on which of TURN positions of a circle the camera
    stands (`position_of`), so that a page can tell for which camera it shows an image.

    Args:
        width, height: largest frame that is prepared before the first call, pixels.
        moving: whether a frame is what the camera sees of one wide image, as video needs; else the next of a ring of
            different images.
    """

    def __init__(self, width: int = 1920, height: int = 1080, moving: bool = False) -> None:
        self._moving = moving
        self._images = self._prepared(height, width)
        self._count = 0

    def _prepared(self, height: int, width: int) -> list[Tensor]:
        if not self._moving:
            return [_image(height, width, seed) for seed in range(IMAGES)]
        wide = _image(height, width + SHIFT * TURN, 0)
        return [wide[:, SHIFT * position :][:, :width] for position in range(TURN)]

    def __call__(self, scene: Gaussians, camera: Camera, **_: Any) -> PreparedFrame:
        """The frame of a camera: the next of the ring, cut to size."""
        if camera.height > self._images[0].shape[0] or camera.width > self._images[0].shape[1]:
            self._images = self._prepared(camera.height, camera.width)
        self._count += 1
        x, y, _z = camera.position.tolist()
        position = position_of(x, y)
        image = self._images[position if self._moving else self._count % IMAGES][
            : camera.height, : camera.width
        ]
        if self._moving:
            image = image.clone()
        _write(image, position)
        return PreparedFrame(image, image[..., 0])


def position_of(x: float, y: float) -> int:
    """On which of TURN positions of a circle about the z axis a camera stands."""
    return round(math.atan2(y, x) / (2 * math.pi) * TURN) % TURN


def read(image: Tensor) -> int:
    """The position that an image [H, W, 3] with values in [0, 1] carries."""
    height, width = image.shape[:2]
    row, columns = height // (2 * ROWS), [int((k + 0.5) * width / COLUMNS) for k in range(BITS)]
    return sum(1 << k for k, column in enumerate(columns) if float(image[row, column].mean()) > 0.5)


def _write(image: Tensor, position: int) -> None:
    height, width = image.shape[:2]
    for k in range(BITS):
        cell = slice(int(k * width / COLUMNS), int((k + 1) * width / COLUMNS))
        image[: height // ROWS, cell] = float(position >> k & 1)


def _image(height: int, width: int, seed: int) -> Tensor:
    """Blobs with some fine structure, [H, W, 3]: about as many bytes of JPEG as an image of this size."""
    generator = torch.Generator().manual_seed(seed)
    layers = torch.zeros(1, 3, height, width)
    for cells, weight in ((6, 0.6), (40, 0.3), (240, 0.1)):
        coarse = torch.rand(1, 3, max(2, cells * height // width), cells, generator=generator)
        layers += weight * torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    return layers[0].permute(1, 2, 0).clamp(0, 1).contiguous()
