"""OBJ meshes: vertices with colours, and faces of all groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.mesh import Mesh, MeshFormat, Polygons

LINES_PER_CHUNK = 1 << 16


def obj_polygons(path: Path, data: bytes) -> Polygons:
    """Vertices, colours and triangles of an OBJ file; polygons become triangle fans.

    Raises:
        CaptureError: a vertex or a face is invalid.
    """
    vertices: list[list[bytes]] = []
    faces: list[tuple[int, int, int]] = []
    text = data.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0] not in (b"v", b"f"):
            continue
        try:
            if words[0] == b"v":
                vertices.append(words[1:])
                continue
            corners = [int(word.split(b"/", 1)[0]) for word in words[1:]]
            if len(corners) < 3 or 0 in corners:
                raise ValueError
        except ValueError:
            shown = line[:60].decode("latin-1")
            raise CaptureError(
                f"{path}: line {number} is not a face of three or more vertex numbers from 1: {shown!r}.",
                "Export the mesh again.",
            ) from None
        ring = [c - 1 if c > 0 else len(vertices) + c for c in corners]
        faces += [(ring[0], ring[k], ring[k + 1]) for k in range(1, len(ring) - 1)]
    widths = {len(v) for v in vertices}
    try:
        if vertices and min(widths) < 3:
            raise ValueError
        xyz = np.array([v[:3] for v in vertices], dtype=np.float64).reshape(-1, 3)
        coloured = widths == {6} or widths == {7}  # x y z [w] r g b
        rgb = np.array([v[-3:] for v in vertices], dtype=np.float64) if coloured else None
    except ValueError:
        raise CaptureError(
            f"{path}: a vertex does not have three numbers.", "Export the mesh again."
        ) from None
    if rgb is not None:
        full = 1.0 if np.nan_to_num(rgb).max(initial=0) <= 1 else 255.0
        rgb = np.clip(np.nan_to_num(rgb) * (255 / full) + 0.5, 0, 255).astype(np.uint8)
    try:
        return xyz, rgb, np.array(faces, dtype=np.int64).reshape(-1, 3)
    except OverflowError:
        raise CaptureError(
            f"{path}: a face has a vertex number of more than 64 bits.", "Export the mesh again."
        ) from None


def obj_chunks(mesh: Mesh) -> Iterator[bytes]:
    """The text of a file: ``v x y z r g b`` with colours in [0, 1], then ``f a b c`` with indices from 1."""
    yield b"# x y z r g b, colours in [0, 1]\n"
    table = np.concatenate([mesh.xyz.astype(np.float64), mesh.rgb / 255], axis=1)
    yield from _lines("v %.9g %.9g %.9g %.4g %.4g %.4g\n", table)
    yield from _lines("f %d %d %d\n", mesh.faces + 1)


def _lines(form: str, table: np.ndarray) -> Iterator[bytes]:
    for start in range(0, len(table), LINES_PER_CHUNK):
        part = table[start : start + LINES_PER_CHUNK]
        yield (form * len(part) % tuple(part.ravel().tolist())).encode()


OBJ = MeshFormat(".obj", obj_polygons, obj_chunks)
