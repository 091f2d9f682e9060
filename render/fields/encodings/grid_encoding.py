"""Trainable features on a grid: the encodings hash, dense and lowres."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from luxel.render.fields.applications import application_type
from luxel.render.fields.config import LOG2_ENTRIES, FieldConfig
from luxel.render.fields.encodings.encoding import Encoding
from luxel.render.fields.encodings.grid import Grid, growth_to
from luxel.render.fields.encodings.tinycudann_grid import matching_grid
from luxel.render.ops.field.encode_grid import encode_grid
from luxel.render.ops.field.field import covered, field

if TYPE_CHECKING:
    from luxel.render.fields.nets.mlp import Mlp


class GridEncoding(Encoding):
    """Trainable features on a grid, interpolated at positions; see `luxel.render.ops.field.encode_grid.encode_grid`.

    Args:
        grid: its levels.
        seed: of the table, which starts uniform in [-1e-4, 1e-4] and is the same on every device.
        half_tables: on a GPU read the table in float16; parameter and gradient stay float32.
        dtype: float32, or on the CPU float64.

    Attributes:
        grid: its levels.
        table: parameter, [E, F].
        half_tables: as given.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        seed: int = 0,
        half_tables: bool = False,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.grid, self.half_tables = grid, half_tables
        self.dimensions, self.width = grid.dimensions, grid.width
        generator = torch.Generator().manual_seed(seed)
        table = torch.rand(grid.entries, grid.features, generator=generator) * 2e-4 - 1e-4
        self.table = nn.Parameter(table.to(device=device, dtype=dtype))

    @property
    def tables(self) -> tuple[nn.Parameter, ...]:
        """Its table."""
        return (self.table,)

    def forward(self, x: Tensor) -> Tensor:
        """Features of positions.

        Args:
            x: clamped to [0, 1], [..., D], of the table's type and device.

        Returns:
            Coarsest level first, [..., L * F]; 0 where x is NaN.

        Raises:
            ValueError: shape, type or device of x does not fit.
        """
        return self._encoded(x, self.table, self.half_table())

    def exact(self, x: Tensor) -> Tensor:
        """As `Encoding.exact`: the table is read in its own type, and without a gradient by it."""
        return self._encoded(x, self.table.detach(), None)

    def prepared(self) -> Callable[[Tensor], Tensor]:
        """As `Encoding.prepared`: the table is converted to half once."""
        table, half = self.table.detach(), self.half_table()
        return lambda x: self._encoded(x, table, half)

    def stage(self, network: Mlp) -> GridStage:
        """Grid and network as one stage, see `luxel.render.ops.field.field.field`."""
        return GridStage(self, network)

    def fine(self, cells: int) -> slice:
        """Columns of the levels that have more cells than this along an axis; never the coarsest level."""
        coarse = max(1, sum(scale <= cells for scale in self.grid.scales))
        return slice(coarse * self.grid.features, None)

    def rows(self, x: Tensor) -> Tensor:
        """Positions [..., D] as [N, D].

        Raises:
            ValueError: x is not [..., D].
        """
        if x.shape[-1] != self.grid.dimensions:
            raise ValueError(f"GridEncoding: x must be [..., {self.grid.dimensions}], got {list(x.shape)}")
        return x.reshape(-1, self.grid.dimensions)

    def half_table(self) -> Tensor | None:
        """The table converted to float16, [E, F], at each call; None where it is read in its own type."""
        return self.table.detach().half() if self.half_tables and self.table.is_cuda else None

    def _encoded(self, x: Tensor, table: Tensor, half: Tensor | None) -> Tensor:
        grid = self.grid
        features = encode_grid(self.rows(x), table, grid.offsets, grid.scales, grid.hashed, half)
        return features.reshape(*x.shape[:-1], self.width)


