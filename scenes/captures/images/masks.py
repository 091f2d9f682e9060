"""Mask images: white pixels are retained, black ones are masked out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.images.images import decode, resize
from luxel.scenes.captures.images.mask_files import (
    files_below,
    is_mask_image,
    mask_folders,
    masks_alongside,
    match_masks,
    parts_below,
)
from luxel.scenes.captures.images.mask_values import coverage, mask_values
from luxel.scenes.errors import CaptureError

SAMPLE = 16  # masks or alpha channels that are inspected to decide on their use
CUTOUT_FRACTION = 0.65  # masks of an object keep less than this fraction of the pixels
CUTOUT_BORDER = 0.25  # and less than this fraction of the border pixels
MAX_CHROMA = 16  # difference of the channels of a grey pixel, of 255, in a JPEG file


def find_masks(folder: Path, sources: Sequence[SourceImage]) -> None:
    """Assigns to each image without a mask the one of its name, by the rules of `match_masks`.

    Masks are in folders ``masks`` or ``mask`` of the capture or alongside the folder of images; or next to an image, as
    NAME_mask.png, where the file is grey.
    """
    for masks in mask_folders(folder, [source.path for source in sources]):
        files = [parts for parts in files_below(masks) if is_mask_image(parts[-1])]
        images = [parts_below(source.path, source.name, masks.parent) for source in sources]
        _assign(sources, match_masks(images, files).of_image, [masks.joinpath(*parts) for parts in files])
    if any(source.mask is None for source in sources):
        _find_masks_alongside(sources)


def _assign(sources: Sequence[SourceImage], rows: dict[int, int], files: Sequence[Path]) -> None:
    for image, mask in rows.items():
        if sources[image].mask is None:
            sources[image].mask = files[mask]


def _find_masks_alongside(sources: Sequence[SourceImage]) -> None:
    """Assigns files such as NAME_mask.png in the folder of an image NAME.jpg."""
    by_folder: dict[Path, list[SourceImage]] = {}
    for source in sources:
        by_folder.setdefault(source.path.parent, []).append(source)
    for folder, images in by_folder.items():
        names = {source.path.name for source in images}
        files = [name for name in masks_alongside(folder) if name not in names]
        if files:
            rows = match_masks([(image.path.name,) for image in images], [(name,) for name in files]).of_image
            if rows and _is_grey(folder / files[min(rows.values())]):
                _assign(images, rows, [folder / name for name in files])


def _is_grey(path: Path) -> bool:
    """Whether an image has no colour, but for the errors of its compression."""
    values = mask_values(path)
    if values.ndim == 2:
        return True
    rgb = (values[..., :3] >> (8 * (values.dtype.itemsize - 1))).astype(np.int16)
    return int(np.ptp(rgb, axis=-1).max(initial=0)) <= MAX_CHROMA


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
