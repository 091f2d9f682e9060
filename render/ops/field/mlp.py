"""Stage: a multilayer perceptron, and its gradient (kernels of the same name)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.mlp_torch import mlp_torch
from luxel.render.ops.registry import define, register_implementation, require

Activation = Literal["none", "relu", "softplus", "sigmoid"]
ACTIVATIONS: dict[str, int] = {"none": 0, "relu": 1, "softplus": 2, "sigmoid": 3}  # as in cuda/abi/field.h
WIDTHS = (16, 32, 64, 128)
WIDEST, DEEPEST = 128, 8  # of the input and the output; hidden layers

_SIZES = "int inputs, int width, int hidden_layers, int outputs, int activation, int output_activation, bool precise"
define(f"mlp(Tensor x, Tensor weights, {_SIZES}, bool keep) -> (Tensor, Tensor)")
define(f"mlp_live(Tensor live, Tensor x, Tensor weights, {_SIZES}) -> Tensor")
define(
    "mlp_bwd(Tensor g_out, Tensor x, Tensor weights, Tensor out, Tensor hidden, "
    f"{_SIZES}, bool by_x, bool by_weights) -> (Tensor, Tensor)"
)


class Network(NamedTuple):
    """Sizes and activations in the order of the operation's arguments; raises ValueError by `check`."""

    inputs: int
    width: int
    hidden_layers: int
    outputs: int
    activation: int = ACTIVATIONS["relu"]
    output_activation: int = ACTIVATIONS["none"]
    precise: bool = False

    def check(self) -> None:
        """Raises ValueError, naming what is out of range."""
        for name, value in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not 1 <= value <= WIDEST:
                raise ValueError(f"mlp: {name} must be 1 to {WIDEST}, got {value}")
        if self.width not in WIDTHS:
            raise ValueError(f"mlp: width must be one of {WIDTHS}, got {self.width}")
        if not 0 <= self.hidden_layers <= DEEPEST:
            raise ValueError(f"mlp: hidden_layers must be 0 to {DEEPEST}, got {self.hidden_layers}")
        for name in ("activation", "output_activation"):
            if getattr(self, name) not in ACTIVATIONS.values():
                raise ValueError(
                    f"mlp: {name} must be 0 to {len(ACTIVATIONS) - 1}, got {getattr(self, name)}"
                )

    def shapes(self) -> list[tuple[int, int]]:
        """[its outputs, its inputs] of each matrix, in their order in the weights."""
        widths = [self.inputs, *[self.width] * self.hidden_layers, self.outputs]
        return [(after, before) for before, after in pairwise(widths)]

    def parameter_count(self) -> int:
        """P."""
        return sum(after * before for after, before in self.shapes())


def computed_anew(device: torch.device, network: Network) -> bool:
    """Whether the backward pass computes hidden layers anew, instead of reading stored ones.

    Args:
        device: of x.
        network: its sizes.
    """
    return (
        device.type == "cuda"
        and not network.precise
        and network.inputs <= 32
        and network.width in (16, 32, 64)
        and network.hidden_layers in (1, 2)
        and network.outputs <= 16
    )


