"""Snapshots of a field's parameters, prepared for the many queries of an image."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import torch
from torch import Tensor

from luxel.render.fields.encodings import GridEncoding
from luxel.render.ops.field.field import covered
from luxel.render.ops.field.field import field as field_stage


class QueryObserver(Protocol):
    """Observes the queries of a field; frames are not captured while there is one."""

    def table_prepared(self) -> None:
        """A table was converted for queries."""
        ...

    def queried(self, positions: Tensor, live: Tensor | None) -> None:
        """The field is evaluated at positions [N, D], of which the first ``live`` count."""
        ...


class FieldSnapshot:
    """A field on a grid whose table is converted to float16 once: coherent positions [N, D] to [N, O]. No gradients.

    Args:
        field: a `luxel.render.fields.field.Field`, whose weights are used in place, as is a table in float32.
    """

    def __init__(self, field: Any) -> None:
        encoding = field.encoding
        assert isinstance(encoding, GridEncoding)
        self._field, self._half = field, encoding.half_table()
        self._encoding, self._network = encoding, field.network
        self._take_parameters()
        self._notify()

    def fits(self, field: Any) -> bool:
        """Whether `renew` can make a snapshot of this field: it is the same field, on the same device."""
        if (
            field is not self._field
            or field.encoding is not self._encoding
            or field.network is not self._network
        ):
            return False
        table, half = self._encoding.table, self._half
        if half is None:
            return not (self._encoding.half_tables and table.is_cuda)
        return self._encoding.half_tables and half.device == table.device and half.shape == table.shape

    def renew(self) -> None:
        """Updates the snapshot to the present parameters, in the same memory."""
        self._take_parameters()
        if self._half is not None:
            self._half.copy_(self._table)
        self._notify()

    def key(self) -> Hashable:
        """Addresses of its parameters, on which captured work depends; None while the field is observed."""
        if self._field.observers:
            return None
        tensors = [t for t in (self._table, self._weights, self._half) if t is not None]
        return tuple((t.data_ptr(), tuple(t.shape), t.dtype) for t in tensors)

    def supports_live_count(self) -> bool:
        """Whether a live count saves the work of the other rows: for all sizes that the operation `field` covers."""
        grid, network = self._encoding.grid, self._network
        sizes = network.network._replace(precise=network.precise)
        return covered(self._table.device, grid.dimensions, grid.features, sizes)

    def __call__(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """The field at positions [N, D], of which only the first ``live`` (int32 [1]) count: [N, O]."""
        for observer in self._field.observers:
            observer.queried(x, live)
        grid, network = self._encoding.grid, self._network
        width, hidden_layers, outputs = network.network[1:4]
        return field_stage(
            x,
            self._table,
            self._weights,
            grid.offsets,
            grid.scales,
            grid.hashed,
            width,
            hidden_layers,
            outputs,
            network.activation,
            network.output_activation,
            half_table=self._half,
            precise=network.precise,
            sort=False,
            live=live,
        )

    def _take_parameters(self) -> None:
        self._table, self._weights = self._encoding.table.detach(), self._network.weights.detach()

    def _notify(self) -> None:
        for observer in self._field.observers:
            observer.table_prepared()


Snapshot = Callable[..., Tensor]  # a `FieldSnapshot`, or a function of a field without a grid


@torch.no_grad()
def refreshed_snapshot(field: Any, before: Snapshot | None) -> Snapshot:
    """A snapshot of the present field, in the memory of an earlier one if that fits, so that captured work stays valid.

    Args:
        field: a `luxel.render.fields.field.Field`, or an object with a ``snapshot`` like its.
        before: the earlier snapshot.
    """
    if isinstance(before, FieldSnapshot) and before.fits(field):
        before.renew()
        return before
    return field.snapshot()


def supports_live_count(snapshot: Snapshot) -> bool:
    """`FieldSnapshot.supports_live_count`; False for all others."""
    return isinstance(snapshot, FieldSnapshot) and snapshot.supports_live_count()


def capture_key_of(snapshot: Snapshot) -> Hashable:
    """`FieldSnapshot.key`; None, with which nothing is captured, for all others."""
    return snapshot.key() if isinstance(snapshot, FieldSnapshot) else None
