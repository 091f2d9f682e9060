"""Encodings of positions, and the table of them: one line each; an encoding is imported on first use.

An encoding is a file that defines a subclass of `luxel.render.fields.encodings.encoding.Encoding` and a function that
makes it of a configuration and the number of dimensions.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Literal

# Name on the command line and in files: module and function.
ENCODINGS = {
    "hash": "luxel.render.fields.encodings.grid_encoding:grid_encoding",
    "dense": "luxel.render.fields.encodings.grid_encoding:grid_encoding",
    "lowres": "luxel.render.fields.encodings.grid_encoding:grid_encoding",
    "frequency": "luxel.render.fields.encodings.frequency:frequency_encoding",
}

if TYPE_CHECKING:
    from luxel.render.fields.config import FieldConfig
    from luxel.render.fields.encodings.encoding import Encoding

    EncodingName = str
else:
    EncodingName = Literal[tuple(ENCODINGS)]


def encoding_of(config: FieldConfig, dimensions: int) -> Encoding:
    """The encoding that a configuration names, with its first parameters, on the CPU.

    Args:
        config: of the field.
        dimensions: D, of a position.
    """
    module, _, function = ENCODINGS[config.encoding].partition(":")
    return getattr(importlib.import_module(module), function)(config, dimensions)
