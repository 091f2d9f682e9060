"""Photometric loss: L1 and SSIM fused, forward and backward."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation

Padding = Literal["zero", "valid"]

define(
    "photometric_loss(Tensor rgb, Tensor target, Tensor? weight, float ssim_weight, bool valid, "
    "bool differentiable) -> (Tensor, Tensor, Tensor)"
)
define(
    "photometric_loss_bwd(Tensor g_loss, Tensor rgb, Tensor target, Tensor? weight, Tensor partials, "
    "Tensor scales, float ssim_weight, bool valid) -> Tensor"
)


def photometric_loss(
    rgb: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ssim_weight: float = 0.2,
    padding: Padding = "zero",
) -> Tensor:
    """(1 - ssim_weight) L1 + ssim_weight (1 - SSIM), the loss of Kerbl et al. 2023, eq. 7.

    SSIM: Gaussian window of 11 x 11 taps, sigma 1.5, C1 = 0.01^2, C2 = 0.03^2. Both terms are means over
    pixels and channels; with a weight, weighted means. Where the weight is 0 the rendered pixel counts as
    equal to the target, in its neighbours' windows too, and its gradient is 0.

    Args:
        rgb: rendered, [H, W, 3] or [C, H, W, 3], float32 (float64 on the CPU too).
        target: image in [0, 1], same shape, type and device; gets no gradient.
        weight: per pixel, >= 0, [H, W] or [C, H, W], same type; None: all 1. Gets no gradient.
        ssim_weight: share of the SSIM term, 0..1.
        padding: "zero": outside the image both images are 0. "valid": the SSIM of the 5 pixels at each
            border is left out (L1 includes them); an image smaller than 11 x 11 then has no SSIM term.

    Returns:
        Scalar; 0 where no pixel counts.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    if padding not in ("zero", "valid"):
        raise ValueError(f'photometric_loss: padding must be "zero" or "valid", got {padding!r}')
    differentiable = torch.is_grad_enabled() and rgb.requires_grad
    weight = None if weight is None else weight.detach()
    return torch.ops.luxel.photometric_loss(
        rgb, target.detach(), weight, ssim_weight, padding == "valid", differentiable
    )[0]


def _check(rgb: Tensor, target: Tensor, weight: Tensor | None) -> tuple[int, int, int]:
    shape = tuple(rgb.shape)
    if len(shape) not in (3, 4) or shape[-1] != 3 or 0 in shape:
        raise ValueError(
            f"photometric_loss: rgb must be [H, W, 3] or [C, H, W, 3] and not empty, got {list(shape)}"
        )
    if tuple(target.shape) != shape:
        raise ValueError(f"photometric_loss: target must be {list(shape)} like rgb, got {list(target.shape)}")
    if weight is not None and tuple(weight.shape) != shape[:-1]:
        raise ValueError(f"photometric_loss: weight must be {list(shape[:-1])}, got {list(weight.shape)}")
    types = (torch.float32, torch.float64) if rgb.device.type == "cpu" else (torch.float32,)
    if rgb.dtype not in types:
        raise ValueError(
            f"photometric_loss: rgb must be float32, or float64 on the CPU, got {rgb.dtype} on {rgb.device}"
        )
    for name, tensor in (("target", target), ("weight", weight)):
        if tensor is not None and (tensor.dtype != rgb.dtype or tensor.device != rgb.device):
            raise ValueError(
                f"photometric_loss: {name} must be {rgb.dtype} on {rgb.device}, "
                f"got {tensor.dtype} on {tensor.device}"
            )
    return (1, *shape[:-1]) if len(shape) == 3 else shape[:-1]  # type: ignore[return-value]


def _forward(
    rgb: Tensor, target: Tensor, weight: Tensor | None, ssim_weight: float, valid: bool, differentiable: bool
) -> tuple[Tensor, Tensor, Tensor]:
    cameras, height, width = _check(rgb, target, weight)
    rgb, target = rgb.contiguous(), target.contiguous()
    weight = None if weight is None else weight.contiguous()
    loss = rgb.new_empty(())
    scales = rgb.new_empty(2)
    partials = rgb.new_empty((3, *rgb.shape) if differentiable else (0,))
    library = library_for(rgb.device)
    arguments = {
        "rgb": rgb,
        "target": target,
        "weight": weight,
        "cameras": cameras,
        "width": width,
        "height": height,
        "valid": int(valid),
        "ssim_weight": ssim_weight,
    }
    needed = library.call("photometric_loss_workspace", rgb.device, rgb.dtype, **arguments)
    workspace = torch.empty(needed, dtype=torch.uint8, device=rgb.device)
    library.call(
        "photometric_loss_fwd",
        rgb.device,
        rgb.dtype,
        **arguments,
        loss=loss,
        partials=partials if differentiable else None,
        scales=scales,
        workspace=workspace,
        workspace_bytes=needed,
    )
    return loss, partials, scales


def _backward(
    g_loss: Tensor,
    rgb: Tensor,
    target: Tensor,
    weight: Tensor | None,
    partials: Tensor,
    scales: Tensor,
    ssim_weight: float,
    valid: bool,
) -> Tensor:
    cameras, height, width = _check(rgb, target, weight)
    rgb, target = rgb.contiguous(), target.contiguous()
    g_rgb = torch.empty_like(rgb)
    library_for(rgb.device).call(
        "photometric_loss_bwd",
        rgb.device,
        rgb.dtype,
        rgb=rgb,
        target=target,
        weight=None if weight is None else weight.contiguous(),
        cameras=cameras,
        width=width,
        height=height,
        valid=int(valid),
        ssim_weight=ssim_weight,
        partials=partials.contiguous(),
        scales=scales.contiguous(),
        g_loss=g_loss.contiguous(),
        g_rgb=g_rgb,
    )
    return g_rgb


def _fake_forward(
    rgb: Tensor, target: Tensor, weight: Tensor | None, ssim_weight: float, valid: bool, differentiable: bool
) -> tuple[Tensor, Tensor, Tensor]:
    _check(rgb, target, weight)
    partials = rgb.new_empty((3, *rgb.shape) if differentiable else (0,))
    return rgb.new_empty(()), partials, rgb.new_empty(2)


def _fake_backward(g_loss: Tensor, rgb: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(rgb, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    rgb, target, weight, ctx.ssim_weight, ctx.valid, differentiable = inputs
    if not differentiable:
        raise ValueError("photometric_loss: differentiable must be True where rgb requires a gradient")
    ctx.save_for_backward(rgb, target, weight, output[1], output[2])
    ctx.mark_non_differentiable(output[1], output[2])
    ctx.set_materialize_grads(False)  # zeros as many as the partials


def _differentiate(ctx: Any, g_loss: Tensor | None, *unused: Tensor | None) -> tuple[Tensor | None, ...]:
    if g_loss is None:
        return (None,) * 6
    rgb, target, weight, partials, scales = ctx.saved_tensors
    g_rgb = torch.ops.luxel.photometric_loss_bwd(
        g_loss, rgb, target, weight, partials, scales, ctx.ssim_weight, ctx.valid
    )
    return g_rgb, None, None, None, None, None


register_implementation("photometric_loss", _forward, _fake_forward, _differentiate, _save)
register_implementation("photometric_loss_bwd", _backward, _fake_backward)
