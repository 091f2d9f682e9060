"""Scene files as other programs write them, made of arrays without luxel's writers."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

GLTF = "KHR_gaussian_splatting"
SH_C1 = 0.4886025119029199


def some_gaussians(count: int = 40, degree: int = 1, seed: int = 3) -> dict[str, np.ndarray]:
    """Columns of a PLY file of 3DGS, float32 by name."""
    rng = np.random.default_rng(seed)
    rest = 3 * ((degree + 1) ** 2 - 1)
    return {
        **{axis: rng.normal(size=count) for axis in "xyz"},
        **{f"n{axis}": np.zeros(count) for axis in "xyz"},
        **{f"f_dc_{i}": rng.normal(size=count) * 0.5 for i in range(3)},
        **{f"f_rest_{i}": rng.normal(size=count) * 0.1 for i in range(rest)},
        "opacity": rng.normal(size=count) * 2,
        **{f"scale_{i}": rng.normal(-3, 0.5, count) for i in range(3)},
        **{f"rot_{i}": rng.normal(size=count) for i in range(4)},
    }


def write_ply(
    path: Path,
    columns: Mapping[str, np.ndarray],
    *,
    kind: str = "binary_little_endian",
    comments: Iterable[str] = (),
    before: Iterable[str] = (),
    after: bytes = b"",
    types: Mapping[str, str] | None = None,
) -> Path:
    """A PLY file of vertices.

    Args:
        path: of the file.
        columns: by name, [N].
        kind: ascii, binary_little_endian or binary_big_endian.
        comments: of the header, after its second line.
        before: lines of the header after the properties, such as further elements.
        after: bytes of the further elements.
        types: numpy types of columns that are not float32.
    """
    names = {"f4": "float", "f8": "double", "u1": "uchar", "i4": "int"}
    kinds = {name: (types or {}).get(name, "f4") for name in columns}
    count = len(next(iter(columns.values())))
    lines = [
        "ply",
        f"format {kind} 1.0",
        *(f"comment {text}" for text in comments),
        f"element vertex {count}",
    ]
    lines += [f"property {names[kinds[name]]} {name}" for name in columns]
    head = ("\n".join([*lines, *before, "end_header"]) + "\n").encode()
    if kind == "ascii":
        rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
        body = "".join(" ".join(map(repr, row)) + "\n" for row in rows).encode()
    else:
        order = ">" if kind == "binary_big_endian" else "<"
        table = np.empty(count, [(name, order + kinds[name]) for name in columns])
        for name, values in columns.items():
            table[name] = values
        body = table.tobytes()
    path.write_bytes(head + body + after)
    return path


def spz(
    count: int,
    degree: int,
    *,
    version: int = 4,
    flags: int = 0,
    extensions: Iterable[tuple[int, bytes]] = (),
    seed: int = 1,
) -> bytes:
    """A file of Niantic's SPZ with random content; centres have 12 fraction bits."""
    rng = np.random.default_rng(seed)
    fixed = rng.integers(-(1 << 13), 1 << 13, (count, 3)).astype("<i4")
    largest = rng.integers(0, 4, count, dtype=np.uint32) << np.uint32(30)
    packed = largest | rng.integers(0, 1 << 30, count, dtype=np.uint32) & np.uint32(0x2FFBFEFF)
    arrays = [
        fixed.view(np.uint8).reshape(count, 3, 4)[..., :3].tobytes(),
        rng.integers(0, 256, count, dtype=np.uint8).tobytes(),
        rng.integers(0, 256, (count, 3), dtype=np.uint8).tobytes(),
        rng.integers(60, 140, (count, 3), dtype=np.uint8).tobytes(),
        packed.astype("<u4").tobytes()
        if version > 2
        else rng.integers(64, 192, 3 * count, dtype=np.uint8).tobytes(),
        rng.integers(0, 256, (count, 3 * ((degree + 1) ** 2 - 1)), dtype=np.uint8).tobytes(),
    ]
    records = b"".join(struct.pack("<2I", kind, len(data)) + data for kind, data in extensions)
    flags |= 2 if records else 0
    if version < 4:
        head = struct.pack("<4s2I4B", b"NGSP", version, count, degree, 12, flags, 0)
        return gzip.compress(head + b"".join(arrays) + records)
    filled = [array for array in arrays if array]
    frames = [zstandard.ZstdCompressor().compress(array) for array in filled]
    head = struct.pack("<4s2I4B", b"NGSP", 4, count, degree, 12, flags, len(frames))
    table = b"".join(struct.pack("<2Q", len(f), len(a)) for f, a in zip(frames, filled, strict=True))
    return head + struct.pack("<I12x", 32 + len(records)) + records + table + b"".join(frames)


