"""Makes the fields and networks that a configuration describes."""

from __future__ import annotations

from luxel.render.fields.config import FieldConfig
from luxel.render.fields.encodings import encoding_of
from luxel.render.fields.nets.field import Field
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.fields.peers.tinycudann_field import PeerField, PeerMlp
from luxel.render.ops.field.mlp import Activation


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
    encoding = encoding_of(config, dimensions)
    network = Mlp(
        encoding.width,
        outputs,
        width=config.width,
        hidden_layers=config.hidden,
        output_activation=output_activation,
        precise=config.precise,
        seed=config.seed + 1,
    )
    return (Field if config.backend == "luxel" else PeerField)(encoding, network)


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
