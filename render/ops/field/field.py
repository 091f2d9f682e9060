"""Stage: a grid encoding and the multilayer perceptron on it together, and its gradient (kernels of the same name)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.encode_grid import check_grid, encode_grid, hashed_code
from luxel.render.ops.field.grid_layout import Hashed
from luxel.render.ops.field.mlp import ACTIVATIONS, Activation, Network, computed_anew, mlp
from luxel.render.ops.field.order_positions import order_positions
from luxel.render.ops.registry import define, register_implementation, require

# Rows from which ordering positions that lie anywhere costs less than it saves, on a GPU.
MIN_SORTED_TRAINING, MIN_SORTED = 2**17, 2**19

_FIELD = (
    "Tensor x, Tensor? order, Tensor table, Tensor? half_table, Tensor weights, int[] offsets, float[] scales, "
    "int hashed, int width, int hidden_layers, int outputs, int activation, int output_activation"
)
define(f"field({_FIELD}, bool keep) -> (Tensor, Tensor)")
define(f"field_live(Tensor live, {_FIELD}) -> Tensor")
define(
    f"field_bwd(Tensor g_out, Tensor out, Tensor kept, {_FIELD}, bool by_table, bool by_weights)"
    " -> (Tensor, Tensor)"
)


def covered(device: torch.device, dimensions: int, features: int, network: Network) -> bool:
    """Whether the stage has a kernel for these sizes; on the CPU it has one for all.

    Args:
        device: of the positions.
        dimensions: D, of a position.
        features: F, per level.
        network: its inputs are L * F.
    """
    if device.type != "cuda":
        return True
    return dimensions in (2, 3) and features in (2, 4, 8) and computed_anew(device, network)


def field(
    x: Tensor,
    table: Tensor,
    weights: Tensor,
    offsets: Sequence[int],
    scales: Sequence[float],
    hashed: Hashed,
    width: int,
    hidden_layers: int,
    outputs: int,
    activation: Activation = "relu",
    output_activation: Activation = "none",
    *,
    half_table: Tensor | None = None,
    precise: bool = False,
    sort: bool | None = None,
    live: Tensor | None = None,
) -> Tensor:
    """`mlp` of `encode_grid` in one stage; nothing waits for the device.

    Müller et al. 2022, "Instant Neural Graphics Primitives", section 3, and Müller 2021, "Tiny CUDA neural networks".
    On a GPU features and hidden layers are half and stay in the kernel; a training step stores the features alone and
    computes the hidden layers anew. The notes of `mlp` on half hold here: a caller whose gradients are small multiplies
    the loss before the backward pass and divides the gradients after it.

    Differentiable once, by the table, the weights and x. Where x requires a gradient, and for sizes that are not
    `covered`, the two stages run one after the other, with the same results but for rounding.

    Args:
        x: positions in [0, 1], [N, D], float32 or (CPU only) float64.
        table: [E, F], as x.
        weights: [P], of a perceptron with L * F inputs, as x.
        offsets: of each level's first entry, and E, [L + 1].
        scales: of each level, [L].
        hashed: whether levels of more points than entries are hashed, and "blocks" if in blocks of 8; otherwise they
            wrap around.
        width: W, of hidden layers.
        hidden_layers: H.
        outputs: O.
        activation: of hidden layers.
        output_activation: of the result.
        half_table: read instead of the table, float16 [E, F], CUDA only. Fastest: half as many bytes, and with F of 2
            one kernel. `table.half()` costs a pass over the table at each step.
        precise: on a GPU, the two stages in float.
        sort: whether to go through the positions along a space-filling curve (`order_positions`), so that neighbours
            share entries of the table; the results are the same but for rounding. None: on a GPU, of so many that it
            pays where they lie in no order. False is best for positions that are neighbours in space already, as
            samples along rays are. Where the two stages run one after the other, nothing is sorted.
        live: how many leading rows to compute, int32 [1] on the device, so that the host does not need the number; the
            other rows of the result are undefined. Nothing is sorted then, and there are no gradients.

    Returns:
        [N, O], as x; of NaN positions, what features of 0 give.

    Raises:
        ValueError: sizes are out of range, shapes, types or devices do not fit them, or gradients are needed besides
            ``live``.
    """
    for name, chosen in (("activation", activation), ("output_activation", output_activation)):
        if chosen not in ACTIVATIONS:
            raise ValueError(f"field: {name} must be one of {tuple(ACTIVATIONS)}, got {chosen!r}")
    if table.dim() != 2 or x.dim() != 2:
        raise ValueError(
            f"field: x must be [N, D] and table [E, F], got {list(x.shape)} and {list(table.shape)}"
        )
    inputs = len(scales) * table.shape[1]
    codes = ACTIVATIONS[activation], ACTIVATIONS[output_activation]
    network = Network(inputs, width, hidden_layers, outputs, *codes, precise)
    grad_enabled = torch.is_grad_enabled()
    if live is not None and grad_enabled and any(t.requires_grad for t in (x, table, weights)):
        raise ValueError("field: live must be None where a gradient is required, as it leaves rows unwritten")
    if (grad_enabled and x.requires_grad) or not covered(x.device, x.shape[1], table.shape[1], network):
        features = encode_grid(x, table, offsets, scales, hashed, half_table)
        options = {"precise": precise, "live": live}
        return mlp(features, weights, *network[:4], activation, output_activation, **options)
    keep = grad_enabled and (table.requires_grad or weights.requires_grad)
    levels = list(offsets), list(scales), hashed_code(hashed)
    given = table, half_table, weights, *levels, width, hidden_layers, outputs, *codes
    if live is not None:
        return torch.ops.luxel.field_live(live, x, None, *given)
    if sort is None:
        least = MIN_SORTED_TRAINING if keep else MIN_SORTED
        pays = keep or hashed != "blocks"  # whose reads are few as they are
        sort = pays and x.device.type == "cuda" and x.shape[0] >= least
    order, rows = order_positions(x) if sort else (None, x)
    return torch.ops.luxel.field(rows, order, *given, keep)[0]


def _network(table: Tensor, scales: Sequence[float], sizes: Sequence[int]) -> Network:
    """Of the operation's arguments from the width on."""
    width, hidden_layers, outputs, activation, output_activation = sizes
    inputs = len(scales) * table.shape[1]
    return Network(inputs, width, hidden_layers, outputs, activation, output_activation)


