"""OBJ meshes: vertices with colours, and faces of all groups; written with a texture too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.mesh import Mesh, MeshFormat, Polygons, png_of

LINES_PER_CHUNK = 1 << 16
MATERIAL = "surface"  # its name


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


def obj_chunks(mesh: Mesh, path: Path) -> Iterator[bytes]:
    """The text of a file: ``v x y z r g b`` with colours in [0, 1], then ``f a b c`` with indices from 1.

    With a texture ``v x y z`` and ``vt u v`` from the bottom left corner, ``f a/a b/b c/c``, and the name of the file
    of the material.
    """
    xyz = mesh.xyz.astype(np.float64)
    if mesh.texture is None:
        yield b"# x y z r g b, colours in [0, 1]\n"
        yield from _lines("v %.9g %.9g %.9g %.4g %.4g %.4g\n", np.concatenate([xyz, mesh.rgb / 255], axis=1))
        yield from _lines("f %d %d %d\n", mesh.faces + 1)
        return
    yield f"mtllib {path.with_suffix('.mtl').name}\nusemtl {MATERIAL}\n".encode()
    yield from _lines("v %.9g %.9g %.9g\n", xyz)
    yield from _lines("vt %.9g %.9g\n", mesh.texture.uv.astype(np.float64) * [1, -1] + [0, 1])
    yield from _lines("f %d/%d %d/%d %d/%d\n", np.repeat(mesh.faces + 1, 2, axis=1))


def obj_beside(mesh: Mesh, path: Path) -> dict[Path, bytes]:
    """The material and the image of a textured mesh; the colours contain the light, so that none is added."""
    assert mesh.texture is not None
    image = path.with_suffix(".png")
    material = f"newmtl {MATERIAL}\nKa 0 0 0\nKd 1 1 1\nKs 0 0 0\nillum 0\nmap_Kd {image.name}\n"
    return {path.with_suffix(".mtl"): material.encode(), image: png_of(mesh.texture.image)}


def _lines(form: str, table: np.ndarray) -> Iterator[bytes]:
    for start in range(0, len(table), LINES_PER_CHUNK):
        part = table[start : start + LINES_PER_CHUNK]
        yield (form * len(part) % tuple(part.ravel().tolist())).encode()


OBJ = MeshFormat(".obj", obj_polygons, obj_chunks, obj_beside, textured=True)
