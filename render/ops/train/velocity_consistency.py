"""Stage: difference of 4D Gaussians' velocities from their neighbours', and its gradient (kernels of the same name)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require
from luxel.render.ops.train.neighbours import MOST

_TENSORS = "Tensor rotors, Tensor log_scales, Tensor log_scale_t, Tensor neighbours, Tensor visible"
define(f"velocity_consistency({_TENSORS}) -> (Tensor, Tensor, Tensor)")
define(
    f"velocity_consistency_bwd(Tensor g_loss, {_TENSORS}, Tensor share, Tensor pulls) -> (Tensor, Tensor, Tensor)"
)


def velocity_consistency(
    rotors: Tensor, log_scales: Tensor, log_scale_t: Tensor, neighbours: Tensor, visible: Tensor
) -> Tensor:
    """The mean over visible Gaussians of |v - mean of v over neighbours|_1; nothing waits for the device.

    Duan et al. 2024, "4D-Rotor Gaussian Splatting", 4D consistency loss, with the velocity v = b / c (capture units
    per unit of time) of the covariance [[A, b], [b^T, c]] of (x, y, z, t). See
    `luxel.render.reference.train.velocity_consistency.velocity_consistency_reference`. The same from run to
    run to the bit, on every device.

    Args:
        rotors, log_scales, log_scale_t: of `Gaussians4d`, [N, 8], [N, 3], [N], float32 or (CPU only) float64. A
            velocity that is not finite counts as 0 and has no gradient.
        neighbours: of each Gaussian, int32 [N, k] with k from 1 to 16, see
            `luxel.render.ops.train.neighbours.neighbours`. They need not be visible. What is out of range
            stands for the Gaussian itself. The gradient is exact while fewer than a million share a
            neighbour.
        visible: bool, observed by a camera of the step, [N].

    Returns:
        Scalar, 0 where nothing is visible. Gradients reach a Gaussian and its neighbours; they are 0 in rows that are
        neither visible nor a neighbour of what is, whatever these hold.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return torch.ops.luxel.velocity_consistency(rotors, log_scales, log_scale_t, neighbours, visible)[0]


def _check(
    rotors: Tensor, log_scales: Tensor, log_scale_t: Tensor, neighbours: Tensor, visible: Tensor
) -> dict[str, Any]:
    """The fields of the argument struct that forward and backward share."""
    n, dtype, device = rotors.shape[0], rotors.dtype, rotors.device
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"velocity_consistency: rotors must be float32 or float64, got {dtype}")
    if neighbours.dim() != 2 or not 1 <= neighbours.shape[1] <= MOST:
        raise ValueError(
            f"velocity_consistency: neighbours must be [N, 1 to {MOST}], got {list(neighbours.shape)}"
        )
    k = neighbours.shape[1]
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "rotors": (rotors, dtype, (n, 8)),
        "log_scales": (log_scales, dtype, (n, 3)),
        "log_scale_t": (log_scale_t, dtype, (n,)),
        "neighbours": (neighbours, torch.int32, (n, k)),
        "visible": (visible, torch.bool, (n,)),
    }
    require("velocity_consistency", device, expected)
    tensors = {name: tensor.contiguous() for name, (tensor, *_) in expected.items() if tensor is not None}
    return {**tensors, "count": n, "k": k}


def _forward(*inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    arguments = _check(*inputs)
    loss, share, pulls = outputs = _fake_forward(*inputs)
    library, device, dtype = library_for(loss.device), loss.device, loss.dtype
    sizes = {"count": arguments["count"], "k": arguments["k"]}
    needed = library.call("velocity_consistency_workspace", device, dtype, **sizes)
    library.call(
        "velocity_consistency_fwd",
        device,
        dtype,
        **arguments,
        loss=loss,
        share=share,
        pulls=pulls,
        workspace=torch.empty(needed, dtype=torch.uint8, device=device),
        workspace_bytes=needed,
    )
    return outputs


def _backward(
    g_loss: Tensor,
    rotors: Tensor,
    log_scales: Tensor,
    log_scale_t: Tensor,
    neighbours: Tensor,
    visible: Tensor,
    share: Tensor,
    pulls: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    arguments = _check(rotors, log_scales, log_scale_t, neighbours, visible)
    g_rotors, g_log_scales, g_log_scale_t = grads = _fake_backward(g_loss, rotors, log_scales, log_scale_t)
    library_for(rotors.device).call(
        "velocity_consistency_bwd",
        rotors.device,
        rotors.dtype,
        **arguments,
        share=share,
        pulls=pulls,
        g_loss=g_loss.contiguous(),
        g_rotors=g_rotors,
        g_log_scales=g_log_scales,
        g_log_scale_t=g_log_scale_t,
    )
    return grads


def _fake_forward(rotors: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return rotors.new_empty(()), rotors.new_empty(()), rotors.new_empty(rotors.shape[0], dtype=torch.int64)


def _fake_backward(
    g_loss: Tensor, rotors: Tensor, log_scales: Tensor, log_scale_t: Tensor, *_: object
) -> tuple[Tensor, Tensor, Tensor]:
    def empty(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)

    return empty(rotors), empty(log_scales), empty(log_scale_t)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g_loss: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if g_loss is None:
        return (None,) * 5
    return *torch.ops.luxel.velocity_consistency_bwd(g_loss, *ctx.saved_tensors), None, None


register_implementation("velocity_consistency", _forward, _fake_forward, _differentiate, _save)
register_implementation("velocity_consistency_bwd", _backward, _fake_backward)
