"""Images of which no pixel counts: their mask keeps nothing, they are transparent, or their lens images nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from luxel.scenes.captures.contents import CaptureContents, SourceImage
from luxel.scenes.captures.images.images import ImageReader
from luxel.scenes.errors import CaptureError
from luxel.scenes.unused import LOST, Unused

SAMPLE = 8  # images that are read to look for pixels that count where they do not stay in memory


def without_counted_pixels(
    root: Path, contents: CaptureContents, readers: Mapping[str, ImageReader]
) -> set[str]:
    """Names of the images without a pixel that counts, see `Pixels.counts`; ``contents.unused`` gets an entry for them.

    Only images in memory are looked at. Where they do not stay there, some are read.

    Args:
        root: of the capture.
        contents: of the capture.
        readers: of its images, by name.

    Raises:
        CaptureError: no image that was looked at has a pixel that counts.
    """
    weighted = [
        source
        for source in contents.images
        if readers[source.name].use != "none" or readers[source.name].lens.distorted
    ]
    if not weighted:
        return set()
    pixels = [(source, readers[source.name].cached) for source in weighted]
    if all(cached is None for _, cached in pixels):
        rows = np.unique(np.linspace(0, len(weighted) - 1, SAMPLE).astype(int)).tolist()
        pixels = [(weighted[row], readers[weighted[row].name]()) for row in rows]
    known = [(source, cached) for source, cached in pixels if cached is not None]
    empty = [source for source, cached in known if not cached.counts]
    if not empty:
        return set()
    first = empty[0]
    reason, remedy = _reason(root, first, readers[first.name])
    if len(empty) == len(known):
        every = "no image" if len(known) == len(contents.images) else f"none of {len(known)} images"
        raise CaptureError(f"{root}: {every} has a pixel that counts: {reason}.", remedy)
    problem = (
        f"{len(empty)} of {len(contents.images)} images have no pixel that counts and are left out: {reason}."
    )
    contents.unused.append(
        Unused("images without a pixel that counts", len(empty), first.name, problem, remedy, LOST)
    )
    return {source.name for source in empty}


def _reason(root: Path, source: SourceImage, reader: ImageReader) -> tuple[str, str]:
    """Why no pixel of an image counts, and what to do."""
    if reader.use != "none" and source.mask is not None:
        mask = source.mask
        name = mask.relative_to(root) if mask.is_relative_to(root) else mask
        return (
            f"the mask {name} keeps nothing of {source.name}",
            "White (255) in a mask keeps a pixel: correct the masks, or open the capture with masks='none'.",
        )
    if reader.use != "none":
        return (
            f"{source.name} is transparent everywhere",
            "Correct the alpha channels of the images, or open the capture with masks='none'.",
        )
    return (
        f"the lens of {source.name} images none of its pixels",
        "Correct the coefficients of the lens, or undistort the images beforehand.",
    )
