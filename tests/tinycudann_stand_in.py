"""A stand-in for tiny-cuda-nn's module `tinycudann` in plain torch: its classes, configuration, layout of parameters.

Written from how its sources lay things out, not from luxel's grids: sizes, scales, strides and hashes are computed
here in float32 and integers as there. Unlike it, everything is float32, and on the CPU.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PRIMES = (1, 2654435761, 805459861)
ACTIVATIONS = {"None": lambda x: x, "ReLU": torch.relu, "Sigmoid": torch.sigmoid}


def padded(number: int, to: int) -> int:
    """The next multiple."""
    return -(-number // to) * to


class HashGrid:
    """Levels one after another, each [entries, features] row major.

    Args:
        dimensions: of a position.
        options: of the encoding.
    """

    def __init__(self, dimensions: int, options: dict[str, Any]) -> None:
        assert options["otype"] == "HashGrid" and options.get("interpolation", "Linear") == "Linear"
        self.dimensions, self.features = dimensions, options["n_features_per_level"]
        growth = np.float32(np.log2(np.float64(np.float32(options["per_level_scale"]))))
        self.scales, self.points, self.sizes = [], [], []
        for level in range(options["n_levels"]):
            scale = np.exp2(np.float32(level) * growth) * np.float32(options["base_resolution"]) - np.float32(
                1
            )
            points = math.ceil(float(scale)) + 1
            self.scales.append(float(scale))
            self.points.append(points)
            self.sizes.append(min(padded(points**dimensions, 8), 2 ** options["log2_hashmap_size"]))
        self.width = options["n_levels"] * self.features
        self.count = sum(self.sizes) * self.features

    def __call__(self, x: Tensor, parameters: Tensor) -> Tensor:
        per_level, first = [], 0
        for scale, points, size in zip(self.scales, self.points, self.sizes, strict=True):
            entries = parameters[first : first + size * self.features].view(size, self.features)
            first += size * self.features
            position = x * scale + 0.5
            low = position.detach().floor()
            part, total = position - low, torch.zeros(len(x), self.features)
            for corner in range(2**self.dimensions):
                weight, in_order, hashed = torch.ones(len(x)), 0, 0
                for d in range(self.dimensions):
                    end = corner >> d & 1
                    weight = weight * (part[:, d] if end else 1 - part[:, d])
                    at = low[:, d].long() + end
                    in_order = in_order + at * points**d
                    hashed = hashed ^ (at * PRIMES[d] % 2**32)
                index = hashed if points**self.dimensions > size else in_order
                total = total + weight[:, None] * entries[index % size]
            per_level.append(total)
        return torch.cat(per_level, 1)


class Perceptron:
    """Matrices one after another, row major [outputs, inputs]; inputs of the first and outputs of the last one padded.

    Args:
        inputs: what it takes.
        outputs: what it gives.
        options: of the network.
    """

    def __init__(self, inputs: int, outputs: int, options: dict[str, Any]) -> None:
        hidden, width = options["n_hidden_layers"], options["n_neurons"]
        fused = options["otype"] == "FullyFusedMLP"
        assert fused or options["otype"] == "CutlassMLP"
        if fused and hidden < 1:
            raise RuntimeError("FullyFusedMLP requires at least 1 hidden layer (3 layers in total).")
        to = 16 if fused else 8
        sizes = [padded(inputs, to), *[width] * hidden, padded(outputs, to)]
        self.shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        self.inputs, self.hidden = sizes[0], ACTIVATIONS[options["activation"]]
        self.last = ACTIVATIONS[options["output_activation"]]
        self.count = sum(a * b for a, b in self.shapes)

    def __call__(self, x: Tensor, parameters: Tensor) -> Tensor:
        x = nn.functional.pad(x, (0, self.inputs - x.shape[1]), value=1.0)  # as its identity encoding pads
        first = 0
        for i, (after, before) in enumerate(self.shapes):
            x = x @ parameters[first : first + after * before].view(after, before).T
            x = (self.last if i == len(self.shapes) - 1 else self.hidden)(x)
            first += after * before
        return x


class Module(nn.Module):
    """What its three modules share: one flat parameter, a loss scale, rows in multiples of 256."""

    def __init__(self, inputs: int, outputs: int, count: int, seed: int) -> None:
        super().__init__()
        self.n_input_dims, self.n_output_dims, self.seed = inputs, outputs, seed
        generator = torch.Generator().manual_seed(seed)
        self.params = nn.Parameter(torch.rand(count, generator=generator) - 0.5)
        self.dtype, self.loss_scale, self.calls = torch.float32, 128.0, 0

    def compute(self, x: Tensor, parameters: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == torch.float32 and x.shape[1] == self.n_input_dims and len(x) > 0
        self.calls += 1
        rows = nn.functional.pad(x, (0, 0, 0, padded(len(x), 256) - len(x)))
        return self.compute(rows, self.params.to(self.dtype))[: len(x), : self.n_output_dims]


class Network(Module):
    """A network."""

    def __init__(
        self, n_input_dims: int, n_output_dims: int, network_config: dict[str, Any], seed: int = 1337
    ):
        self_network = Perceptron(n_input_dims, n_output_dims, network_config)
        super().__init__(n_input_dims, n_output_dims, self_network.count, seed)
        self.network = self_network

    def compute(self, x: Tensor, parameters: Tensor) -> Tensor:
        return self.network(x, parameters)


class NetworkWithInputEncoding(Module):
    """An encoding, then a network, whose parameters are first."""

    def __init__(
        self,
        n_input_dims: int,
        n_output_dims: int,
        encoding_config: dict[str, Any],
        network_config: dict[str, Any],
        seed: int = 1337,
    ) -> None:
        grid = HashGrid(n_input_dims, encoding_config)
        network = Perceptron(grid.width, n_output_dims, network_config)
        super().__init__(n_input_dims, n_output_dims, network.count + grid.count, seed)
        self.grid, self.network = grid, network

    def compute(self, x: Tensor, parameters: Tensor) -> Tensor:
        assert bool(((x >= 0) & (x <= 1)).all())
        weights, table = parameters.split([self.network.count, self.grid.count])
        return self.network(self.grid(x, table), weights)


class StandIn(ModuleType):
    """The module; counts what was made."""

    def __init__(self) -> None:
        super().__init__("tinycudann")
        self.made: list[Module] = []

    def Network(self, *arguments: Any, **options: Any) -> Network:
        self.made.append(Network(*arguments, **options))
        return self.made[-1]  # pyright: ignore[reportReturnType]

    def NetworkWithInputEncoding(self, *arguments: Any, **options: Any) -> NetworkWithInputEncoding:
        self.made.append(NetworkWithInputEncoding(*arguments, **options))
        return self.made[-1]  # pyright: ignore[reportReturnType]

    @property
    def calls(self) -> int:
        """Evaluations so far, of all that was made."""
        return sum(module.calls for module in self.made)
