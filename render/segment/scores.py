"""Intersection over union of label maps with true ones."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.segment.votes import MAX_LABELS, NO_LABEL


def mask_iou(a: Tensor, b: Tensor) -> float:
    """Intersection over union of two bool masks of one shape; 0 where both are empty."""
    return mask_ious(a[None], b)[0]


def mask_ious(masks: Tensor, other: Tensor) -> list[float]:
    """Intersection over union of each of M bool masks [M, H, W] with another one [H, W]; 0 where both are empty.

    A GPU is waited for once.
    """
    counts = torch.stack([(masks & other).sum((1, 2)), (masks | other).sum((1, 2))])
    both, either = counts.tolist()
    return [common / union if union else 0.0 for common, union in zip(both, either, strict=True)]


class LabelScores:
    """Intersection over union of each label, over the pixels of all label maps that were added.

    Args:
        count: L; labels are below it.
    """

    def __init__(self, count: int) -> None:
        if not 1 <= count <= MAX_LABELS:
            raise ValueError(f"count must be 1 to {MAX_LABELS}, got {count}")
        self.count = count
        self._confusion = torch.zeros(count, count, dtype=torch.int64)

    def add(self, predicted: Tensor, truth: Tensor) -> LabelScores:
        """Adds a label map.

        Args:
            predicted: uint8 [H, W]; NO_LABEL counts as the background.
            truth: uint8 [H, W]; pixels of NO_LABEL do not count.

        Returns:
            The scores of this map alone.

        Raises:
            ValueError: maps of different sizes, or labels of L and more.
        """
        if predicted.shape != truth.shape:
            raise ValueError(f"predicted must be {list(truth.shape)} like truth, got {list(predicted.shape)}")
        counted = truth != NO_LABEL
        expected, given = truth[counted].long().cpu(), predicted[counted].long().cpu()
        given = given.masked_fill(given == NO_LABEL, 0)
        if len(given) and int(torch.maximum(given, expected).max()) >= self.count:
            largest = int(torch.maximum(given, expected).max())
            raise ValueError(f"labels must be below {self.count}, or {NO_LABEL}, got {largest}")
        one = LabelScores(self.count)
        one._confusion = torch.bincount(expected * self.count + given, minlength=self.count**2).reshape(
            self.count, self.count
        )
        self._confusion += one._confusion
        return one

    @property
    def iou(self) -> Tensor:
        """Of each label, float64 [L]; NaN where neither map has it."""
        both = self._confusion.diagonal().double()
        return both / (self._confusion.sum(0) + self._confusion.sum(1) - both)

    @property
    def mean_iou(self) -> float:
        """Mean IoU of the labels from 1 that the true or the predicted maps have; NaN where there are none."""
        return float(self.iou[1:].nanmean())

    @property
    def accuracy(self) -> float:
        """Fraction of the pixels with their true label, the background included."""
        return float(self._confusion.diagonal().sum() / self._confusion.sum())
