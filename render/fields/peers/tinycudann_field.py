"""Fields and networks that tiny-cuda-nn evaluates where it is available, with luxel's parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from luxel.render.backends import tinycudann
from luxel.render.fields.encodings.grid_encoding import GridEncoding
from luxel.render.fields.nets.field import Field
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.fields.nets.point_function import PlainSnapshot, Snapshot
from luxel.render.ops.field.colour_inputs import colour_inputs


class PeerMlp(Mlp):
    """An `Mlp` that tiny-cuda-nn computes where it is available, and otherwise luxel."""

    by_luxel = False  # True after `evaluate_by_luxel`: never tiny-cuda-nn
    _made: tuple[torch.device, tinycudann.Peer | None] | None = None

    def forward(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """As `Mlp.forward`, but differentiable once only; all rows are evaluated whatever the live count."""
        peer = None if not len(x) else self._used(x.device)
        return super().forward(x, live) if peer is None else peer(x, peer.parameters(self))

    def with_directions(
        self, features: Tensor, directions: Tensor, live: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `Mlp.with_directions`."""
        if self._used(features.device) is None:
            return super().with_directions(features, directions, live)
        inputs, density = colour_inputs(features, directions, live)
        return self(inputs), density

    def joins_directions(self) -> bool:
        """As `Mlp.joins_directions`; False for tiny-cuda-nn."""
        return self._used(self.weights.device) is None and super().joins_directions()

    def _used(self, device: torch.device) -> tinycudann.Peer | None:
        return None if self.by_luxel else self._peer(device)

    def _peer(self, device: torch.device) -> tinycudann.Peer | None:
        if self._made is None or self._made[0] != device:
            sizes = self.network
            options = tinycudann.network_options(self)

            def make(library: Any) -> tinycudann.Peer:
                return tinycudann.Peer(library.Network(sizes.inputs, sizes.outputs, options), self)

            self._made = device, tinycudann.make_peer(make, device)
        return self._made[1]


class PeerField(Field):
    """A `Field` that tiny-cuda-nn evaluates where it is available, and otherwise luxel.

    Args:
        encoding: its grid is one of `luxel.render.fields.encodings.tinycudann_grid.matching_grid`.
        network: luxel's.
        coherent: for luxel's kernels.
    """

    by_luxel = False  # True after `evaluate_by_luxel`: never tiny-cuda-nn
    encoding: GridEncoding
    _made: tuple[torch.device, tinycudann.Peer | None] | None = None

    def snapshot(self) -> Snapshot:
        """As `Field.snapshot`."""
        peer = None if self.by_luxel else self._peer(self.encoding.table.device)
        if peer is None:
            return super().snapshot()
        with torch.no_grad():
            parameters = peer.parameters(self.network, self.encoding.table)

        def evaluate(x: Tensor) -> Tensor:
            return peer(tinycudann.clamp_positions(x), parameters) if len(x) else x.new_empty(0, peer.outputs)

        return PlainSnapshot(evaluate)

    def forward(self, x: Tensor, coherent: bool | None = None) -> Tensor:
        """As `Field.forward`."""
        rows = self.encoding.rows(x)
        by_x = rows.requires_grad and torch.is_grad_enabled()
        peer = None if self.by_luxel or by_x or not len(rows) else self._peer(x.device)
        if peer is None:
            return super().forward(x, coherent)
        out = peer(tinycudann.clamp_positions(rows), peer.parameters(self.network, self.encoding.table))
        return out.reshape(*x.shape[:-1], peer.outputs)

    def _peer(self, device: torch.device) -> tinycudann.Peer | None:
        if self._made is None or self._made[0] != device:
            entries = self.encoding.table.numel()

            def make(library: Any) -> tinycudann.Peer:
                return tinycudann.Peer(
                    tinycudann.native_field(library, self.encoding.grid, self.network), self.network, entries
                )

            self._made = device, tinycudann.make_peer(make, device)
        return self._made[1]


def evaluate_by_luxel(fields: nn.Module) -> None:
    """Makes luxel's own kernels evaluate all fields in a module from now on."""
    for module in fields.modules():
        if isinstance(module, PeerField | PeerMlp):
            module.by_luxel = True
