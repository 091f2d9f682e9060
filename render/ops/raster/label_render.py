"""Stage: per pixel the label with the largest blended weight (kernels of the same name)."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.raster.bin_splats import binned_fields
from luxel.render.ops.raster.policies import policy
from luxel.render.ops.registry import define, register_implementation, require

define(
    "label_render(Tensor splats, Tensor instances, Tensor ranges, Tensor plan, Tensor labels, int label_count, "
    "int width, int height, float max_alpha, str primitive) -> (Tensor, Tensor, Tensor)"
)


def _fake(
    splats: Tensor,
    instances: Tensor,
    ranges: Tensor,
    plan: Tensor,
    labels: Tensor,
    label_count: int,
    width: int,
    height: int,
    max_alpha: float,
    primitive: str,
) -> tuple[Tensor, Tensor, Tensor]:
    image = splats.shape[0], height, width
    return splats.new_empty(image, dtype=torch.uint8), splats.new_empty(image), splats.new_empty(image)


def _run(
    splats: Tensor,  # [C, N, R]
    instances: Tensor,  # [capacity] int32
    ranges: Tensor,  # [C * T, 2] int32
    plan: Tensor,
    labels: Tensor,  # [N] uint8
    label_count: int,
    width: int,
    height: int,
    max_alpha: float,
    primitive: str,
) -> tuple[Tensor, Tensor, Tensor]:
    c, n = splats.shape[:2]
    row = policy(primitive, "label_render").row
    if not 1 <= label_count <= 255:
        raise ValueError(f"label_render: label_count must be 1 to 255, got {label_count}")
    require(
        "label_render",
        splats.device,
        {
            "splats": (splats, splats.dtype, (c, n, row)),
            "labels": (labels, torch.uint8, (n,)),
        },
    )
    image, weight, transmittance = outputs = _fake(
        splats, instances, ranges, plan, labels, label_count, width, height, max_alpha, primitive
    )
    if not image.numel():
        return outputs
    library = library_for(splats.device)
    library.call(
        "label_render",
        splats.device,
        splats.dtype,
        **binned_fields(library, primitive, splats, instances, ranges, plan, width, height, max_alpha),
        labels=labels.contiguous(),
        label_count=label_count,
        image=image,
        weight=weight,
        transmittance=transmittance,
    )
    return outputs


register_implementation("label_render", _run, _fake)


def label_render(
    splats: Tensor,
    instances: Tensor,
    ranges: Tensor,
    plan: Tensor,
    labels: Tensor,
    *,
    label_count: int,
    width: int,
    height: int,
    max_alpha: float,
    primitive: str = "gaussians",
) -> tuple[Tensor, Tensor, Tensor]:
    """Renders labels: blended one-hot labels as `blend_splats` would give them, and their argmax per pixel.

    Args:
        splats: [C, N, R]. instances, ranges, plan: from `bin_splats`.
        labels: uint8 [N]; those of label_count and above contribute to no label.
        label_count: L, 1 to 255.
        width, height: image size in pixels.
        max_alpha: cap on the alpha of one splat at a pixel.
        primitive: as in `bin_splats`.

    Returns:
        labels uint8 [C, H, W] (255 where no labelled splat contributes; of equal weights the lowest), the blended
        weight of that label [C, H, W], transmittance behind all splats [C, H, W]. Nothing has a gradient.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return torch.ops.luxel.label_render(
        splats.detach(), instances, ranges, plan, labels, label_count, width, height, max_alpha, primitive
    )
