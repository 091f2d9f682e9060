"""Errors for derivatives that an operation does not have: second ones, and those in forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

Gradient = Callable[..., tuple[Any, ...]]  # from ctx and the gradients by the outputs to those by the inputs


class FirstOrderError(NotImplementedError):
    """A second derivative, or one in forward mode, of an operation that has first derivatives in reverse mode only."""


class _LastGradient(torch.autograd.Function):
    """Gradients as they are; to differentiate them by one of the other tensors raises `FirstOrderError`."""

    @staticmethod
    def forward(ctx: Any, operation: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.operation = operation
        return tuple(gradient.view_as(gradient) for gradient in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        raise FirstOrderError(
            f"{ctx.operation} has no second derivatives: its gradient (create_graph=True) cannot be differentiated. "
            "Detach the gradient, or take finite differences of it."
        )


class _Unpacked:
    """The context of a backward function whose saved tensors are read already, which is possible only once."""

    def __init__(self, ctx: Any) -> None:
        self._ctx, self.saved_tensors = ctx, ctx.saved_tensors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def first_order(operation: str, gradient: Gradient) -> Gradient:
    """A backward function whose results raise `FirstOrderError` when they are differentiated.

    `torch.autograd.function.once_differentiable` does so only where the gradients by the outputs have a graph
    themselves, and not where a derivative by a single tensor is asked for.

    Args:
        operation: its name, for the message.
        gradient: the backward function. The tensors that its forward saves are those by which a second derivative is
            refused, so the differentiable inputs must be among them.
    """

    def last(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return gradient(ctx, *grads)
        unpacked = _Unpacked(ctx)
        with torch.no_grad():
            computed = gradient(unpacked, *grads)
        rows = [row for row, value in enumerate(computed) if isinstance(value, Tensor)]
        sources = [
            each
            for each in (*grads, *unpacked.saved_tensors)
            if isinstance(each, Tensor) and each.requires_grad
        ]
        given = [computed[row] for row in rows]
        guarded = dict(zip(rows, _LastGradient.apply(operation, len(given), *given, *sources), strict=True))
        return tuple(guarded.get(row, value) for row, value in enumerate(computed))

    return last


def refuse_forward_mode(operation: str, args: Sequence[Any]) -> None:
    """Raises `FirstOrderError` where one of the arguments is a dual tensor of forward mode.

    Args:
        operation: its name, for the message.
        args: of the operation, tensors and others.
    """
    if forward_ad._current_level < 0:  # the usual case: no dual numbers anywhere
        return
    for argument in args:
        if isinstance(argument, Tensor) and forward_ad.unpack_dual(argument).tangent is not None:
            raise FirstOrderError(
                f"{operation} has no derivatives in forward mode (torch.func.jvp). "
                "Use reverse mode: backward or torch.autograd.grad."
            )


def has_saved_tensor_hooks() -> bool:
    """Whether tensors that autograd saves go through hooks now, as those of torch.utils.checkpoint."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)  # pyright: ignore[reportAttributeAccessIssue]
    return hooks is not None
