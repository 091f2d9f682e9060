"""A field: an encoding of the position, then a small network."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import torch
from torch import Tensor, nn

from luxel.render.fields.encodings.encoding import Encoding
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.fields.nets.point_function import PointFunction, Snapshot


class QueryObserver(Protocol):
    """Observes the queries of a field; frames are not captured while there is one."""

    def table_prepared(self) -> None:
        """A table was converted for queries."""
        ...

    def queried(self, positions: Tensor, live: Tensor | None) -> None:
        """The field is evaluated at positions [N, D], of which the first ``live`` count."""
        ...


class Field(nn.Module):
    """An encoding and a network that map positions to O numbers: the `PointFunction` of all applications.

    Müller et al. 2022, "Instant Neural Graphics Primitives", figure 3. Where the encoding has a stage for both, it
    and its network run as one operation. On a GPU a grid is fastest with ``half_tables``.

    Args:
        encoding: of positions.
        network: from the encoding to the result. On a GPU it computes in half precision unless it is ``precise``, so
            that the loss must be scaled where gradients are small.
        coherent: whether neighbouring rows are mostly neighbours in space, as samples along rays are, so that a GPU
            need not sort them first; also an attribute.

    Raises:
        ValueError: the network takes another number of inputs than the encoding gives.
    """

    def __init__(self, encoding: Encoding, network: Mlp, coherent: bool = False) -> None:
        super().__init__()
        if encoding.width != network.network.inputs:
            raise ValueError(
                f"Field: the encoding gives {encoding.width} numbers, the network takes {network.network.inputs}"
            )
        self.encoding, self.network, self.coherent = encoding, network, coherent
        self.observers: list[QueryObserver] = []

    def snapshot(self) -> Snapshot:
        """The field with its present parameters; tables are converted to half once, not at each call."""
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
        stage = self.stage()
        if stage is not None:
            return stage.forward(x, self.coherent if coherent is None else coherent)
        out = self.network(self.encoding(x).flatten(0, -2))
        return out.reshape(*x.shape[:-1], out.shape[-1])

    def stage(self) -> PointFunction | None:
        """Encoding and network as one operation, where the encoding has one."""
        return self.encoding.stage(self.network)


class FieldSnapshot:
    """A snapshot of a field, whose queries its observers see.

    Args:
        field: its weights are used in place; tables are converted if its stage converts them.
    """

    def __init__(self, field: Field) -> None:
        self._field, self._parts = field, (field.encoding, field.network)
        stage = field.stage()
        self._of_stage = None if stage is None else stage.snapshot()
        self._notify()

    def fits(self, function: object) -> bool:
        """Whether it is the same field, with the same encoding and network, on the same device."""
        field = self._field
        if function is not field or self._parts != (field.encoding, field.network):
            return False
        return self._of_stage is None or self._of_stage.fits(field.stage())

    def renew(self) -> None:
        """Updates the snapshot to the present parameters, in the same memory."""
        if self._of_stage is not None:
            self._of_stage.renew()
        self._notify()

    def key(self) -> Hashable:
        """Of the stage; None without one and while the field is observed."""
        return None if self._of_stage is None or self._field.observers else self._of_stage.key()

    def supports_live_count(self) -> bool:
        """Whether a live count saves work: as of the stage."""
        return self._of_stage is not None and self._of_stage.supports_live_count()

    def __call__(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """The field at coherent positions [N, D], of which the first ``live`` (int32 [1]) count: [N, O]."""
        for observer in self._field.observers:
            observer.queried(x, live)
        if self._of_stage is not None:
            return self._of_stage(x, live)
        with torch.no_grad():
            return self._field.forward(
                x, coherent=True
            )  # not a call, of which hooks would tell observers again

    def _notify(self) -> None:
        for observer in self._field.observers:
            for _ in self._field.encoding.tables:
                observer.table_prepared()
