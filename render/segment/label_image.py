"""Images of the labels of primitives: per pixel the label with the largest blended weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.label_render import label_render
from luxel.render.primitives.parameters import Parameters
from luxel.render.segment.splat_lists import splat_lists


class LabelImage(NamedTuple):
    """What a camera sees of labelled primitives; with a leading C for a batch of cameras.

    Args:
        labels: uint8 [H, W]: the label with the largest blended weight, of equal ones the lowest; NO_LABEL where no
            labelled primitive contributes.
        weights: the blended weight of that label, [H, W], in the float type of the scene.
        transmittance: fraction of the background that is visible, [H, W], likewise.
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
        count: L, 1 to 255; labels from it on contribute to no label.
        time: of moving scenes.
        options: others of `rasterize` that change alpha: antialiased, dilation, max_alpha.

    Raises:
        ValueError: labels of another number of primitives, or of another type, or L out of range.
    """
    if labels.shape != (scene.count,) or labels.dtype != torch.uint8:
        raise ValueError(f"labels must be uint8 [{scene.count}], got {labels.dtype} {list(labels.shape)}")
    splats, lists, settings = splat_lists(scene, camera, time, **options)
    rendered = label_render(
        splats,
        lists.instances,
        lists.ranges,
        lists.plan,
        labels.to(scene.device),
        label_count=count,
        width=settings.width,
        height=settings.height,
        max_alpha=settings.max_alpha,
        primitive=settings.policy,
    )
    return LabelImage(*(rendered if camera.batched else (image[0] for image in rendered)))