def mlp(
    x: Tensor,
    weights: Tensor,
    inputs: int,
    width: int,
    hidden_layers: int,
    outputs: int,
    activation: Activation = "relu",
    output_activation: Activation = "none",
    *,
    precise: bool = False,
    live: Tensor | None = None,
) -> Tensor:
    """A multilayer perceptron without biases; nothing waits for the device.

    h_0 = x, h_{l+1} = activation(W_l h_l) for l < H, the result is output_activation(W_H h_H): Müller 2021, "Tiny
    CUDA neural networks". See `luxel.render.reference.field.mlp.mlp_reference`. Gradients are the same from
    run to run to the bit.

    On a GPU, unless ``precise``, values are rounded to half between layers and summed in float. Values beyond 65504
    become infinite, and gradients below 6e-8 vanish: loss scaling is up to the caller, which multiplies the loss
    before the backward pass and divides the gradients after it.

    Args:
        x: [N, I], float32 or (CPU only) float64.
        weights: W_0 .. W_H one after another, each row major [its outputs, its inputs], unpadded, [P], type of x.
        inputs: I, 1 to 128.
        width: W, of hidden layers: 16, 32, 64 or 128.
        hidden_layers: H, 0 to 8; 0 is one linear layer.
        outputs: O, 1 to 128.
        activation: of hidden layers: "none", "relu", "softplus" or "sigmoid".
        output_activation: of the result, likewise.
        precise: on a GPU, float throughout instead of half on tensor cores; slower.
        live: how many leading rows to compute, int32 [1] on the device, so that the host does not need the number; the
            other rows of the result are undefined. There are no gradients then.

    Returns:
        [N, O], type of x. Its gradients can be differentiated once more, by g_out, x and the weights: plain torch then
        computes the network and its gradient again in the type of x, about ten times the work of a backward pass with
        all activations in memory. The first derivatives stay those of the kernels.

    Raises:
        ValueError: sizes are out of range, shapes, types or devices do not fit them, or gradients are needed besides
            ``live``.
    """
    for name, chosen in (("activation", activation), ("output_activation", output_activation)):
        if chosen not in ACTIVATIONS:
            raise ValueError(f"mlp: {name} must be one of {tuple(ACTIVATIONS)}, got {chosen!r}")
    codes = ACTIVATIONS[activation], ACTIVATIONS[output_activation]
    keep = torch.is_grad_enabled() and (x.requires_grad or weights.requires_grad)
    sizes = inputs, width, hidden_layers, outputs
    if live is not None:
        if keep:
            raise ValueError(
                "mlp: live must be None where a gradient is required, as it leaves rows unwritten"
            )
        return torch.ops.luxel.mlp_live(live, x, weights, *sizes, *codes, precise)
    return torch.ops.luxel.mlp(x, weights, *sizes, *codes, precise, keep)[0]


def _check(network: Network, x: Tensor, weights: Tensor) -> dict[str, Any]:
    """The fields of the argument struct that forward and backward share."""
    network.check()
    if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"mlp: x must be [N, {network.inputs}], float32 or float64, got {list(x.shape)} {x.dtype}"
        )
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "x": (x, x.dtype, (x.shape[0], network.inputs)),
        "weights": (weights, x.dtype, (network.parameter_count(),)),
    }
    require("mlp", x.device, expected)
    arguments = network._asdict() | {"precise": int(network.precise)}
    return arguments | {"x": x.contiguous(), "weights": weights.contiguous(), "count": x.shape[0]}


def _run(stage: str, x: Tensor, arguments: dict[str, Any]) -> None:
    """Calls the stage with a workspace of the size that it needs."""
    library = library_for(x.device)
    sizes = {name: value for name, value in arguments.items() if isinstance(value, int)}
    needed = library.call(f"{stage}_workspace", x.device, x.dtype, **sizes)
    workspace = torch.empty(needed, dtype=torch.uint8, device=x.device)
    library.call(stage, x.device, x.dtype, **arguments, workspace=workspace, workspace_bytes=needed)


