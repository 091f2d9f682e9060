"""A field: an encoding of the position, then a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from luxel.render.fields.encodings import Grid, GridEncoding
from luxel.render.fields.mlp import Mlp
from luxel.render.ops.mlp import Activation


class Field(nn.Module):
    """Positions in [0, 1]^D to O numbers: what images, distances and volumes have in common.

    Müller et al. 2022, "Instant Neural Graphics Primitives", figure 3.

    Args:
        grid: levels of the encoding.
        outputs: O, 1 to 128.
        width: of the hidden layers, 16, 32, 64 or 128.
        hidden_layers: 0 to 8.
        output_activation: of the result: "none", "relu", "softplus" or "sigmoid".
        precise: float throughout on a GPU too; otherwise the network computes in half, and a caller whose gradients are
            small scales its loss.
        seed: of table and weights, the same on every device.

    Attributes:
        encoding: the trainable grid.
        network: from its features to the result.

    Raises:
        ValueError: a size is out of range.
    """

    def __init__(
        self,
        grid: Grid,
        outputs: int,
        *,
        width: int = 64,
        hidden_layers: int = 2,
        output_activation: Activation = "none",
        precise: bool = False,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.encoding = GridEncoding(grid, seed=seed, device=device, dtype=dtype)
        self.network = Mlp(
            grid.width,
            outputs,
            width=width,
            hidden_layers=hidden_layers,
            output_activation=output_activation,
            precise=precise,
            seed=seed,
            device=device,
            dtype=dtype,
        )

    def forward(self, x: Tensor) -> Tensor:
        """The field at positions.

        Args:
            x: in [0, 1], held to it, [..., D], of the field's type and device.

        Returns:
            [..., O].

        Raises:
            ValueError: shape, type or device of x does not fit.
        """
        found = self.network(self.encoding(x).flatten(0, -2))
        return found.reshape(*x.shape[:-1], found.shape[-1])
