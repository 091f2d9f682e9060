"""Values of mask files as coverage, as programs write them: greys of 8 or 16 bits, 0 and 1, floats, two labels."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_decoding import opened_pixels
from luxel.scenes.files.images.image_values import is_deep

WHITE = 250  # of 255 from which on the brightest value is white, and the others are shades of it
HALF = 128
MAX_LABELS = 16  # with more different values, none of them white, a mask has shades rather than labels
BIMODAL = (
    0.95  # share of the pixels in the lowest and the highest quarter of the values of a mask with shades
)
COLOURED = 48  # difference of the channels of a colour
SAMPLE = 1 << 18  # pixels in which colours are looked for
WHITE_KEEPS = (
    "Save masks in which white (255) keeps a pixel and black (0) leaves it out, or open the capture with "
    "masks='none'."
)


def mask_values(path: Path) -> np.ndarray:
    """The pixels of a mask file as they are stored, [H, W], [H, W, 3] or [H, W, 4]; 1-bit masks as 0 and 255.

    Raises:
        CaptureError: the file cannot be read.
    """
    with opened_pixels(path, deep=True) as (image, pixels):
        if pixels is not None:
            return pixels
        if is_deep(image.mode) or image.mode == "L":
            return np.asarray(image)
        if image.mode == "1":
            return np.asarray(image).astype(np.uint8) * np.uint8(255)
        transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
        return np.asarray(image.convert("RGBA" if transparent else "RGB"))


def coverage(path: Path, values: np.ndarray) -> np.ndarray:
    """What a mask keeps of each pixel, uint8 [H, W], 255 = keep.

    White keeps and shades are coverage, at the bits that the values have: also 0 to 255 in files of 16 bits. Where
    nothing is white and there are two values, the larger keeps. In files with alpha, alpha is the mask where the
    colours are constant, or those of an image.

    Args:
        path: of the mask, for messages.
        values: as `mask_values` returns them.

    Raises:
        CaptureError: several labels, or values of which it is not known what they stand for.
    """
    plane = _greys(path, _plane(path, values))
    bits = np.iinfo(plane.dtype).bits
    count = cv2.calcHist([plane], [0], None, [1 << bits], [0, 1 << bits]).ravel()
    present = np.flatnonzero(count)
    high, white = int(present[-1]), WHITE << (bits - 8)
    if high >= white:
        return plane if bits == 8 else np.round(plane / np.float32(257)).astype(np.uint8)
    if len(present) <= 2:
        low = int(present[0]) if len(present) == 2 else 0
        return np.where(plane > low, np.uint8(255), np.uint8(0))
    if len(present) > MAX_LABELS and high >= HALF << (bits - 8):
        return plane if bits == 8 else np.round(plane / np.float32(257)).astype(np.uint8)
    ends = count[: high // 4 + 1].sum() + count[high - high // 4 :].sum()
    if len(present) > MAX_LABELS and ends >= BIMODAL * count.sum():
        return np.round(plane * np.float32(255 / high)).astype(np.uint8)
    raise _labels(path, f"the values {_listed([str(value) for value in present])}")


def _plane(path: Path, values: np.ndarray) -> np.ndarray:
    """The channel that is the mask, [H, W]."""
    if values.ndim == 2:
        return values
    colours = values[..., :3]
    step = max(1, int((colours.size / 3 / SAMPLE) ** 0.5))
    shift = 8 * (values.dtype.itemsize - 1)
    sample = (colours[::step, ::step].reshape(-1, 3) >> shift).astype(np.int32)
    vivid = np.ptp(sample, axis=1) >= COLOURED
    if values.shape[-1] == 4:
        alpha = np.ascontiguousarray(values[..., 3])
        if int(np.ptp(alpha)) > 0 and (vivid.any() or int(np.ptp(colours)) == 0):
            return alpha
    if vivid.any():
        codes = sample @ np.array([1 << 16, 1 << 8, 1])
        palette, labels = np.unique(codes), np.unique(codes[vivid])
        if len(labels) > 1 and len(palette) <= MAX_LABELS:
            raise _labels(path, f"the colours {_listed([f'#{code:06x}' for code in palette])}")
    return cv2.max(cv2.max(*(np.ascontiguousarray(colours[..., c]) for c in (0, 1))), colours[..., 2].copy())


def _greys(path: Path, plane: np.ndarray) -> np.ndarray:
    """Values as uint8 or, where they go beyond 255, uint16."""
    if plane.dtype.kind == "f":
        plane = np.where(np.isfinite(plane), plane, np.float32(0))
        high = float(plane.max())
        plane = np.round(plane * 255 if high <= 1 else plane)
    elif plane.dtype == np.uint8:
        return np.ascontiguousarray(plane)
    plane = np.maximum(plane, 0)
    high = int(plane.max())
    if high > 65535:
        raise CaptureError(f"{path}: the mask has values up to {high}.", WHITE_KEEPS)
    return plane.astype(np.uint8 if high <= 255 else np.uint16)


def _labels(path: Path, what: str) -> CaptureError:
    return CaptureError(f"{path}: the mask has {what}; which of them to keep is not known.", WHITE_KEEPS)


def _listed(values: list[str]) -> str:
    if len(values) > 8:
        return f"{', '.join(values[:7])}, ... {values[-1]} ({len(values)} in all)"
    return ", ".join(values)
