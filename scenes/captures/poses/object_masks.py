"""Masks of the object in the middle of images, by MobileSAM, for turntables: the object moves, the rest stays.

The segmenter is prompted with the middle of each image, and with the box of the object so far. It proposes masks
of several sizes, parts and wholes; the ones that agree best over all images are used. Where the camera stands
still, they are also compared with the area in which the images differ, so that wholes are preferred to parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from luxel.render.native import best_device
from luxel.render.segment.providers.mobile_sam import MobileSamSegmenter
from luxel.render.segment.segmenter import Box, Segmenter, on_cpu
from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.images.images import check_images, decode
from luxel.scenes.captures.poses.moving_area import moving_area
from luxel.scenes.errors import CaptureError

VERSION = 2  # increased when a change of this file invalidates cached masks
SIDE = 96  # pixels of the square to which masks are shrunk for comparison
LEAST, MOST = 0.003, 0.7  # fractions of the image that an object may cover
MAX_BORDER = 0.25  # fraction of the border that it may cover
ROUNDS = 5  # of choosing masks and averaging them
ALIKE = 0.4  # least IoU of a mask with the average of all
MIN_ALIKE = 0.5  # share of the images in which the object must be visible
MIN_HOLE = 0.01  # of the object's area; smaller holes are closed
SPREAD = 0.05  # of width and height, by which the box of the average is widened


class Proposal(NamedTuple):
    """A mask that the segmenter proposes.

    Args:
        small: coverage, float32 [SIDE, SIDE].
        packed: bits of the full mask, see np.packbits.
        sure: predicted IoU.
    """

    small: np.ndarray
    packed: np.ndarray
    sure: float


@cache
def mobile_sam() -> Segmenter:
    """The segmenter, on the GPU where there is one."""
    from luxel.render.nets.mobile_sam import load_mobile_sam

    return MobileSamSegmenter(load_mobile_sam(device=best_device()))


def mask_object(
    sources: Sequence[SourceImage],
    cached: CaptureCache,
    on_progress: Progress,
    segmenter: Segmenter | None = None,
) -> None:
    """Gives each image without a mask that of the object in its middle, made once and cached.

    Args:
        sources: all images of a capture.
        cached: results of the capture, among which the masks are.
        on_progress: called with (stage, fraction done in [0, 1]).
        segmenter: None: MobileSAM.

    Raises:
        CaptureError: the object differs from image to image.
    """
    bare = [source for source in sources if source.mask is None]
    if not bare:
        return
    sizes = [(source.name, source.path.stat().st_size) for source in bare]
    names = [f"{source.path.name}.png" for source in bare]

    def read(folder: Path) -> list[Path]:
        paths = [folder / name for name in names]
        if not all(path.is_file() for path in paths):
            raise ValueError(f"{folder} does not have all masks")
        return paths

    def make(folder: Path) -> None:
        masks = _consistent(bare, segmenter or mobile_sam(), on_progress)
        for name, mask in zip(names, masks, strict=True):
            Image.fromarray(mask).save(folder / name, compress_level=1)

    inside = f"object-{content_key(['object', VERSION, *sizes])}"
    paths = cached.result(inside, read, make, check=lambda folder: check_images(read(folder)))
    for source, path in zip(bare, paths, strict=True):
        source.mask = path


def _consistent(
    sources: Sequence[SourceImage], segmenter: Segmenter, on_progress: Progress
) -> list[np.ndarray]:
    """The masks that agree best with each other, uint8 [H, W] each, 255 inside."""
    proposals: list[list[Proposal]] = []
    area = _area(sources)
    average = np.zeros((SIDE, SIDE), np.float32) if area is None else area
    for index, source in enumerate(sources):
        pixels = decode(source.path, oriented=True)[..., :3]
        proposals.append(_proposals(segmenter, np.ascontiguousarray(pixels), average))
        on_progress("masking the object", (index + 1) / len(sources))
        if area is not None:
            continue
        first = max(proposals[-1], key=lambda p: _iou(p.small, average) if index else p.sure, default=None)
        if first is not None:
            average += (first.small - average) / (index + 1)
    chosen = choose(proposals, area)
    average = np.mean([p.small for p in chosen if p is not None] or [average], axis=0)
    alike = [p is not None and _iou(p.small, average) >= ALIKE for p in chosen]
    if np.mean(alike) < MIN_ALIKE:
        raise CaptureError(
            f"{sources[0].path.parent}: no object in the middle looks alike in more than {sum(alike)} of the "
            f"{len(sources)} images.",
            "Put masks of the object into a folder masks next to the images.",
        )
    return [
        _full(proposal, source) if good and proposal is not None else _full(None, source)
        for proposal, source, good in zip(chosen, sources, alike, strict=True)
    ]


def _area(sources: Sequence[SourceImage]) -> np.ndarray | None:
    """Where the images of a still camera differ, float32 [SIDE, SIDE]; None: it moved."""
    area = moving_area(sources)
    return (
        None
        if area is None
        else cv2.resize(area.astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    )


def choose(proposals: Sequence[Sequence[Proposal]], area: np.ndarray | None = None) -> list[Proposal | None]:
    """For each image the proposal most like the average of all that are chosen; None: it has none.

    Begins with the ones most like the area, or that the segmenter is surest of, then chooses and averages in turn.

    Args:
        proposals: of each image.
        area: where the images differ, float32 [SIDE, SIDE]; None: not known.
    """

    def first(proposal: Proposal) -> float:
        return proposal.sure if area is None else _iou(proposal.small, area)

    chosen = [max(some, key=first, default=None) for some in proposals]
    for _ in range(ROUNDS):
        average = np.mean([p.small for p in chosen if p is not None] or [np.zeros((SIDE, SIDE))], axis=0)
        chosen = [max(some, key=lambda p: _iou(p.small, average), default=None) for some in proposals]
    return chosen


def _proposals(segmenter: Segmenter, pixels: np.ndarray, average: np.ndarray) -> list[Proposal]:
    """Masks of an image that may be an object: for its middle, and for the box of the average."""
    height, width = pixels.shape[:2]
    embedding = segmenter.embed(pixels)
    middle = [(0.5 * width, 0.5 * height, True)]
    choices = [on_cpu(segmenter.masks(embedding, middle))]
    box = _box(average, width, height)
    if box is not None:
        choices.append(on_cpu(segmenter.masks(embedding, middle, box)))
    out = []
    for choice in choices:
        for mask, sure in zip(choice.masks.numpy(), choice.predicted_iou.tolist(), strict=True):
            border = np.concatenate([mask[0], mask[-1], mask[:, 0], mask[:, -1]]).mean()
            if LEAST <= mask.mean() <= MOST and border <= MAX_BORDER:
                small = cv2.resize(mask.astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_AREA)
                out.append(Proposal(small, np.packbits(mask), float(sure)))
    return out


def _box(average: np.ndarray, width: int, height: int) -> Box | None:
    """The box around what most masks so far cover, widened, pixels; None: nothing."""
    rows, columns = np.nonzero(average >= 0.5)
    if not len(rows):
        return None
    low = np.array([columns.min(), rows.min()]) / SIDE - SPREAD
    high = np.array([columns.max() + 1, rows.max() + 1]) / SIDE + SPREAD
    (x0, y0), (x1, y1) = np.clip(low, 0, 1), np.clip(high, 0, 1)
    return (float(x0 * width), float(y0 * height), float(x1 * width), float(y1 * height))


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two coverages."""
    union = float(np.maximum(a, b).sum())
    return float(np.minimum(a, b).sum()) / union if union else 0.0


def _full(proposal: Proposal | None, source: SourceImage) -> np.ndarray:
    """The mask at full size without islands and small holes; nothing without a proposal."""
    height, width = source.lens.height, source.lens.width
    if proposal is None:
        return np.zeros((height, width), np.uint8)
    mask = np.unpackbits(proposal.packed, count=height * width).reshape(height, width)
    outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(mask)
    largest = max(outlines, key=cv2.contourArea)
    cv2.drawContours(filled, [largest], -1, 255, cv2.FILLED)
    holes = ((filled > 0) & (mask == 0)).astype(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(holes, connectivity=4)
    open_ones = np.nonzero(stats[:, cv2.CC_STAT_AREA] >= MIN_HOLE * (filled > 0).sum())[0]
    filled[np.isin(labels, open_ones[open_ones > 0])] = 0
    return filled
