"""What is learnt of each training view, in plain torch."""

from __future__ import annotations

import torch
import torch.nn.functional as nn
from torch import Tensor


def exposure_reference(
    image: Tensor, parameters: Tensor, transmittance: Tensor | None = None, background: Tensor | None = None
) -> Tensor:
    """Images through a colour transform each; see `luxel.render.ops.train.view_exposure.view_exposure`.

    A factor per channel acts as an exposure time and a white balance do; a matrix and an offset are those of Kerbl et
    al. 2024, "A Hierarchical 3D Gaussian Representation", sec. 5.2; of a camera see `camera_reference`.
    """
    behind = None
    if transmittance is not None and background is not None:
        behind = transmittance[..., None] * background[:, None, None]
        image = image - behind
    if parameters.shape[1] == 3:
        image = image * parameters.exp()[:, None, None]
    elif parameters.shape[1] == 9:
        cover = (
            torch.ones_like(image) if transmittance is None else 1 - transmittance[..., None].expand_as(image)
        )
        visible = cover > 1e-4
        inner = torch.where(visible, cover, 1.0)
        image = torch.where(visible, inner * camera_reference(image / inner, parameters), image)
    else:
        matrix, offset = parameters[:, :9].unflatten(1, (3, 3)), parameters[:, None, 9:]
        flat = image.flatten(1, 2)
        if transmittance is not None:
            offset = offset * (1 - transmittance.flatten(1))[..., None]
        image = (flat + flat @ matrix.mT + offset).view_as(image)
    return image if behind is None else image + behind


def camera_reference(colours: Tensor, parameters: Tensor) -> Tensor:
    """What a camera makes of the colours of images.

    The sRGB curve (IEC 61966-2-1) decodes them to light, which is multiplied by 2 to the power of exposure and
    vignetting; the curve encodes it, and the response of the camera bends that. Vignetting is an even polynomial of the
    distance from the centre (Goldman 2010, "Vignette and exposure calibration and compensation"), here of its
    logarithm. The response is a Bernstein polynomial of degree 4 with rising control points; its tangents continue it
    outside of [0, 1].

    Args:
        colours: [B, H, W, 3] in sRGB.
        parameters: [B, 9]: exposure in stops, those of red and of blue more than green; vignetting in stops by the 2nd,
            4th and 6th power of the distance in half diagonals; response: logarithms of the rises of its first three
            control points, relative to the last.

    Returns:
        [B, H, W, 3].
    """
    _, height, width, _ = colours.shape
    real = {"dtype": colours.dtype, "device": colours.device}
    x, y = torch.arange(width, **real) + 0.5 - width / 2, torch.arange(height, **real) + 0.5 - height / 2
    square = (x.square() + y[:, None].square()) / ((width / 2) ** 2 + (height / 2) ** 2)
    powers = torch.stack([square, square**2, square**3], -1)  # [H, W, 3]
    exposure, of_red, of_blue = parameters[:, :3].unbind(1)
    stops = torch.stack([exposure + of_red, exposure, exposure + of_blue], -1)[:, None, None]
    stops = stops + (powers * parameters[:, None, None, 3:6]).sum(-1, keepdim=True)
    encoded = srgb_encoded(srgb_decoded(colours) * 2**stops)
    rises = nn.pad(parameters[:, 6:], (0, 1)).softmax(1)
    points = nn.pad(rises.cumsum(1), (1, 0))[:, None, None, None]  # [B, 1, 1, 1, 5]
    inside = encoded.clamp(0, 1)[..., None]
    orders = torch.arange(5, **real)
    binomials = torch.tensor([1, 4, 6, 4, 1], **real)
    curve = (points * binomials * inside**orders * (1 - inside) ** (4 - orders)).sum(-1)
    low, high = (4 * rises[:, k, None, None, None] for k in (0, 3))
    return curve + low * encoded.clamp_max(0) + high * (encoded - 1).clamp_min(0)


def srgb_decoded(values: Tensor) -> Tensor:
    """Linear light of sRGB values."""
    upper = ((values.clamp_min(0.04045) + 0.055) / 1.055) ** 2.4
    return torch.where(values > 0.04045, upper, values / 12.92)


def srgb_encoded(light: Tensor) -> Tensor:
    """sRGB values of linear light."""
    upper = 1.055 * light.clamp_min(0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(light > 0.0031308, upper, 12.92 * light)


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
    centre: Tensor | None = None,
    penalty: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """New values and moments; see `luxel.render.ops.train.view_adam.view_adam_`."""
    values, first, second = values.clone(), first.clone(), second.clone()
    for view in views.unique().tolist():
        away = values[view] if centre is None else values[view] - centre[view]
        gradient = gradients[views == view].sum(0) + penalty * away
        first[view] = betas[0] * first[view] + (1 - betas[0]) * gradient
        second[view] = betas[1] * second[view] + (1 - betas[1]) * gradient.square()
        values[view] -= schedule[0] * first[view] / ((second[view] / schedule[1]).sqrt() + eps)
    if common is None:
        return values - values.mean(0), first, second
    return values - (common @ (common.mT @ values.flatten())).view_as(values), first, second
