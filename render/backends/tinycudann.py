"""tiny-cuda-nn (Müller 2021) as the backend of luxel's fields: the same parameters, evaluated by its kernels.

A field keeps its table and its weights in luxel's layout, and passes them to tiny-cuda-nn at each call. The layouts are
equal but for padding: weights first, matrix after matrix, row major [outputs, inputs], the first one's inputs and the
last one's outputs padded with zeros to a multiple of 16 (of 8 in CUTLASS networks); then the table, level after level.
Training, files and scores use the same code with either backend, and luxel's own kernels evaluate the field where
tiny-cuda-nn is not available (`luxel.render.fields.peers.tinycudann_field`). Differences:

* Levels of more points than entries are hashed in every encoding, and scales of levels are rounded as there:
  `luxel.render.fields.encodings.tinycudann_grid`.
* Gradients of parameters are computed in half precision; those of tables are also summed in it. The loss is
  scaled once, by the configuration's ``loss_scale``; tiny-cuda-nn's own scale is off.
* Gradients by positions, and second derivatives, come from luxel's kernels.
* softplus is defined differently there and is refused, and so is ``precise``: it computes in half precision.
* A step is not captured as a CUDA graph, since tiny-cuda-nn allocates workspaces itself.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from luxel.render.backends.gpu import require_gpu
from luxel.render.errors import LuxelError

if TYPE_CHECKING:
    from luxel.render.fields.encodings.grid import Grid
    from luxel.render.fields.nets.mlp import Mlp

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

    Always a hashed one: grids that are not hashed have other sizes there than in luxel, while levels of hashed grids
    that have no more points than entries agree.
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
        LuxelError: tiny-cuda-nn does not support the field.
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
    """Positions clamped to [0, 1], NaN replaced by 0; tiny-cuda-nn does neither."""
    return x.nan_to_num(0.0).clamp(0, 1)


def current_device(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Makes the GPU of the tensors the current one, where tiny-cuda-nn allocates."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _padded(shapes: list[tuple[int, int]], alignment: int) -> list[tuple[int, int]]:
    """[outputs, inputs] of each matrix, padded."""
    sizes = [list(shape) for shape in shapes]
    for row, position in ((sizes[0], 1), (sizes[-1], 0)):
        row[position] = math.ceil(row[position] / alignment) * alignment
    return [(outputs, inputs) for outputs, inputs in sizes]
