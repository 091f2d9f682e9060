"""What is learnt of each training view, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor


def exposure_reference(
    image: Tensor, parameters: Tensor, transmittance: Tensor | None = None, background: Tensor | None = None
) -> Tensor:
    """Images through a colour transform each; see `luxel.render.ops.train.view_exposure.view_exposure`.

    A factor per channel acts as an exposure time and a white balance do; a matrix and an offset are those of Kerbl et
    al. 2024, "A Hierarchical 3D Gaussian Representation", sec. 5.2.
    """
    behind = None
    if transmittance is not None and background is not None:
        behind = transmittance[..., None] * background[:, None, None]
        image = image - behind
    if parameters.shape[1] == 3:
        image = image * parameters.exp()[:, None, None]
    else:
        matrix, offset = parameters[:, :9].unflatten(1, (3, 3)), parameters[:, None, 9:]
        flat = image.flatten(1, 2)
        if transmittance is not None:
            offset = offset * (1 - transmittance.flatten(1))[..., None]
        image = (flat + flat @ matrix.mT + offset).view_as(image)
    return image if behind is None else image + behind


def pose_reference(world_to_cam: Tensor, parameters: Tensor, extent: float) -> Tensor:
    """Corrected camera poses; see `luxel.render.ops.train.view_pose.view_pose`."""
    turn = world_to_cam[:, :3, :3]
    centre = -(turn.mT @ world_to_cam[:, :3, 3:]) + extent * parameters[:, 3:, None]
    turned = turn @ rotation_matrix(-parameters[:, :3])
    upper = torch.cat([turned, -turned @ centre], -1)
    return torch.cat([upper, world_to_cam[:, 3:]], 1)


def rotation_matrix(vectors: Tensor) -> Tensor:
    """Rotation matrices [B, 3, 3] of rotation vectors [B, 3] (Rodrigues), smooth at 0."""
    x, y, z = vectors.unbind(-1)
    zero = torch.zeros_like(x)
    skew = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))
    square = vectors.square().sum(-1)[:, None, None]
    small = square < 1e-6
    angle = torch.where(small, 1.0, square).sqrt()
    first = torch.where(small, 1 - square / 6, angle.sin() / angle)
    second = torch.where(small, 0.5 - square / 24, (1 - angle.cos()) / angle.square())
    return torch.eye(3, dtype=vectors.dtype, device=vectors.device) + first * skew + second * skew @ skew


def view_adam_reference(
    values: Tensor,
    first: Tensor,
    second: Tensor,
    common: Tensor | None,
    views: Tensor,
    gradients: Tensor,
    schedule: tuple[float, float],
    betas: tuple[float, float],
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """New values and moments; see `luxel.render.ops.train.view_adam.view_adam_`."""
    values, first, second = values.clone(), first.clone(), second.clone()
    for view in views.unique().tolist():
        gradient = gradients[views == view].sum(0)
        first[view] = betas[0] * first[view] + (1 - betas[0]) * gradient
        second[view] = betas[1] * second[view] + (1 - betas[1]) * gradient.square()
        values[view] -= schedule[0] * first[view] / ((second[view] / schedule[1]).sqrt() + eps)
    if common is None:
        return values - values.mean(0), first, second
    return values - (common @ (common.mT @ values.flatten())).view_as(values), first, second
