"""Label maps that a camera sees of a labelled scene, with the background behind the primitives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.label_image import label_image


def label_map(
    scene: Parameters,
    camera: Camera,
    labels: Tensor,
    count: int,
    time: float | Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Per pixel the label with the largest blended weight; 0 also where more of the background is visible.

    Args:
        scene, camera, labels, count, time, options: as in `label_image`.

    Returns:
        uint8 [H, W], or [C, H, W] for a batch of cameras.
    """
    image = label_image(scene, camera, labels, count, time, **options)
    return torch.where(image.weights > image.transmittance, image.labels, 0).to(torch.uint8)