def _check(
    x: Tensor,
    order: Tensor | None,
    table: Tensor,
    half_table: Tensor | None,
    weights: Tensor,
    offsets: Sequence[int],
    scales: Sequence[float],
    hashed: int,
    *sizes: int,
) -> dict[str, Any]:
    """The fields of the argument struct that forward and backward share."""
    arguments = check_grid(x, table, half_table, offsets, scales, hashed)
    network = _network(table, scales, sizes)
    network.check()
    if not covered(x.device, x.shape[1], table.shape[1], network):
        raise ValueError(
            f"field: no kernel on {x.device} for x of {x.shape[1]} dimensions, "
            f"table of {table.shape[1]} features, {network}"
        )
    expected = {
        "weights": (weights, x.dtype, (network.parameter_count(),)),
        "order": (order, torch.int32, (x.shape[0],)),
    }
    require("field", x.device, expected)
    named = network._asdict()
    del named["inputs"], named["precise"]
    placed = None if order is None else order.contiguous()
    return arguments | named | {"weights": weights.contiguous(), "order": placed}


def _run(stage: str, x: Tensor, arguments: dict[str, Any]) -> None:
    """Calls the stage with a workspace of the size that it needs."""
    library = library_for(x.device)
    needed = library.call(f"{stage}_workspace", x.device, x.dtype, **arguments)
    workspace = torch.empty(needed, dtype=torch.uint8, device=x.device)
    library.call(stage, x.device, x.dtype, **arguments, workspace=workspace, workspace_bytes=needed)


