"""Images of the labels of primitives: per pixel the label with the largest blended weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.parameters import Parameters
from luxel.render.rasterize import rasterize
from luxel.render.segment.votes import NO_LABEL


class LabelImage(NamedTuple):
    """What a camera sees of labelled primitives; with a leading C for a batch of cameras.

    Args:
        labels: uint8 [H, W]: the label with the largest blended weight; NO_LABEL where no labelled primitive
            contributes.
        weights: the blended weight of that label, float32 [H, W].
        transmittance: fraction of the background that is visible, float32 [H, W].
    """

    labels: Tensor
    weights: Tensor
    transmittance: Tensor


def label_image(
    scene: Parameters,
    camera: Camera,
    labels: Tensor,
    count: int,
    time: float | Tensor | None = None,
    **options: Any,
) -> LabelImage:
    """Renders the labels of primitives.

    Args:
        scene: N primitives.
        camera: a camera or C of them.
        labels: uint8 [N]; NO_LABEL: contributes to no label.
        count: L; labels are below it.
        time: of moving scenes.
        options: others of `rasterize` that change alpha.

    Raises:
        ValueError: labels of another number of primitives, or of another type.
    """
    if labels.shape != (scene.count,) or labels.dtype != torch.uint8:
        raise ValueError(f"labels must be uint8 [{scene.count}], got {labels.dtype} {list(labels.shape)}")
    ids = labels.to(scene.device, torch.int64).clamp(max=count)
    one_hot = torch.nn.functional.one_hot(ids, count + 1)[:, :count].to(scene.opacity_logits.dtype)
    with torch.no_grad():
        frame = rasterize(scene, camera, time=time, features=one_hot, **options)
    assert frame.features is not None
    assert frame.transmittance is not None
    top, index = frame.features.max(dim=-1)
    leading = torch.where(top > 0, index, NO_LABEL).to(torch.uint8)
    return LabelImage(leading, top, frame.transmittance)
