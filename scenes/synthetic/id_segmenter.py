"""A segmenter made from the true ids of a made-up scene: it replaces a network in tests and comparisons."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import View
from luxel.render.segment import Box, MaskChoice, Point
from luxel.render.segment.propagate import photograph
from luxel.scenes.captures.true_ids import read_ids

CELL = 8  # pixels between the random numbers of the noise
MARGIN = 7  # pixels of the surroundings of a solid


class IdSegmenter:
    """Returns the solid below a point, or that fills most of a box, at three granularities.

    These are its upper half, all of it, and it together with its surroundings.

    Args:
        known: true ids, uint8 [H, W], by `image_key` of the image.
        noise: how far borders are moved at random, pixels.
    """

    def __init__(self, known: Mapping[str, np.ndarray], noise: float = 0.0) -> None:
        self.known, self.noise = dict(known), noise

    @staticmethod
    def of_views(views: Sequence[View], noise: float = 0.0) -> IdSegmenter:
        """The segmenter of views with true ids.

        Raises:
            CaptureError: one has none.
        """
        return IdSegmenter({image_key(photograph(view)): read_ids(view) for view in views}, noise)

    def embed(self, image: np.ndarray) -> Tensor:
        """The true ids of an image.

        Raises:
            LuxelError: it is not among the known ones.
        """
        ids = self.known.get(image_key(image))
        if ids is None:
            raise LuxelError(
                "There are no true ids of this image.", "Use another segmenter: --segmenter mobile-sam."
            )
        return torch.from_numpy(np.array(ids))

    def masks(self, embedding: Any, points: Sequence[Point], box: Box | None = None) -> MaskChoice:
        """The masks, see `luxel.render.segment.segmenter.Segmenter`; empty where a box has no solid in it."""
        ids, label = embedding, self._label(embedding, points, box)
        full = displaced(ids, self.noise, seed=label) == label
        if not label:
            full = torch.zeros_like(full)
        rows = torch.arange(len(ids))[:, None]
        part = full & (rows < full.nonzero()[:, 0].float().mean())
        window = 2 * MARGIN + 1
        around = torch.nn.functional.max_pool2d(full[None].float(), window, 1, MARGIN)[0] > 0
        masks = torch.stack([part, full, around])
        return MaskChoice(masks, masks * 10.0 - 5, torch.tensor([0.7, 0.9, 0.8]))

    @staticmethod
    def _label(ids: Tensor, points: Sequence[Point], box: Box | None) -> int:
        height, width = ids.shape
        if points:
            x, y, _ = points[0]
            return int(ids[min(int(y), height - 1), min(int(x), width - 1)])
        x0, y0, x1, y1 = (int(edge) for edge in box or (0, 0, width, height))
        counts = torch.bincount(ids[y0:y1, x0:x1].flatten().long(), minlength=2)
        return int(counts[1:].argmax()) + 1 if int(counts[1:].sum()) else 0


def image_key(image: np.ndarray) -> str:
    """What tells images apart."""
    return hashlib.sha256(f"{image.shape}".encode() + np.ascontiguousarray(image).tobytes()).hexdigest()


def displaced(labels: Tensor, reach: float, seed: int) -> Tensor:
    """A label map [H, W] in which borders are moved at random by up to ``reach`` pixels, smoothly."""
    if not reach:
        return labels
    generator = torch.Generator().manual_seed(seed)
    height, width = labels.shape
    cells = (1, 2, max(height // CELL, 1), max(width // CELL, 1))
    coarse = (2 * torch.rand(cells, generator=generator) - 1) * reach
    moved = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0]
    rows = (torch.arange(height)[:, None] + moved[0]).round().long().clamp(0, height - 1)
    columns = (torch.arange(width)[None] + moved[1]).round().long().clamp(0, width - 1)
    return labels[rows, columns]
