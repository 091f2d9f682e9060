"""The same field by other implementations: plain torch, and tiny-cuda-nn where it is installed.

tiny-cuda-nn (Müller 2021) is optional, called through its own module, with parameters of its own. Where it cannot be
used the report has the reason.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from luxel.render.backends import tinycudann
from luxel.render.errors import LuxelError
from luxel.render.fields.encodings.encoding import Encoding
from luxel.render.fields.encodings.grid import Grid
from luxel.render.fields.encodings.grid_encoding import GridEncoding
from luxel.render.fields.nets.field import Field
from luxel.render.ops.field.grid_layout import PRIMES, grid_index
from luxel.viewer.bench.timing import compare_ms

TORCH, TINY = "torch", "tiny-cuda-nn"
WORK = ("inference", "training")


class TorchField(nn.Module):
    """A field of torch's operations with the same parameters, an encoding and nn.Sequential, on a GPU in half.

    Args:
        whole: the field that it is a copy of; ReLU, then no activation.

    Raises:
        ValueError: it has other activations.
    """

    def __init__(self, whole: Field) -> None:
        super().__init__()
        encoding, network = whole.encoding, whole.network
        if (network.activation, network.output_activation) != ("relu", "none"):
            raise ValueError(f"TorchField has ReLU, then none, not {network}")
        self.encoding = TORCH_ENCODINGS.get(type(encoding), copy.deepcopy)(encoding)
        parts: list[nn.Module] = []
        for matrix in network.matrices():
            layer = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False).to(matrix)
            layer.weight.data.copy_(matrix.detach())
            parts += [layer, nn.ReLU()]
        self.network = nn.Sequential(*parts[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Positions [N, D] in [0, 1] to [N, O]."""
        with torch.autocast(x.device.type, torch.float16, enabled=x.is_cuda):
            return self.network(self.encoding(x))


class TorchGrid(nn.Module):
    """A grid encoding of torch's operations, by index_select, on a GPU in half.

    Args:
        encoding: whose table is copied.
    """

    def __init__(self, encoding: GridEncoding) -> None:
        super().__init__()
        self.grid = encoding.grid
        self.table = nn.Parameter(encoding.table.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """Positions [N, D] in [0, 1] to [N, L * F]."""
        return torch_encoding(self.grid, x, self.table.half() if x.is_cuda else self.table)


# Encodings with kernels of their own; all others are of torch's operations already.
TORCH_ENCODINGS: dict[type[Encoding], Callable[[Any], nn.Module]] = {GridEncoding: TorchGrid}


def torch_encoding(grid: Grid, x: Tensor, table: Tensor) -> Tensor:
    """The grid encoding of torch's operations, in the table's type, [N, L * F].

    As `luxel.render.reference.field.encode_grid.encode_grid_reference`, without its handling of NaN and of second
    derivatives.

    Args:
        grid: levels.
        x: positions in [0, 1], [N, D].
        table: [E, F].
    """
    features = []
    for level, scale in enumerate(grid.scales):
        first, size = grid.offsets[level], grid.offsets[level + 1] - grid.offsets[level]
        points = grid.resolutions[level]
        position = x * scale + 0.5
        corner = position.floor()
        part = (position - corner).to(table.dtype)
        hashed = grid.hashed and points**grid.dimensions > size
        strides = PRIMES if hashed else [points**d % size for d in range(grid.dimensions)]
        total = torch.zeros(len(x), table.shape[1], dtype=table.dtype, device=x.device)
        for ends in itertools.product((0, 1), repeat=grid.dimensions):
            terms = [(corner[:, d].long() + end) * strides[d] for d, end in enumerate(ends)]
            index, weight = terms[0], part[:, 0] if ends[0] else 1 - part[:, 0]
            for d, term in enumerate(terms[1:], start=1):
                index = index ^ term if hashed else index + term
                weight = weight * (part[:, d] if ends[d] else 1 - part[:, d])
            index = index & (size - 1) if hashed else index % size
            if grid.hashed == "blocks":
                at = torch.stack([corner[:, d].long() + end for d, end in enumerate(ends)], 1)
                index = grid_index(at, points, size, "blocks")
            total = total + weight[:, None] * table.index_select(0, first + index)
        features.append(total)
    return torch.cat(features, 1)


def tiny_cuda_nn(whole: Field) -> nn.Module:
    """The peer's field of the same sizes, with parameters of its own, on the field's device.

    Levels that have more points than entries are hashed there, point by point, also where luxel's wrap around or hash
    blocks: the peer's grids that are not hashed have other sizes.

    Raises:
        RuntimeError: tiny-cuda-nn cannot be used; the message is the reason.
    """
    device = whole.network.weights.device
    if type(whole.encoding) not in TINY_ENCODINGS:
        raise RuntimeError("it has no such encoding")
    try:
        library = tinycudann.require(device)
    except LuxelError as error:
        raise RuntimeError(error.problem) from error
    with tinycudann.current_device(device):
        return TINY_ENCODINGS[type(whole.encoding)](library, whole)


def _tiny_grid(library: Any, whole: Any) -> nn.Module:
    return tinycudann.native_field(library, whole.encoding.grid, whole.network)


TINY_ENCODINGS: dict[type[Encoding], Callable[[Any, Field], nn.Module]] = {GridEncoding: _tiny_grid}


def rates(
    whole: Field, rows: int, device: torch.device, *, warmup: int, iterations: int
) -> dict[str, dict[str, Any]]:
    """Times of the field in luxel, torch and tiny-cuda-nn, in turns, at random positions.

    Args:
        whole: the field.
        rows: positions of a call.

    Returns:
        by name, luxel first: either absent (the reason), or per work (inference; training, that is forward and backward
        to table and weights, without an optimizer) the times of `compare_ms` with rows_per_s; torch also has
        difference: the relative error of its result against luxel's.
    """
    network = whole.network
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(rows, whole.encoding.dimensions, generator=generator).to(device)
    g_out = torch.randn(rows, network.network.outputs, generator=generator).to(device)
    plain = TorchField(whole)
    made: dict[str, nn.Module] = {"luxel": whole, TORCH: plain}
    results: dict[str, dict[str, Any]] = {"luxel": {}, TORCH: {}, TINY: {}}
    try:
        made[TINY] = tiny_cuda_nn(whole)
    except RuntimeError as error:
        results[TINY]["absent"] = str(error)
    with torch.no_grad():
        expected = whole(x).double()
        off = (plain(x).double() - expected).norm() / expected.norm().clamp_min(1e-30)
        results[TORCH]["difference"] = float(off)
    for work in WORK:
        runs = {name: _run(module, work, x, g_out) for name, module in made.items()}
        for name, times in compare_ms(runs, device, warmup=warmup, iterations=iterations).items():
            results[name][work] = {**times, "rows_per_s": 1e3 * rows / times["median"]}
    return results


def _run(module: nn.Module, work: str, x: Tensor, g_out: Tensor) -> Callable[[int], object]:
    leaves: Sequence[nn.Parameter] = [p for p in module.parameters() if p.requires_grad]

    def inference(_: int) -> object:
        with torch.no_grad():
            return module(x)

    def training(_: int) -> object:
        out = module(x)
        return torch.autograd.grad(out, leaves, g_out.to(out.dtype))

    return inference if work == "inference" else training
