"""Makes the field that a configuration describes."""

from __future__ import annotations

from luxel.render.fields.applications import application_type
from luxel.render.fields.config import LOG2_ENTRIES, FieldConfig
from luxel.render.fields.encodings import FrequencyEncoding, Grid, GridEncoding, growth_to
from luxel.render.fields.field import Field
from luxel.render.fields.mlp import Mlp
from luxel.render.fields.peers.tinycudann_field import PeerField, PeerMlp
from luxel.render.fields.peers.tinycudann_grid import matching_grid
from luxel.render.ops.field.mlp import Activation


def grid_of(config: FieldConfig, dimensions: int) -> Grid:
    """The levels of a configuration's grid encoding."""
    entries = LOG2_ENTRIES if config.log2_entries is None else config.log2_entries
    if config.encoding == "dense":
        return Grid.multi_resolution_dense(dimensions, log2_entries=entries)
    if config.encoding == "lowres":
        return Grid.low_resolution_dense(dimensions, log2_entries=entries)
    own = application_type(config.field).hash_growth
    growth = growth_to(16, config.finest, 16) if config.finest else own
    hashed = "blocks" if config.hashes_blocks else True
    return Grid.multi_resolution_hash(dimensions, growth, entries, hashed)


def field_of(
    config: FieldConfig, dimensions: int, outputs: int, output_activation: Activation = "none"
) -> Field:
    """An encoding of positions, then a network, with their first parameters, on the CPU.

    Args:
        config: of the field.
        dimensions: D, of a position.
        outputs: O.
        output_activation: of the result.
    """
    by_luxel = config.backend == "luxel"
    if config.encoding == "frequency":
        encoding = FrequencyEncoding(dimensions, config.frequencies)
    else:
        grid = grid_of(config, dimensions)
        encoding = GridEncoding(
            grid if by_luxel else matching_grid(grid), seed=config.seed, half_tables=not config.precise
        )
    network = Mlp(
        encoding.width,
        outputs,
        width=config.width,
        hidden_layers=config.hidden,
        output_activation=output_activation,
        precise=config.precise,
        seed=config.seed + 1,
    )
    if isinstance(encoding, GridEncoding) and not by_luxel:
        return PeerField(encoding, network)
    return Field(encoding, network)


def mlp_of(config: FieldConfig, inputs: int, outputs: int) -> Mlp:
    """A second network, of one hidden layer more, with its first parameters, on the CPU.

    Args:
        config: of the field.
        inputs: I.
        outputs: O.
    """
    return (Mlp if config.backend == "luxel" else PeerMlp)(
        inputs,
        outputs,
        width=config.width,
        hidden_layers=config.hidden + 1,
        precise=config.precise,
        seed=config.seed + 2,
    )