def _forward(x: Tensor, weights: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    arguments = _check(Network(*rest[:-1]), x, weights)
    out, hidden = outputs = _fake_forward(x, weights, *rest)
    _run("mlp_fwd", x, arguments | {"out": out, "hidden": hidden if rest[-1] else None})
    return outputs


def _live(live: Tensor, x: Tensor, weights: Tensor, *sizes: Any) -> Tensor:
    arguments = _check(Network(*sizes), x, weights)
    require("mlp", x.device, {"live": (live, torch.int32, (1,))})
    out = _fake_live(live, x, weights, *sizes)
    _run("mlp_fwd", x, arguments | {"out": out, "live": live})
    return out


def _fake_live(live: Tensor, x: Tensor, weights: Tensor, *sizes: Any) -> Tensor:
    return x.new_empty(x.shape[0], Network(*sizes).outputs)


def _backward(
    g_out: Tensor, x: Tensor, weights: Tensor, out: Tensor, hidden: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    network = Network(*rest[:-2])
    arguments = _check(network, x, weights)
    shape = (x.shape[0], network.outputs)
    retained = _saved_shape(x, network)
    expected = {
        "g_out": (g_out, x.dtype, shape),
        "out": (out, x.dtype, shape),
        "hidden": (hidden, _saved_type(x, network.precise), retained),
    }
    require("mlp_bwd", x.device, expected)
    g_x, g_weights = grads = _fake_backward(g_out, x, weights, out, hidden, *rest)
    arguments |= {"out": out.contiguous(), "hidden": hidden.contiguous(), "g_out": g_out.contiguous()}
    arguments |= {"g_x": g_x if rest[-2] else None, "g_weights": g_weights if rest[-1] else None}
    _run("mlp_bwd", x, arguments)
    return grads


def _saved_shape(x: Tensor, network: Network) -> tuple[int, ...]:
    """Of the activations that the backward pass reads."""
    if computed_anew(x.device, network):
        return (0,)
    return network.hidden_layers, x.shape[0], network.width


def _saved_type(x: Tensor, precise: bool) -> torch.dtype:
    """Their type."""
    return torch.float16 if x.device.type == "cuda" and not precise else x.dtype


def _fake_forward(x: Tensor, weights: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    network, keep = Network(*rest[:-1]), rest[-1]
    shape = _saved_shape(x, network) if keep else (0,)
    return x.new_empty(x.shape[0], network.outputs), x.new_empty(shape, dtype=_saved_type(x, network.precise))


def _fake_backward(
    g_out: Tensor, x: Tensor, weights: Tensor, out: Tensor, hidden: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    by_x, by_weights = rest[-2:]
    return x.new_empty(x.shape if by_x else (0,)), weights.new_empty(weights.shape if by_weights else (0,))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weights, *network, keep = inputs
    ctx.network, ctx.keep = network, keep
    ctx.save_for_backward(x, weights, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g_out: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    none = (None,) * 8
    if g_out is None:
        return None, None, *none
    if not ctx.keep:
        raise RuntimeError("mlp: no gradient of a pass that did not store its activations (keep=False)")
    by_x, by_weights = ctx.needs_input_grad[:2]
    grads = torch.ops.luxel.mlp_bwd(g_out, *ctx.saved_tensors, *ctx.network, by_x, by_weights)
    return grads[0] if by_x else None, grads[1] if by_weights else None, *none


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    g_out, x, weights, _out, _hidden, *network, ctx.by_x, ctx.by_weights = inputs
    ctx.network = Network(*network)
    ctx.save_for_backward(g_out, x, weights)
    ctx.set_materialize_grads(False)


def _differentiate_backward(
    ctx: Any, gg_x: Tensor | None, gg_weights: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The gradient of <gg_x, g_x> + <gg_weights, g_weights> by g_out, x and the weights, all of it in torch."""
    names = {code: name for name, code in ACTIVATIONS.items()}
    sizes, activations = ctx.network[:4], [names[code] for code in ctx.network[4:6]]
    needs = ctx.needs_input_grad[:3]
    grads: list[Tensor | None] = [None, None, None]
    given = [gg_x if ctx.by_x else None, gg_weights if ctx.by_weights else None]
    if any(needs) and any(gg is not None for gg in given):
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            out = mlp_torch(*leaves[1:], *sizes, *activations)
            first = torch.autograd.grad(out, leaves[1:], leaves[0], create_graph=True)
            value = sum((g * gg).sum() for g, gg in zip(first, given, strict=True) if gg is not None)
            chosen = [leaf for leaf, needed in zip(leaves, needs, strict=True) if needed]
            assert isinstance(value, Tensor)
            seconds = iter(torch.autograd.grad(value, chosen, allow_unused=True))
        grads = [next(seconds) if needed else None for needed in needs]
    return *grads, *(None,) * 11


register_implementation("mlp", _forward, _fake_forward, _differentiate, _save, differentiable_gradient=True)
register_implementation("mlp_live", _live, _fake_live)
register_implementation("mlp_bwd", _backward, _fake_backward, _differentiate_backward, _save_backward)
