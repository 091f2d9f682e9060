"""How a stage becomes a torch.library operation: one namespace, one implementation for CPU and CUDA alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from luxel.render.ops.first_order import first_order, refuse_forward_mode

ALIGNMENT = 16  # bytes

_LIBRARY = torch.library.Library("luxel", "DEF")


def define(schema: str) -> None:
    """Declares ``luxel::<schema>``."""
    _LIBRARY.define(schema)


def register_implementation(
    name: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
    *,
    differentiable_gradient: bool = False,
) -> None:
    """Gives an operation its body, its shapes for fake tensors, and its gradient.

    The body picks the native library by the device of its tensors, so that one function serves every backend.

    Args:
        name: of the operation.
        run, fake: body, and the same for fake tensors.
        backward, setup_context: as `torch.library.register_autograd` takes them; None: it has no gradient.
        differentiable_gradient: whether ``backward`` consists of operations whose gradients are right. Second
            derivatives of the others raise an error, and so does forward mode, which none has.
    """
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, run, key)
    torch.library.register_fake(f"luxel::{name}", fake, lib=_LIBRARY)
    if backward is not None:
        assert setup_context is not None
        gradient = backward if differentiable_gradient else first_order(f"luxel::{name}", backward)
        _register_autograd(name, gradient, setup_context)


def _register_autograd(name: str, backward: Callable[..., Any], setup_context: Callable[..., None]) -> None:
    """What torch.library.register_autograd does for an operation whose arguments have no defaults.

    That one looks for left-out arguments in every call, in time that grows with their number squared: 70 us for
    one of ours, more than its kernels may take.
    """
    operation = getattr(torch.ops.luxel, name).default
    assert not any(argument.has_default_value() for argument in operation._schema.arguments), name

    def run(keyset: Any, args: tuple[Any, ...]) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operation.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    def forward(ctx: Any, *args: Any) -> Any:
        output = run(args[-1], args[:-1])
        setup_context(ctx, args[:-1], output)
        return output

    def gradient(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return *backward(ctx, *grads), None

    members = {"forward": staticmethod(forward), "backward": staticmethod(gradient)}
    function = type(f"GradientOf_{name}", (torch.autograd.Function,), members)

    def dispatch(keyset: Any, *args: Any) -> Any:
        refuse_forward_mode(f"luxel::{name}", args)
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return function.apply(*args, keyset)
        return run(keyset, args)

    _LIBRARY.impl(name, dispatch, "Autograd", with_keyset=True)


def aligned(tensor: Tensor) -> Tensor:
    """The same, contiguous from an address that is a multiple of 16, as kernels that load four numbers at once need it.

    A copy where it is not: a part of a larger tensor may begin anywhere.
    """
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor


def require(
    stage: str, device: torch.device, expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]]
) -> None:
    """Raises ValueError unless every tensor that is there has its type and shape and is on the device.

    Args:
        stage: for the message.
        wanted: tensor (None: not given), type and shape by name.
    """
    for name, (tensor, dtype, shape) in expected.items():
        if tensor is None:
            continue
        if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device != device:
            raise ValueError(
                f"{stage}: {name} must be {list(shape)} {dtype} on {device}, "
                f"got {list(tensor.shape)} {tensor.dtype} on {tensor.device}"
            )
