"""A field: an encoding of the position, then a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from luxel.render.fields.drawing.snapshot import FieldSnapshot, QueryObserver, Snapshot
from luxel.render.fields.encodings import FrequencyEncoding, GridEncoding
from luxel.render.fields.mlp import Mlp
from luxel.render.ops.field.field import field


class Field(nn.Module):
    """An encoding and a network that map positions to O numbers: the common part of all applications.

    Müller et al. 2022, "Instant Neural Graphics Primitives", figure 3. A grid and its network run as one stage,
    `luxel.render.ops.field.field.field`, unless the positions need a gradient or the sizes are not covered; results
    are the same. On a GPU it is fastest with the encoding's ``half_tables``.

    Args:
        encoding: of positions.
        network: from the encoding to the result. On a GPU it computes in half precision unless it is ``precise``, so
            that the loss must be scaled where gradients are small.
        coherent: whether neighbouring rows are mostly neighbours in space, as samples along rays are, so that a GPU
            need not sort them first; also an attribute.

    Raises:
        ValueError: the network takes another number of inputs than the encoding gives.
    """

    def __init__(
        self, encoding: GridEncoding | FrequencyEncoding, network: Mlp, coherent: bool = False
    ) -> None:
        super().__init__()
        if encoding.width != network.network.inputs:
            raise ValueError(
                f"Field: the encoding gives {encoding.width} numbers, the network takes {network.network.inputs}"
            )
        self.encoding, self.network, self.coherent = encoding, network, coherent
        self.observers: list[QueryObserver] = []

    def snapshot(self) -> Snapshot:
        """The field with its present parameters, for the many calls of an image: coherent positions [N, D] to [N, O].

        No gradients. The table is converted to half once, not at each call. A second argument may give the number of
        leading positions that count, int32 [1]: see `luxel.render.fields.drawing.snapshot.FieldSnapshot`.
        """
        if not isinstance(self.encoding, GridEncoding):
            return torch.no_grad()(self._forward_any)
        return FieldSnapshot(self)

    def forward(self, x: Tensor, coherent: bool | None = None) -> Tensor:
        """The field at positions.

        Args:
            x: as the encoding takes them, [..., D], of the network's type and device.
            coherent: as the attribute, for these positions; None: the attribute.

        Returns:
            [..., O].

        Raises:
            ValueError: shape, type or device of x does not fit.
        """
        encoding, network = self.encoding, self.network
        in_order = self.coherent if coherent is None else coherent
        if isinstance(encoding, GridEncoding):
            out = field(
                encoding.rows(x),
                encoding.table,
                network.weights,
                encoding.grid.offsets,
                encoding.grid.scales,
                encoding.grid.hashed,
                *network.network[1:4],
                network.activation,
                network.output_activation,
                half_table=encoding.half_table(),
                precise=network.precise,
                sort=False if in_order else None,
            )
        else:
            out = network(encoding(x).flatten(0, -2))
        return out.reshape(*x.shape[:-1], out.shape[-1])

    def _forward_any(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """All rows, whatever the live count."""
        return self(x)
