"""The interface of image segmenters that are prompted with points and boxes, such as SAM (Kirillov et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

Box = tuple[float, float, float, float]
Point = tuple[float, float, bool]


class MaskChoice(NamedTuple):
    """What a segmenter proposes for a prompt: the same thing at M = 3 granularities, in any order.

    Args:
        masks: bool [M, H, W].
        logits: float [M, H, W] at the size of the image; above 0 inside.
        predicted_iou: what the segmenter thinks of each mask, [M].
        single: M is 4, and the first mask is the segmenter's answer to prompts that leave no doubt about what is
            meant: a box, or several points.
    """

    masks: Tensor
    logits: Tensor
    predicted_iou: Tensor
    single: bool = False

    @property
    def surest(self) -> int:
        """The place of the mask that the segmenter is surest of."""
        return 0 if self.single else int(self.predicted_iou.argmax())


def on_device(given: Any, device: torch.device | str) -> MaskChoice:
    """What a segmenter returned, with masks and logits on a device and the predicted IoU on the CPU."""
    masks, logits, predicted_iou, *single = given
    masks, logits = (torch.as_tensor(part).to(device) for part in (masks, logits))
    return MaskChoice(masks, logits, torch.as_tensor(predicted_iou).cpu(), any(single))


def on_cpu(given: Any) -> MaskChoice:
    """What a segmenter returned, as tensors on the CPU."""
    return on_device(given, "cpu")


class Segmenter(Protocol):
    """Finds masks in an image."""

    def embed(self, image: np.ndarray) -> Any:
        """What `masks` needs of an image, uint8 [H, W, 3]; the slow part."""
        ...

    def masks(self, embedding: Any, points: Sequence[Point], box: Box | None = None) -> Any:
        """Masks for a prompt, in the order of `MaskChoice`.

        Args:
            embedding: of the image.
            points: x, y in pixels and whether the point is inside.
            box: x0, y0, x1, y1 in pixels around what is meant; None: not given.
        """
        ...


@dataclass(frozen=True)
class Prompt:
    """Points and a box in one view that mean one object.

    Args:
        label: of the object, 1 to 254.
        view: name of the view.
        points: x, y in pixels and whether the point is inside the object.
        box: x0, y0, x1, y1 in pixels; None: not given.
    """

    label: int
    view: str
    points: tuple[Point, ...] = ()
    box: Box | None = None