class GridStage(NamedTuple):
    """A `luxel.render.fields.nets.point_function.PointFunction` of a grid and a network.

    Müller et al. 2022, "Instant Neural Graphics Primitives", section 3; see `luxel.render.ops.field.field.field`.
    """

    encoding: GridEncoding
    network: Mlp

    def forward(self, x: Tensor, coherent: bool | None = None) -> Tensor:
        """Positions [..., D] to [..., O]; positions that are not ``coherent`` are sorted where that is faster."""
        encoding = self.encoding
        rows, half = encoding.rows(x), encoding.half_table()
        out = self.evaluated(rows, encoding.table, self.network.weights, half, False if coherent else None)
        return out.reshape(*x.shape[:-1], out.shape[-1])

    def snapshot(self) -> GridSnapshot:
        """The stage with its present parameters; the table is converted to half once."""
        return GridSnapshot(self)

    def evaluated(
        self,
        x: Tensor,
        table: Tensor,
        weights: Tensor,
        half: Tensor | None,
        sort: bool | None,
        live: Tensor | None = None,
    ) -> Tensor:
        """The operation with the sizes of the modules, on the given parameters, [N, D] to [N, O]."""
        grid, network = self.encoding.grid, self.network
        return field(
            x,
            table,
            weights,
            grid.offsets,
            grid.scales,
            grid.hashed,
            *network.network[1:4],
            network.activation,
            network.output_activation,
            half_table=half,
            precise=network.precise,
            sort=sort,
            live=live,
        )


class GridSnapshot:
    """A `luxel.render.fields.nets.point_function.Snapshot` of a stage, whose table is converted to float16 once.

    Args:
        stage: its weights are used in place, as is a table in float32.
    """

    def __init__(self, stage: GridStage) -> None:
        self._stage, self._half = stage, stage.encoding.half_table()
        self._take_parameters()

    def fits(self, function: object) -> bool:
        """Whether `renew` can make a snapshot of a stage: it is of the same modules, on the same device."""
        if function != self._stage:
            return False
        encoding, half = self._stage.encoding, self._half
        if half is None:
            return not (encoding.half_tables and encoding.table.is_cuda)
        table = encoding.table
        return encoding.half_tables and half.device == table.device and half.shape == table.shape

    def renew(self) -> None:
        """Updates the snapshot to the present parameters, in the same memory."""
        self._take_parameters()
        if self._half is not None:
            self._half.copy_(self._table)

    def key(self) -> Hashable:
        """Addresses of its parameters, on which captured work depends."""
        tensors = [t for t in (self._table, self._weights, self._half) if t is not None]
        return tuple((t.data_ptr(), tuple(t.shape), t.dtype) for t in tensors)

    def supports_live_count(self) -> bool:
        """Whether a live count saves the work of the other rows: for all sizes that the operation covers."""
        grid, network = self._stage.encoding.grid, self._stage.network
        sizes = network.network._replace(precise=network.precise)
        return covered(self._table.device, grid.dimensions, grid.features, sizes)

    def __call__(self, x: Tensor, live: Tensor | None = None) -> Tensor:
        """Coherent positions [N, D], of which only the first ``live`` (int32 [1]) count, to [N, O]."""
        return self._stage.evaluated(x, self._table, self._weights, self._half, sort=False, live=live)

    def _take_parameters(self) -> None:
        stage = self._stage
        self._table, self._weights = stage.encoding.table.detach(), stage.network.weights.detach()


def grid_encoding(config: FieldConfig, dimensions: int) -> GridEncoding:
    """The encoding of a configuration on `grid_of` it, or on the nearest grid that its backend evaluates alike."""
    grid = grid_of(config, dimensions)
    chosen = grid if config.backend == "luxel" else matching_grid(grid)
    return GridEncoding(chosen, seed=config.seed, half_tables=not config.precise)


def grid_of(config: FieldConfig, dimensions: int) -> Grid:
    """The levels of a configuration's encoding, which is hash, dense or lowres."""
    entries = LOG2_ENTRIES if config.log2_entries is None else config.log2_entries
    if config.encoding == "dense":
        return Grid.multi_resolution_dense(dimensions, log2_entries=entries)
    if config.encoding == "lowres":
        return Grid.low_resolution_dense(dimensions, log2_entries=entries)
    own = application_type(config.field).hash_growth
    growth = growth_to(16, config.finest, 16) if config.finest else own
    hashed = "blocks" if config.hashes_blocks else True
    return Grid.multi_resolution_hash(dimensions, growth, entries, hashed)
