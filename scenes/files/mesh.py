"""Triangle meshes with vertex colours, written as PLY and as OBJ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import write_atomically

LINES = 1 << 16  # of an OBJ formatted at a time


@dataclass
class Mesh:
    """Coloured triangles; seen from outside their corners run anticlockwise.

    Args:
        xyz: vertices in world coordinates, float32 [V, 3].
        rgb: their colours, uint8 [V, 3].
        faces: numbers of the vertices of each triangle, int32 [F, 3].
    """

    xyz: np.ndarray
    rgb: np.ndarray
    faces: np.ndarray


def save_mesh(path: str | Path, mesh: Mesh) -> None:
    """Writes a mesh as .ply (binary) or .obj, by the suffix, through a temporary file.

    Raises:
        CaptureError: the suffix is another, or there is no permission or no room.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".ply":
            write_atomically(path, ply_chunks(mesh))
        case ".obj":
            write_atomically(path, obj_chunks(mesh))
        case other:
            raise CaptureError(
                f"{path}: a mesh cannot be written as {other or 'a file without suffix'}.",
                "Give the file the suffix .ply or .obj.",
            )


def ply_chunks(mesh: Mesh) -> Iterator[bytes]:
    """Binary little endian: x y z as float, red green blue as uchar, and faces as lists of int ``vertex_indices``."""
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(mesh.xyz)}",
        *(f"property float {axis}" for axis in "xyz"),
        *(f"property uchar {channel}" for channel in ("red", "green", "blue")),
        f"element face {len(mesh.faces)}",
        "property list uchar int vertex_indices",
        "end_header",
    ]
    yield ("\n".join(header) + "\n").encode()
    vertices = np.empty(len(mesh.xyz), [("xyz", "<f4", 3), ("rgb", "u1", 3)])
    vertices["xyz"], vertices["rgb"] = mesh.xyz, mesh.rgb
    yield vertices.tobytes()
    faces = np.empty(len(mesh.faces), [("corners", "u1"), ("index", "<i4", 3)])
    faces["corners"], faces["index"] = 3, mesh.faces
    yield faces.tobytes()


def obj_chunks(mesh: Mesh) -> Iterator[bytes]:
    """Text: ``v x y z r g b`` with colours in [0, 1], then ``f a b c`` counted from 1."""
    yield b"# x y z r g b, colours in [0, 1]\n"
    table = np.concatenate([mesh.xyz.astype(np.float64), mesh.rgb / 255], axis=1)
    yield from _lines("v %.9g %.9g %.9g %.4g %.4g %.4g\n", table)
    yield from _lines("f %d %d %d\n", mesh.faces + 1)


def _lines(form: str, table: np.ndarray) -> Iterator[bytes]:
    for start in range(0, len(table), LINES):
        part = table[start : start + LINES]
        yield (form * len(part) % tuple(part.ravel().tolist())).encode()
