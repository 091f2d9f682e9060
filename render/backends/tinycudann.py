"""tiny-cuda-nn (Müller 2021) as the backend of luxel's fields: the same parameters, evaluated by its kernels.

A field keeps its table and its weights in luxel's layout, and passes them to tiny-cuda-nn at each call. The layouts are
equal but for padding: weights first, matrix after matrix, row major [outputs, inputs], the first one's inputs and the
last one's outputs padded to a multiple of 16 with zeros; then the table, level after level. Training, files and
scores do not depend on the backend, and luxel's own kernels evaluate the field where tiny-cuda-nn is not available
(`luxel.render.fields.peer`). Differences:

* Levels of more points than entries are hashed in every encoding, and scales of levels are rounded as there:
  `matching_grid`.
* Gradients of parameters are computed in half, those of tables as sums of halfs. The loss is scaled once, by the
  configuration's ``loss_scale``; tiny-cuda-nn's own scale is off.
* Gradients by positions, and second derivatives, come from luxel's kernels.
* softplus is another function there and is refused, and so is ``precise``, since it computes in half.
* A step is not captured as a CUDA graph, since its workspaces are its own.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from luxel.render.backends import require_gpu
from luxel.render.errors import LuxelError
from luxel.render.fields.encodings import Grid
from luxel.render.fields.mlp import Mlp

INSTALL = (
    "It is not on PyPI. With nvcc: "
    "pip install --no-build-isolation 'git+https://github.com/NVlabs/tiny-cuda-nn/#subdirectory=bindings/torch'"
)
NAMES = {
    "none": "None",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
}  # of activations that are the same function in both
ALIGNMENTS = (16, 8)  # to which it pads: its fused networks, and CUTLASS's
ROUNDING = 4e-6  # share of a level's points by which rounding may move its scale


def require(device: torch.device | str | None = None) -> Any:
    """The module `tinycudann`, if it can be used.

    Args:
        device: where it is to compute; None: on any GPU.

    Raises:
        LuxelError: it is not installed or cannot be imported, there is no GPU, or the device is not a GPU.
    """
    if importlib.util.find_spec("tinycudann") is None:
        raise LuxelError("The tiny-cuda-nn backend is not installed, and needs an NVIDIA GPU.", INSTALL)
    require_gpu("tiny-cuda-nn", device)
    try:
        return importlib.import_module("tinycudann")
    except (ImportError, OSError) as error:  # OSError: of another compute capability
        raise LuxelError(
            f"tiny-cuda-nn is installed but cannot be imported ({error}).",
            "Build it again, for this torch and this GPU.",
        ) from error


def encoding_options(grid: Grid) -> dict[str, Any]:
    """A grid as a configuration of tiny-cuda-nn.

    Its grids that are not hashed have other sizes than luxel's; of levels that have no more points than entries, both
    agree in those that are.
    """
    return {
        "otype": "HashGrid",
        "n_levels": grid.levels,
        "n_features_per_level": grid.features,
        "log2_hashmap_size": 28 if grid.log2_entries is None else grid.log2_entries,
        "base_resolution": grid.base,
        "per_level_scale": grid.growth,
        "interpolation": "Linear",
    }


def network_options(mlp: Mlp) -> dict[str, Any]:
    """A network as a configuration of tiny-cuda-nn; fused if it has hidden layers.

    Raises:
        ValueError: it has no such activation.
    """
    for name in (mlp.activation, mlp.output_activation):
        if name not in NAMES:
            raise ValueError(f"tiny-cuda-nn: activations must be one of {tuple(NAMES)}, got {name!r}")
    return {
        "otype": "FullyFusedMLP" if mlp.network.hidden_layers else "CutlassMLP",
        "activation": NAMES[mlp.activation],
        "output_activation": NAMES[mlp.output_activation],
        "n_neurons": mlp.network.width,
        "n_hidden_layers": mlp.network.hidden_layers,
    }


@dataclass(frozen=True)
class PeerGrid(Grid):
    """A grid with the scales of tiny-cuda-nn, 2^(l log2 growth) base - 1 in float32; see `matching_grid`."""

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Cells along an axis, [L]."""
        step = _single(math.log2(self.growth))
        grown = [_single(self.base * _single(2 ** _single(level * step))) for level in range(self.levels)]
        return tuple(_single(points - 1) for points in grown)

    @property
    def stable(self) -> bool:
        """Whether rounding cannot give a level whose points lie in order another number of them."""
        if self.growth == 1:
            return True
        for level in range(1, self.levels):
            scale = self.base * self.growth**level - 1
            in_order = self.log2_entries is None or round(scale) ** self.dimensions <= 2**self.log2_entries
            if in_order and abs(scale - round(scale)) <= ROUNDING * (scale + 1):
                return False
        return True


