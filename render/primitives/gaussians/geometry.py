"""Losses of the geometry of 3D Gaussians as planes: normals of the unbiased depth, and flat Gaussians.

Chen et al. 2024, "PGSR: Planar-based Gaussian Splatting for Efficient and High-Fidelity Surface Reconstruction",
sections 3.2 and 3.3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives.depth_normals import normal_difference
from luxel.render.primitives.gaussians.options import NORMALS
from luxel.render.primitives.planes import plane_depth
from luxel.render.primitives.spec import GeometryImages, Term


def geometry_terms(images: GeometryImages, loss: Any, names: tuple[str, ...]) -> list[Term]:
    """The terms of ``names`` that images have; see `PrimitiveEngine.geometry`."""
    if NORMALS not in names:
        return []
    assert images.distance is not None
    z = plane_depth(images.distance, images.normals, images.world_to_cam, images.intrinsics)
    emphasis = None if images.rgb is None else smoothness(images.rgb)
    return [(loss.normal_weight, normal_difference(images, z, emphasis))]


def shape_terms(scene: Any, inverse_count: Tensor, loss: Any) -> list[Term]:
    """The thickness, if it has a weight; see `PrimitiveEngine.shapes`."""
    return [(loss.flatness_weight, thickness(scene, inverse_count))] if loss.flatness_weight > 0 else []


def thickness(scene: Any, inverse_count: Tensor) -> Tensor:
    """Mean of the least standard deviation as a share of the middle one, which counts as a constant; a scalar.

    PGSR takes the least one itself; the share has no unit, and large Gaussians become as flat as small ones.

    Args:
        scene: Gaussians, spare rows of opacity 0 included, which do not count. inverse_count: 1 / N, [1].
    """
    ordered = scene.log_scales.sort(-1).values
    share = (ordered[:, 0] - ordered[:, 1].detach()).exp()
    return torch.where(scene.opacity_logits.isfinite(), share, 0.0).sum() * inverse_count[0]


def smoothness(rgb: Tensor) -> Tensor:
    """(1 - |grad I|)^2 of images, [B, H, W]: where there are edges, normals may change.

    The gradient is that of grey values by central differences, of at most 1.

    Args:
        rgb: [B, H, W, 3], in [0, 1].
    """
    grey = torch.nn.functional.pad(rgb.mean(-1)[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    across = grey[:, 1:-1, 2:] - grey[:, 1:-1, :-2]
    down = grey[:, 2:, 1:-1] - grey[:, :-2, 1:-1]
    return (1 - (across.square() + down.square()).sqrt().clamp(max=1)).square()