class Glb:
    """A .glb file that is put together part by part."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"asset": {"version": "2.0"}, "extensionsUsed": [GLTF], "scene": 0}
        self.document |= {key: [] for key in ("accessors", "bufferViews", "meshes", "nodes")}
        self.binary = b""

    def accessor(self, values: np.ndarray) -> int:
        """The number of an accessor of floats, [N] or [N, W]."""
        values = np.asarray(values, "<f4")
        views, accessors = self.document["bufferViews"], self.document["accessors"]
        views.append({"buffer": 0, "byteOffset": len(self.binary), "byteLength": values.nbytes})
        kind = "SCALAR" if values.ndim == 1 else f"VEC{values.shape[1]}"
        accessors.append(
            {"bufferView": len(views) - 1, "componentType": 5126, "count": len(values), "type": kind}
        )
        self.binary += values.tobytes()
        return len(accessors) - 1

    def mesh(self, primitive: dict[str, Any], **node: Any) -> int:
        """The number of a node with a mesh of one primitive."""
        self.document["meshes"].append({"primitives": [primitive]})
        self.document["nodes"].append({"mesh": len(self.document["meshes"]) - 1, **node})
        return len(self.document["nodes"]) - 1

    def triangle(self) -> int:
        """The number of a node with a triangle."""
        corners = self.accessor(np.eye(3))
        return self.mesh({"attributes": {"POSITION": corners}, "mode": 4})

    def gaussians(
        self,
        count: int = 30,
        *,
        about: dict[str, Any] | None = None,
        more: Mapping[str, np.ndarray] = {},
        **node: Any,
    ) -> int:
        """The number of a node with Gaussians.

        Args:
            count: of them.
            about: properties of the extension besides kernel and colour space.
            more: further attributes.
            node: further properties of the node.
        """
        rng = np.random.default_rng(count)
        quats = rng.normal(size=(count, 4))
        columns = {
            "POSITION": rng.normal(size=(count, 3)),
            f"{GLTF}:ROTATION": quats / np.linalg.norm(quats, axis=1, keepdims=True),
            f"{GLTF}:SCALE": np.exp(rng.normal(-3, 0.3, (count, 3))),
            f"{GLTF}:OPACITY": rng.uniform(0.1, 0.9, count),
            f"{GLTF}:SH_DEGREE_0_COEF_0": rng.normal(size=(count, 3)),
            **more,
        }
        attributes = {name: self.accessor(values) for name, values in columns.items()}
        extension = {"kernel": "ellipse", "colorSpace": "srgb_rec709_display", **(about or {})}
        primitive = {"attributes": attributes, "mode": 0, "extensions": {GLTF: extension}}
        return self.mesh(primitive, **node)

    def write(self, path: Path, *scenes: list[int]) -> Path:
        """Writes the file; without ``scenes`` all nodes are of one."""
        nodes = list(range(len(self.document["nodes"])))
        self.document["scenes"] = [{"nodes": each} for each in scenes or [nodes]]
        self.document["buffers"] = [{"byteLength": len(self.binary)}]
        text = json.dumps(self.document).encode()
        text += b" " * (-len(text) % 4)
        head = struct.pack("<4sIII4s", b"glTF", 2, 28 + len(text) + len(self.binary), len(text), b"JSON")
        path.write_bytes(head + text + struct.pack("<I4s", len(self.binary), b"BIN\0") + self.binary)
        return path
