"""A field: an encoding of the position, then a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from luxel.render.fields.drawing.snapshot import FieldSnapshot, QueryObserver, Snapshot
from luxel.render.fields.encodings import FrequencyEncoding, GridEncoding
from luxel.render.fields.mlp import Mlp
from luxel.render.ops.field.field import field


class Field(nn.Module):
    """Positions to O numbers: what images, distances and volumes have in common.

    Müller et al. 2022, "Instant Neural Graphics Primitives", figure 3. A grid and its network run as one stage,
    `luxel.render.ops.field.field.field`, unless the positions ask for a gradient or the sizes are not
    covered. Nobody sees the difference but in time: on a GPU set the encoding's ``half_tables``, the fastest.

    Args:
        encoding: of positions.
        network: from what the encoding gives to the result. On a GPU it computes in half unless it is ``precise``, and
            a caller whose gradients are small scales its loss.
        coherent: whether neighbouring positions are mostly neighbours in space, as samples along rays are: a GPU need
            not order them first. An attribute of the same name says so from then on.

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
        """The field as it is now, for the many calls of a picture: coherent positions [N, D] to [N, O]. No gradients.

        What a call would make of the parameters, a table in half, is made once. A second argument, how many positions
        are wanted, may be given: see `luxel.render.fields.drawing.snapshot.FieldSnapshot`.
        """
        if not isinstance(self.encoding, GridEncoding):
            return torch.no_grad()(self._forward_any)
        return FieldSnapshot(self)

    def forward(self, x: Tensor, coherent: bool | None = None) -> Tensor:
        """The field at positions.

        Args:
            x: as the encoding takes them, [..., D], of the network's type and device.
            coherent: of these positions; None: as of all.

        Returns:
            [..., O].

        Raises:
            ValueError: shape, type or device of x does not fit.
        """
        encoding, network = self.encoding, self.network
        in_order = self.coherent if coherent is None else coherent
        if isinstance(encoding, GridEncoding):
            found = field(
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
            found = network(encoding(x).flatten(0, -2))
        return found.reshape(*x.shape[:-1], found.shape[-1])

    def _forward_any(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """All rows, whatever is wanted."""
        return self(x)
