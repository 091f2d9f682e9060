"""Writing of glTF 2.0 in one binary file: the container, and what a file says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from luxel.scenes.files.gltf.document import BINARY_CHUNK, CHUNK, HEADER, JSON_CHUNK, MAGIC, VERSION
from luxel.scenes.files.scene_facts import facts_to
from luxel.scenes.files.scene_format import SceneFacts

LARGEST = (1 << 32) - 1  # bytes of a file: its header has 32 bits for them
OWN_EXTRAS = "luxel"  # key of the extras of the asset
ARRAY, ELEMENTS = 34962, 34963  # targets of buffer views: attributes of vertices, and their numbers


def about_asset(facts: SceneFacts) -> dict[str, Any]:
    """The asset of a document, with the facts of a scene in the axes of glTF."""
    return {"version": "2.0", "generator": "luxel", "extras": {OWN_EXTRAS: facts_to(facts)}}


def as_text(document: dict[str, Any]) -> bytes:
    """A document as the JSON chunk, padded to four bytes."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return text + b" " * (-len(text) % 4)


def glb_size(text: bytes, length: int) -> int:
    """Bytes of a file with a JSON chunk and ``length`` bytes of data."""
    return HEADER.size + 2 * CHUNK.size + len(text) + length


def glb_chunks(text: bytes, length: int, data: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """A file, piece by piece.

    Args:
        text: see `as_text`.
        length: bytes of the data, a multiple of four.
        data: of the binary chunk.
    """
    yield HEADER.pack(MAGIC, VERSION, glb_size(text, length)) + CHUNK.pack(len(text), JSON_CHUNK) + text
    yield CHUNK.pack(length, BINARY_CHUNK)
    yield from data
