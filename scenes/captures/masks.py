"""Masks beside photographs: white keeps, black does not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from luxel.scenes.captures.images import decode, resize
from luxel.scenes.captures.photo import Photo, image_files
from luxel.scenes.errors import CaptureError

MASK_FOLDERS = ("masks", "mask")
SAMPLE = 16  # masks or alpha channels looked at to decide what they mean
CUTOUT_SHARE = 0.65  # an object fills less of its photographs than this
CUTOUT_BORDER = 0.25  # and touches less of their border


def find_masks(folder: Path, photos: Sequence[Photo]) -> None:
    """Gives each photo without a mask the one of a ``masks`` folder that bears its name.

    For images/a/b.jpg these are tried: masks/a/b.png, masks/a/b.jpg.png (as COLMAP has it) and masks/b.png.
    """
    for name in MASK_FOLDERS:
        directory = folder / name
        if not directory.is_dir():
            continue
        by_stem = {entry.stem.lower(): entry for entry in image_files(directory)}
        for photo in photos:
            if photo.mask is not None:
                continue
            inner = Path(*Path(photo.name).parts[1:]) if len(Path(photo.name).parts) > 1 else Path(photo.name)
            tried = [directory / r.with_suffix(".png") for r in (inner, Path(photo.name))]
            tried += [directory / f"{inner}.png", directory / f"{photo.name}.png"]
            match = next((path for path in tried if path.is_file()), None)
            photo.mask = match or by_stem.get(photo.path.stem.lower()) or by_stem.get(photo.path.name.lower())


def read_mask(path: Path, width: int, height: int) -> np.ndarray:
    """A mask as coverage, uint8 [height, width], 255 = keep.

    Masks of another size are resized if their aspect is that of the photograph.

    Raises:
        CaptureError: the file cannot be read, or its aspect does not fit.
    """
    stored = decode(path)
    # A mask drawn into an alpha channel has one colour throughout.
    in_alpha = stored.shape[-1] == 4 and int(np.ptp(stored[..., 3])) > 0 and int(np.ptp(stored[..., :3])) == 0
    mask = np.ascontiguousarray(stored[..., 3] if in_alpha else stored[..., :3].max(axis=-1))
    if mask.size and mask.max() == 1:
        mask = mask * np.uint8(255)  # written as 0 and 1
    if abs(mask.shape[1] * height - mask.shape[0] * width) > 2 * max(mask.shape[1], width):
        raise CaptureError(
            f"{path}: the mask is {mask.shape[1]}x{mask.shape[0]} pixels, its photograph {width}x{height}.",
            "Make the mask as large as the photograph, or open the capture with masks='none'.",
        )
    return resize(mask, width, height)


def mask_of(photo: Photo) -> partial[np.ndarray] | None:
    """A function that reads the photo's mask, or None."""
    return partial(read_mask, photo.mask, photo.lens.width, photo.lens.height) if photo.mask else None


def are_cutouts(photos: Sequence[Photo]) -> bool:
    """Whether the masks cut out an object: what they keep is small and mostly away from the borders.

    The rule: over up to 16 masks spread over the capture, less than 65% of the pixels and less than 25% of
    the border pixels are kept. Masks that blot out passers-by or the edge of a lens keep more.
    """
    masked = [photo for photo in photos if photo.mask]
    if not masked:
        return False
    chosen = [masked[i] for i in np.unique(np.linspace(0, len(masked) - 1, SAMPLE).astype(int))]
    kept, border = [], []
    for photo in chosen:
        mask = read_mask(photo.mask, photo.lens.width, photo.lens.height) >= 128  # type: ignore[arg-type]
        kept.append(mask.mean())
        border.append(np.concatenate([mask[0], mask[-1], mask[:, 0], mask[:, -1]]).mean())
    return bool(np.mean(kept) < CUTOUT_SHARE and np.mean(border) < CUTOUT_BORDER)


def have_transparency(photos: Sequence[Photo]) -> bool:
    """Whether alpha channels of the photographs say anything: some pixel in a sample is not opaque."""
    chosen = [photos[i] for i in np.unique(np.linspace(0, len(photos) - 1, SAMPLE // 2).astype(int))]
    for photo in chosen:
        stored = decode(photo.path, oriented=photo.oriented)
        if stored.shape[-1] == 4 and int(stored[..., 3].min()) < 250:
            return True
    return False
