"""A field as it is at one time, for the many queries of a picture."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import torch
from torch import Tensor

from luxel.render.fields.encodings import GridEncoding
from luxel.render.ops.field.field import covered
from luxel.render.ops.field.field import field as field_stage


class Watcher(Protocol):
    """Who is told what a field is asked; frames that are watched are not captured."""

    def made_table(self) -> None:
        """A table was made ready for queries."""
        ...

    def asked(self, positions: Tensor, live: Tensor | None) -> None:
        """Positions [N, D], of which the first ``live`` are wanted."""
        ...


class FrozenField:
    """A field on a grid with its table in half made once: coherent positions [N, D] to [N, O]. No gradients.

    Args:
        field: a `luxel.render.fields.field.Field`, whose weights are read where they are, and in float the table too.
    """

    def __init__(self, field: Any) -> None:
        encoding = field.encoding
        assert isinstance(encoding, GridEncoding)
        self._field, self._half = field, encoding.half_table()
        self._encoding, self._network = encoding, field.network
        self._point()
        self._tell()

    def fits(self, field: Any) -> bool:
        """Whether `renew` makes it this field: the same one, on the same device."""
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
        """Takes the parameters as they are now, in the same memory."""
        self._point()
        if self._half is not None:
            self._half.copy_(self._table)
        self._tell()

    def key(self) -> Hashable:
        """Where its parameters are: captured work that asks it is good for these alone. None: it is watched."""
        if self._field.watchers:
            return None
        tensors = [t for t in (self._table, self._weights, self._half) if t is not None]
        return tuple((t.data_ptr(), tuple(t.shape), t.dtype) for t in tensors)

    def supports_live_count(self) -> bool:
        """Whether rows that are not wanted cost next to nothing, as of sizes that the stage field covers."""
        grid, network = self._encoding.grid, self._network
        sizes = network.network._replace(precise=network.precise)
        return covered(self._table.device, grid.dimensions, grid.features, sizes)

    def __call__(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """At positions [N, D], of which only the first ``live`` (int32 [1]) are wanted: [N, O]."""
        for watcher in self._field.watchers:
            watcher.asked(x, live)
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

    def _point(self) -> None:
        self._table, self._weights = self._encoding.table.detach(), self._network.weights.detach()

    def _tell(self) -> None:
        for watcher in self._field.watchers:
            watcher.made_table()


Frozen = Callable[..., Tensor]  # a `FrozenField`, or what a field without a grid has in its place


@torch.no_grad()
def renewed(field: Any, before: Frozen | None) -> Frozen:
    """The field as it is now: in the memory of an earlier one where that fits, so that captured work goes on.

    Args:
        field: a `luxel.render.fields.field.Field`, or what has ``frozen`` as it does.
        before: what this gave before.
    """
    if isinstance(before, FrozenField) and before.fits(field):
        before.renew()
        return before
    return field.frozen()


def supports_live_count(frozen: Frozen) -> bool:
    """Whether it is a `FrozenField` that does."""
    return isinstance(frozen, FrozenField) and frozen.supports_live_count()


def key_of(frozen: Frozen) -> Hashable:
    """Of a `FrozenField`; None, of which nothing is to be captured, of all others."""
    return frozen.key() if isinstance(frozen, FrozenField) else None
