"""A small multilayer perceptron whose layers run as one stage."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from luxel.render.ops.field.colour_network import colour_network
from luxel.render.ops.field.mlp import ACTIVATIONS, Activation, Network, computed_anew, mlp


class Mlp(torch.nn.Module):
    """x [N, I] to [N, O] through H hidden layers of width W, without biases; see `luxel.render.ops.field.mlp.mlp`.

    Müller 2021, "Tiny CUDA neural networks": the idea of a network in one kernel. On a GPU it computes in half
    precision on tensor cores from float32 weights; loss scaling is left to the caller.

    Args:
        inputs: I, 1 to 128.
        outputs: O, 1 to 128.
        width: W, 16, 32, 64 or 128.
        hidden_layers: H, 0 to 8; 0 is one linear layer.
        activation: of hidden layers: "none", "relu", "softplus" or "sigmoid".
        output_activation: of the result, likewise.
        precise: on a GPU, float throughout; slower.
        seed: of the initial weights, the same on every device.
        device: of the weights.
        dtype: of the weights, float32 or (CPU only) float64.

    Attributes:
        weights: the parameter, [P]: W_0 .. W_H one after another, each row major [its outputs, its inputs], unpadded;
            `matrices` gives views. It starts Xavier uniform: |w| < sqrt(6 / (inputs + outputs of the matrix)).

    Raises:
        ValueError: a size is out of range, or an activation is not known.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int = 64,
        hidden_layers: int = 2,
        activation: Activation = "relu",
        output_activation: Activation = "none",
        precise: bool = False,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        for name, chosen in (("activation", activation), ("output_activation", output_activation)):
            if chosen not in ACTIVATIONS:
                raise ValueError(f"mlp: {name} must be one of {tuple(ACTIVATIONS)}, got {chosen!r}")
        self.network = Network(inputs, width, hidden_layers, outputs)
        self.network.check()
        self.activation: Activation = activation
        self.output_activation: Activation = output_activation
        self.precise = precise
        generator = torch.Generator().manual_seed(seed)
        drawn = []
        for after, before in self.network.shapes():
            bound = math.sqrt(6 / (after + before))
            uniform = torch.rand(after * before, generator=generator, dtype=torch.float64)
            drawn.append(bound * (2 * uniform - 1))
        self.weights = torch.nn.Parameter(torch.cat(drawn).to(device=device, dtype=dtype))

    def forward(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """[N, I] to [N, O], both of the weights' type and device; ``live`` as in `luxel.render.ops.field.mlp.mlp`.

        Raises:
            ValueError: shape, type or device does not fit.
        """
        sizes = self.network[:4]
        chosen = self.activation, self.output_activation
        return mlp(x, self.weights, *sizes, *chosen, precise=self.precise, live=live)

    def with_directions(
        self, features: Tensor, directions: Tensor, live: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The result of `luxel.render.ops.field.colour_network.colour_network` for features and directions."""
        _, width, hidden_layers, outputs = self.network[:4]
        return colour_network(
            features,
            directions,
            self.weights,
            width,
            hidden_layers,
            outputs,
            self.activation,
            self.output_activation,
            precise=self.precise,
            live=live,
        )

    def joins_directions(self) -> bool:
        """Whether `with_directions` is one kernel, which skips the rows past a live count."""
        device = self.weights.device
        return device.type == "cpu" or computed_anew(device, self.network._replace(precise=self.precise))

    def matrices(self, weights: Tensor | None = None) -> list[Tensor]:
        """Views of the weights as matrices [its outputs, its inputs], first layer first.

        Args:
            weights: laid out as its own, [P]; None: its own.
        """
        shapes = self.network.shapes()
        given = self.weights if weights is None else weights
        parts = given.split([after * before for after, before in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def extra_repr(self) -> str:
        """The sizes and activations, for print."""
        inputs, width, hidden_layers, outputs, *_ = self.network
        return f"{inputs} -> {width} x {hidden_layers} ({self.activation}) -> {outputs} ({self.output_activation})"