def matching_grid(grid: Grid) -> PeerGrid:
    """The grid nearest to one of luxel's that both evaluate alike: hashed, with sizes that rounding cannot change.

    A finest level of 512 points, say, has a scale of 511, which rounding could raise to 513 points; with a growth that
    is lower by a millionth or so it has 512 for both.
    """
    growth = _single(grid.growth)
    sizes = grid.dimensions, grid.levels, grid.features, grid.base
    while True:
        candidate = PeerGrid(*sizes, growth, grid.log2_entries, hashed=True)
        lower = _single(growth * (1 - 2**-20))
        if candidate.stable or lower < 1 or grid.growth - lower > 1e-3:
            return candidate
        growth = lower


class Peer:
    """A module of tiny-cuda-nn, called with luxel's parameters.

    Args:
        native: Network or NetworkWithInputEncoding; its own parameters are freed.
        mlp: luxel's network of the same sizes.
        table: number of parameters of its table.

    Raises:
        LuxelError: it has another number of parameters.
    """

    def __init__(self, native: Any, mlp: Mlp, table: int = 0) -> None:
        own: nn.Parameter = native.params
        shapes = mlp.network.shapes()
        alignments = {sum(a * b for a, b in _padded(shapes, to)) + table: to for to in ALIGNMENTS}
        if own.numel() not in alignments:
            raise LuxelError(
                f"tiny-cuda-nn has {own.numel():,} parameters for a field of {mlp.weights.numel() + table:,}, "
                "padded in a way that luxel does not know.",
                "Leave --backend out: luxel's own kernels evaluate it.",
            )
        self.sizes = _padded(shapes, alignments[own.numel()])
        own.data = own.data.new_empty(0)
        native.loss_scale = 1.0
        self.native, self.outputs = native, mlp.network.outputs
        self.dtype: torch.dtype = getattr(native, "dtype", torch.float16)

    def parameters(self, mlp: Mlp, table: Tensor | None = None) -> Tensor:
        """Weights and table in tiny-cuda-nn's layout, differentiable."""
        parts = [
            nn.functional.pad(m, (0, inputs - m.shape[1], 0, outputs - m.shape[0])).flatten()
            for m, (outputs, inputs) in zip(mlp.matrices(), self.sizes, strict=True)
        ]
        given = torch.cat(parts).to(self.dtype)
        return given if table is None else torch.cat([given, table.to(self.dtype).flatten()])

    def __call__(self, x: Tensor, parameters: Tensor) -> Tensor:
        """[N, I] to [N, O], as x."""
        with current_device(x.device):
            out = functional_call(self.native, {"params": parameters}, (x,))
        return out[:, : self.outputs].to(x.dtype)


def native_field(library: Any, grid: Grid, mlp: Mlp) -> nn.Module:
    """The module of tiny-cuda-nn for a grid and the network on it, with parameters of its own, on the present GPU."""
    chosen = encoding_options(grid), network_options(mlp)
    return library.NetworkWithInputEncoding(grid.dimensions, mlp.network.outputs, *chosen)


def make_peer(make: Callable[[Any], Peer], device: torch.device) -> Peer | None:
    """The peer that ``make`` builds with the module `tinycudann` on a device; None if the module cannot be used.

    Raises:
        LuxelError: it makes no such field.
    """
    try:
        library = require(device)
    except LuxelError:
        return None
    try:
        with current_device(device):
            return make(library)
    except RuntimeError as error:
        raise LuxelError(
            f"tiny-cuda-nn cannot make this field ({error}).",
            "Leave --backend out: luxel's own kernels evaluate it.",
        ) from error


def clamp_positions(x: Tensor) -> Tensor:
    """Positions clamped to [0, 1], NaN to 0, which tiny-cuda-nn does not do."""
    return x.nan_to_num(0.0).clamp(0, 1)


def current_device(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Makes the GPU of the tensors the current one, where tiny-cuda-nn allocates."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _single(number: float) -> float:
    """Rounded to float32, as tiny-cuda-nn stores it."""
    return torch.tensor(number, dtype=torch.float32).item()


def _padded(shapes: list[tuple[int, int]], alignment: int) -> list[tuple[int, int]]:
    """[outputs, inputs] of each matrix, padded."""
    sizes = [list(shape) for shape in shapes]
    for row, place in ((sizes[0], 1), (sizes[-1], 0)):
        row[place] = math.ceil(row[place] / alignment) * alignment
    return [(outputs, inputs) for outputs, inputs in sizes]
