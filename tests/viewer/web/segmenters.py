"""Segmenters of images that tell objects by their colour, in place of MobileSAM."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


class ColourSegmenter:
    """Takes as an object what has nearly the colour of the first point."""

    def __init__(self) -> None:
        self.looked = 0

    def embed(self, image: np.ndarray) -> Any:
        self.looked += 1
        return image

    def masks(self, embedding: Any, points: Any, box: Any = None) -> Any:
        x, y, _ = points[0]
        image = embedding.astype(float)
        same = (
            np.abs(image - image[min(int(y), len(image) - 1), min(int(x), image.shape[1] - 1)]).max(-1) < 60
        )
        mask = torch.from_numpy(np.stack([same] * 3))
        return mask, torch.where(mask, 5.0, -5.0), torch.tensor([0.9, 0.8, 0.7])


class NestedSegmenter(ColourSegmenter):
    """Has three masks: pixels of nearly the same colour around the point, all of that colour, and all that is shown.

    Args:
        best: place of the mask that it is surest of.
    """

    def __init__(self, best: int = 1) -> None:
        super().__init__()
        self.sure = torch.full((3,), 0.5)
        self.sure[best] = 0.9

    def masks(self, embedding: Any, points: Any, box: Any = None) -> Any:
        x, y, _ = points[0]
        same = super().masks(embedding, points)[0][0]
        rows, columns = torch.meshgrid(*(torch.arange(n) for n in same.shape), indexing="ij")
        near = (columns - x).square() + (rows - y).square() < 12**2
        stacked = torch.stack([same & near, same, torch.from_numpy(embedding.max(-1) > 40)])
        for u, v, inside in points[1:]:
            if not inside:
                stacked &= ((columns - u).square() + (rows - v).square() >= 10**2)[None]
        return stacked, torch.where(stacked, 5.0, -5.0), self.sure
