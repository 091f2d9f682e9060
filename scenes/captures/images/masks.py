"""Mask images: white pixels are retained, black ones are masked out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from luxel.scenes.captures.contents import SourceImage, image_files
from luxel.scenes.captures.images.images import decode, resize
from luxel.scenes.captures.images.mask_values import coverage, mask_values
from luxel.scenes.errors import CaptureError

MASK_FOLDERS = ("masks", "mask")
SAMPLE = 16  # masks or alpha channels that are inspected to decide on their use
CUTOUT_FRACTION = 0.65  # masks of an object keep less than this fraction of the pixels
CUTOUT_BORDER = 0.25  # and less than this fraction of the border pixels


def find_masks(folder: Path, sources: Sequence[SourceImage]) -> None:
    """Assigns the file of the same name in a ``masks`` folder to each image without a mask.

    For images/a/b.jpg these are tried: masks/a/b.png, masks/a/b.jpg.png (COLMAP's convention) and masks/b.png.
    """
    for name in MASK_FOLDERS:
        directory = folder / name
        if not directory.is_dir():
            continue
        by_stem = {entry.stem.lower(): entry for entry in image_files(directory)}
        for source in sources:
            if source.mask is not None:
                continue
            inner = (
                Path(*Path(source.name).parts[1:]) if len(Path(source.name).parts) > 1 else Path(source.name)
            )
            tried = [directory / r.with_suffix(".png") for r in (inner, Path(source.name))]
            tried += [directory / f"{inner}.png", directory / f"{source.name}.png"]
            match = next((path for path in tried if path.is_file()), None)
            source.mask = (
                match or by_stem.get(source.path.stem.lower()) or by_stem.get(source.path.name.lower())
            )


def read_mask(path: Path, width: int, height: int) -> np.ndarray:
    """A mask as coverage, uint8 [height, width], 255 = keep, see `luxel.scenes.captures.images.mask_values.coverage`.

    Masks of another size are resized where their aspect ratio is that of the image.

    Raises:
        CaptureError: the file cannot be read, has several labels, or its aspect ratio differs.
    """
    mask = coverage(path, mask_values(path))
    if abs(mask.shape[1] * height - mask.shape[0] * width) > 2 * max(mask.shape[1], width):
        raise CaptureError(
            f"{path}: the mask is {mask.shape[1]}x{mask.shape[0]} pixels, its image {width}x{height}.",
            "Save the mask at the size of the image, or open the capture with masks='none'.",
        )
    return resize(mask, width, height)


def mask_of(source: SourceImage) -> partial[np.ndarray] | None:
    """A function that reads the image's mask; None: it has none."""
    return partial(read_mask, source.mask, source.lens.width, source.lens.height) if source.mask else None


def are_cutouts(sources: Sequence[SourceImage]) -> bool:
    """Whether the masks outline an object, rather than hide passers-by or the edge of a lens.

    They do where, over up to 16 masks spread over the capture, less than 65% of the pixels and less than 25% of the
    border pixels are retained.
    """
    masked = [source for source in sources if source.mask]
    if not masked:
        return False
    chosen = [masked[i] for i in np.unique(np.linspace(0, len(masked) - 1, SAMPLE).astype(int))]
    retained, border = [], []
    for source in chosen:
        mask = read_mask(source.mask, source.lens.width, source.lens.height) >= 128  # type: ignore[arg-type]
        retained.append(mask.mean())
        border.append(np.concatenate([mask[0], mask[-1], mask[:, 0], mask[:, -1]]).mean())
    return bool(np.mean(retained) < CUTOUT_FRACTION and np.mean(border) < CUTOUT_BORDER)


def have_transparency(sources: Sequence[SourceImage]) -> bool:
    """Whether some pixel of up to 8 images spread over the capture is not opaque."""
    chosen = [sources[i] for i in np.unique(np.linspace(0, len(sources) - 1, SAMPLE // 2).astype(int))]
    for source in chosen:
        stored = decode(source.path, oriented=source.oriented)
        if stored.shape[-1] == 4 and int(stored[..., 3].min()) < 250:
            return True
    return False