def _forward(x: Tensor, order: Tensor | None, table: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    arguments = _check(x, order, table, *rest[:-1])
    out, saved = outputs = _fake_forward(x, order, table, *rest)
    _run("field_fwd", x, arguments | {"out": out, "kept": saved if rest[-1] else None})
    return outputs


def _live(live: Tensor, x: Tensor, *rest: Any) -> Tensor:
    arguments = _check(x, *rest)
    require("field", x.device, {"live": (live, torch.int32, (1,))})
    out = _fake_live(live, x, *rest)
    _run("field_fwd", x, arguments | {"out": out, "live": live})
    return out


def _fake_live(live: Tensor, x: Tensor, *rest: Any) -> Tensor:
    return x.new_empty(x.shape[0], rest[-3])


def _backward(
    g_out: Tensor, out: Tensor, saved: Tensor, x: Tensor, order: Tensor | None, table: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    *field_arguments, by_table, by_weights = rest
    arguments = _check(x, order, table, *field_arguments)
    shape = (x.shape[0], arguments["outputs"])
    expected = _saved(x, table, field_arguments[3], field_arguments[5:])
    require(
        "field_bwd",
        x.device,
        {
            "g_out": (g_out, x.dtype, shape),
            "out": (out, x.dtype, shape),
            "kept": (saved, expected.dtype, tuple(expected.shape)),
        },
    )
    g_table, g_weights = grads = _fake_backward(g_out, out, saved, x, order, table, *rest)
    arguments |= {"out": out.contiguous(), "kept": saved.contiguous(), "g_out": g_out.contiguous()}
    arguments |= {"g_table": g_table.zero_() if by_table else None}
    arguments |= {"g_weights": g_weights if by_weights else None}
    _run("field_bwd", x, arguments)
    return grads


def _saved(x: Tensor, table: Tensor, scales: Sequence[float], sizes: Sequence[int]) -> Tensor:
    """Storage for what the backward pass reads."""
    n, network = x.shape[0], _network(table, scales, sizes)
    if x.device.type == "cuda":
        return x.new_empty((network.inputs // 2, n, 2), dtype=torch.float16)
    return x.new_empty(n * (network.inputs + network.hidden_layers * network.width))


def _fake_forward(
    x: Tensor,
    order: Tensor | None,
    table: Tensor,
    half_table: Tensor | None,
    weights: Tensor,
    offsets: Any,
    scales: Sequence[float],
    hashed: int,
    *rest: Any,
) -> tuple[Tensor, Tensor]:
    *sizes, keep = rest
    return x.new_empty(x.shape[0], sizes[2]), _saved(x, table, scales, sizes) if keep else x.new_empty(0)


def _fake_backward(
    g_out: Tensor,
    out: Tensor,
    saved: Tensor,
    x: Tensor,
    order: Any,
    table: Tensor,
    half: Any,
    weights: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor]:
    by_table, by_weights = rest[-2:]
    return table.new_empty(table.shape if by_table else (0,)), weights.new_empty(
        weights.shape if by_weights else (0,)
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.keep = inputs
    tensors, ctx.rest = tensors[:5], tensors[5:]
    ctx.save_for_backward(*output, *tensors)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g_out: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    none = (None,) * 9
    by_x, _, by_table, _, by_weights = ctx.needs_input_grad[:5]
    if g_out is None:
        return *(None,) * 5, *none
    if by_x:
        raise RuntimeError("luxel::field has no gradient by x: luxel.render.ops.field.field.field has")
    if not ctx.keep:
        raise RuntimeError("field: no gradient of a pass that did not store its features (keep=False)")
    g_table, g_weights = torch.ops.luxel.field_bwd(g_out, *ctx.saved_tensors, *ctx.rest, by_table, by_weights)
    return None, None, g_table if by_table else None, None, g_weights if by_weights else None, *none


register_implementation("field", _forward, _fake_forward, _differentiate, _save)
register_implementation("field_live", _live, _fake_live)
register_implementation("field_bwd", _backward, _fake_backward)
