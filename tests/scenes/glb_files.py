"""GLB files for tests: taken apart, changed, put together."""

from __future__ import annotations

import copy
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

EXTENSION = "KHR_gaussian_splatting"


def taken_apart(path: Path) -> tuple[dict[str, Any], bytes]:
    """The JSON document and the binary chunk of a file, read without luxel."""
    data = path.read_bytes()
    magic, version, total, length, kind = struct.unpack_from("<4sIII4s", data)
    assert (magic, version, total, kind) == (b"glTF", 2, len(data), b"JSON") and length % 4 == 0
    start = 20 + length
    size, kind = struct.unpack_from("<I4s", data, start)
    assert kind == b"BIN\0" and start + 8 + size == len(data)
    return json.loads(data[20:start]), data[start + 8 :]


def put_together(path: Path, document: dict[str, Any] | str, binary: bytes) -> Path:
    text = (document if isinstance(document, str) else json.dumps(document)).encode()
    text += b" " * (-len(text) % 4)
    binary += bytes(-len(binary) % 4)
    head = struct.pack("<4sIII4s", b"glTF", 2, 28 + len(text) + len(binary), len(text), b"JSON")
    path.write_bytes(head + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary)
    return path


def changed(path: Path, out: Path, change: Any) -> Path:
    """A copy of a file after ``change(document)``, which may return another document."""
    document, binary = taken_apart(path)
    document = copy.deepcopy(document)
    return put_together(out, change(document) or document, binary)


def with_columns(out: Path, columns: dict[str, tuple[np.ndarray, bool]], stride: int = 0) -> Path:
    """One primitive of columns [N, W] with whether they are normalised; interleaved where there is a stride."""
    types = {"f4": 5126, "u1": 5121, "i1": 5120, "u2": 5123, "i2": 5122}
    document: dict[str, Any] = {"asset": {"version": "2.0"}, "accessors": [], "bufferViews": []}
    count = len(next(iter(columns.values()))[0])
    table, blocks, place = np.zeros((count, stride), np.uint8), [], 0
    for number, (values, normalized) in enumerate(columns.values()):
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(count, -1)
        accessor = {
            "componentType": types[values.dtype.str[1:]],
            "count": count,
            "type": "SCALAR" if values.shape[1] == 1 else f"VEC{values.shape[1]}",
            "normalized": normalized,
            "bufferView": 0 if stride else number,
        }
        if stride:
            accessor["byteOffset"] = place
            table[:, place : place + raw.shape[1]] = raw
            place += raw.shape[1] + -raw.shape[1] % 4
        else:
            document["bufferViews"].append({"buffer": 0, "byteOffset": place, "byteLength": raw.size})
            blocks.append(raw.tobytes() + bytes(-raw.size % 4))
            place += len(blocks[-1])
        document["accessors"].append(accessor)
    if stride:
        blocks = [table.tobytes()]
        document["bufferViews"] = [{"buffer": 0, "byteLength": table.size, "byteStride": stride}]
    names = [name if name == "POSITION" else f"{EXTENSION}:{name}" for name in columns]
    primitive = {
        "mode": 0,
        "attributes": {name: number for number, name in enumerate(names)},
        "extensions": {EXTENSION: {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"}},
    }
    document |= {
        "meshes": [{"primitives": [primitive]}],
        "nodes": [{"mesh": 0}],
        "buffers": [{"byteLength": sum(map(len, blocks))}],
    }
    return put_together(out, document, b"".join(blocks))
