"""Stage: rendered against known depth, with its gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

PIXELS_EACH = 2048  # of a part of the sums
MAX_PARTS = 256

define(
    "depth_loss(Tensor accumulated, Tensor transmittance, Tensor known, Tensor? weight, Tensor strength, bool fits) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)


class DepthLoss(NamedTuple):
    """The loss, and what else the stage computes."""

    loss: Tensor  # scalar
    fit: Tensor  # scale and shift of each view, [B, 2]; 0 where a view has no part in the loss
    g_accumulated: Tensor  # gradients of the loss, [B, H, W]
    g_transmittance: Tensor


def depth_loss(
    accumulated: Tensor,
    transmittance: Tensor,
    known: Tensor,
    weight: Tensor | None,
    strength: Tensor,
    *,
    fits: bool = False,
) -> DepthLoss:
    """``strength`` times the mean of cover |d - k| / max(d, k) over the pixels of known depth k; nothing waits.

    With cover = 1 - transmittance and d = accumulated / cover, the mean depth of what covers a pixel. The difference is
    that of depths where d is nearer and of inverse depths where it is farther, so it is bounded by the cover, and the
    same in all units. See `luxel.render.reference.train.depth_loss.depth_loss_reference`. The mean is one over views of
    those over their pixels, whose sums of weights count as at least a hundredth of the pixels.

    Args:
        accumulated: sum of T alpha z of the splats of a pixel, [B, H, W], float32 or (CPU only) float64; may be a
            channel of an image [B, H, W, D].
        transmittance: [B, H, W].
        known: depth along z in capture units, [B, H, W]; 0: not known. Gets no gradient.
        weight: of pixels, >= 0, [B, H, W]; None: all 1. Gets no gradient.
        strength: [1]. Gets no gradient.
        fits: depths are known up to a scale and shift of their inverse in each view. The loss of a view is then 1 less
            the correlation of 1 / d and 1 / k (weights: cover^2, as constants), which is a function of the residual of
            their least-squares fit and the same for all scales and shifts, so that it moves the scene as a whole
            neither nearer nor farther; of rendered depth, Zhu et al. 2024, "FSGS".

    Returns:
        DepthLoss; gradients flow from the loss to ``accumulated`` and ``transmittance``.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return DepthLoss(
        *torch.ops.luxel.depth_loss(accumulated, transmittance, known, weight, strength, fits),
    )


def _run(
    accumulated: Tensor,
    transmittance: Tensor,
    known: Tensor,
    weight: Tensor | None,
    strength: Tensor,
    fits: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape, real = tuple(accumulated.shape), accumulated.dtype
    if len(shape) != 3 or real not in (torch.float32, torch.float64):
        raise ValueError(
            f"depth_loss: accumulated must be [B, H, W], float32 or float64, got {list(shape)} {real}"
        )
    tensors = {"transmittance": transmittance, "known": known, "weight": weight}
    expected = {name: (tensor, real, shape) for name, tensor in tensors.items()}
    require("depth_loss", accumulated.device, {**expected, "strength": (strength, real, (1,))})
    loss, fit, g_accumulated, g_transmittance = _fake(accumulated)
    views, pixels = shape[0], shape[1] * shape[2]
    if not accumulated.numel():
        return loss.zero_(), fit.zero_(), g_accumulated, g_transmittance
    stride = accumulated.stride(2)
    if stride < 1 or accumulated.stride() != (pixels * stride, shape[2] * stride, stride):
        accumulated, stride = accumulated.contiguous(), 1
    parts = max(1, min(MAX_PARTS, pixels // PIXELS_EACH))
    losses = accumulated.new_empty((views, parts), dtype=torch.float64)
    library_for(accumulated.device).call(
        "depth_loss",
        accumulated.device,
        real,
        accumulated=accumulated.data_ptr(),  # may be a channel of an image
        accumulated_stride=stride,
        transmittance=transmittance.contiguous(),
        known=known.contiguous(),
        weight=None if weight is None else weight.contiguous(),
        strength=strength,
        pixels=pixels,
        views=views,
        parts=parts,
        fits=int(fits),
        sums=losses.new_empty(views, parts, 7),
        losses=losses,
        fit=fit,
        g_accumulated=g_accumulated,
        g_transmittance=g_transmittance,
    )
    return losses.sum().to(real), fit, g_accumulated, g_transmittance


def _fake(accumulated: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = tuple(accumulated.shape)
    return (
        accumulated.new_empty(()),
        accumulated.new_empty(shape[0], 2),
        accumulated.new_empty(shape),
        accumulated.new_empty(shape),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*output[2:], *inputs[:2])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g_loss: Tensor | None, *unused: Tensor | None) -> tuple[Tensor | None, ...]:
    if g_loss is None:
        return (None,) * 6
    g_accumulated, g_transmittance, *_ = ctx.saved_tensors
    return g_loss * g_accumulated, g_loss * g_transmittance, None, None, None, None


register_implementation("depth_loss", _run, _fake, _differentiate, _save)
