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
from luxel.render.primitives.terms import StepImages, StepTerm


def normals(images: StepImages) -> Tensor:
    """The difference between the normals of Gaussians and of their planes' depth, where training images are smooth."""
    assert images.distance is not None
    z = plane_depth(images.distance, images.normals, images.world_to_cam, images.intrinsics)
    emphasis = None if images.targets is None else smoothness(images.targets)
    return normal_difference(images, z, emphasis)


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


TERMS = (
    StepTerm(
        NORMALS,
        normals,
        lambda context: (
            context.loss.normal_weight if NORMALS in context.loss.geometry_at(context.progress) else 0.0
        ),
        frozenset({"normals", "distance", "transmittance"}),
    ),
    StepTerm(
        "flatness",
        lambda scene: thickness(scene.primitives, scene.inverse_count),
        lambda context: context.loss.flatness_weight,
        on="rows",
    ),
)
