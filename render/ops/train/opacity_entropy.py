"""Stage: the entropy of opacities, and its gradient (kernels of the same name)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

define("opacity_entropy(Tensor opacity_logits, Tensor visible, float of_others) -> (Tensor, Tensor)")
define("opacity_entropy_bwd(Tensor g_loss, Tensor opacity_logits, Tensor visible, Tensor shares) -> Tensor")


def opacity_entropy(opacity_logits: Tensor, visible: Tensor, of_others: float = 0.01) -> Tensor:
    """The mean of -o ln o, which drives opacities to 0 or 1; nothing waits for the device.

    Duan et al. 2024, "4D-Rotor Gaussian Splatting", entropy loss. See
    `luxel.render.reference.train.opacity_entropy.opacity_entropy_reference`.

    Args:
        opacity_logits: of o = sigmoid(logit), which is clamped to [1e-3, 1 - 1e-3], beyond which there is no gradient,
            [N], float32 or (CPU only) float64. Rows that are not finite have no part in it, and gradient 0.
        visible: bool, observed by a camera of the step, [N].
        of_others: times the mean over those that are not visible, added.

    Returns:
        Scalar, 0 where there is nothing to take a mean of.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return torch.ops.luxel.opacity_entropy(opacity_logits, visible, of_others)[0]


def _check(opacity_logits: Tensor, visible: Tensor) -> None:
    if opacity_logits.dim() != 1 or opacity_logits.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            "opacity_entropy: opacity_logits must be [N], float32 or float64, "
            f"got {list(opacity_logits.shape)} {opacity_logits.dtype}"
        )
    shape = tuple(opacity_logits.shape)
    require("opacity_entropy", opacity_logits.device, {"visible": (visible, torch.bool, shape)})


def _forward(opacity_logits: Tensor, visible: Tensor, of_others: float) -> tuple[Tensor, Tensor]:
    _check(opacity_logits, visible)
    loss, shares = outputs = _fake_forward(opacity_logits)
    library, device, dtype = library_for(loss.device), loss.device, loss.dtype
    count = opacity_logits.shape[0]
    needed = library.call("opacity_entropy_workspace", device, dtype, count=count)
    library.call(
        "opacity_entropy_fwd",
        device,
        dtype,
        opacity_logits=opacity_logits.contiguous(),
        visible=visible.contiguous(),
        count=count,
        of_others=of_others,
        loss=loss,
        shares=shares,
        workspace=torch.empty(needed, dtype=torch.uint8, device=device),
        workspace_bytes=needed,
    )
    return outputs


def _backward(g_loss: Tensor, opacity_logits: Tensor, visible: Tensor, shares: Tensor) -> Tensor:
    _check(opacity_logits, visible)
    grad = _fake_backward(g_loss, opacity_logits)
    library_for(grad.device).call(
        "opacity_entropy_bwd",
        grad.device,
        grad.dtype,
        opacity_logits=opacity_logits.contiguous(),
        visible=visible.contiguous(),
        count=grad.shape[0],
        shares=shares,
        g_loss=g_loss.contiguous(),
        g_opacity_logits=grad,
    )
    return grad


def _fake_forward(opacity_logits: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return opacity_logits.new_empty(()), opacity_logits.new_empty(2)


def _fake_backward(g_loss: Tensor, opacity_logits: Tensor, *_: object) -> Tensor:
    return torch.empty_like(opacity_logits, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    opacity_logits, visible, _ = inputs
    ctx.save_for_backward(opacity_logits, visible, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g_loss: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if g_loss is None:
        return (None,) * 3
    return torch.ops.luxel.opacity_entropy_bwd(g_loss, *ctx.saved_tensors), None, None


register_implementation("opacity_entropy", _forward, _fake_forward, _differentiate, _save)
register_implementation("opacity_entropy_bwd", _backward, _fake_backward)
