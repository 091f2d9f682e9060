"""OBJ meshes: vertices with colours, and faces of all groups; written with a texture too."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.meshes.mesh import Mesh, MeshFormat, Polygons, Texture, png_of
from luxel.scenes.files.meshes.mesh_mtl import material_image
from luxel.scenes.files.scene_facts import comments_of

LINES_PER_CHUNK = 1 << 16
MATERIAL = "surface"  # its name


@dataclass
class _Text:
    """The lines of a file that matter: words of ``v`` and ``vt``, and corners of triangles from 0.

    Args:
        places: corner by corner of the triangles, numbers of ``vt``; -1: the corner has none.
        libraries, materials: names behind ``mtllib`` and ``usemtl``.
    """

    vertices: list[list[bytes]] = field(default_factory=list)
    texture: list[list[bytes]] = field(default_factory=list)
    faces: list[tuple[int, int, int]] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    materials: list[str] = field(default_factory=list)


def obj_polygons(path: Path, data: bytes, textures: bool = False) -> Polygons:
    """Vertices, colours and triangles of an OBJ file; polygons become triangle fans.

    Args:
        textures: read the image of its material too, see `luxel.scenes.files.meshes.mesh_mtl.material_image`. Vertices
            with several places in it are then repeated.

    Raises:
        CaptureError: a vertex or a face is invalid.
    """
    text = _parsed(path, data)
    vertices = text.vertices
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
        polygons = Polygons(xyz, rgb, np.array(text.faces, dtype=np.int64).reshape(-1, 3))
        places = np.array(text.places, dtype=np.int64).reshape(-1, 3)
    except OverflowError:
        raise CaptureError(
            f"{path}: a face has a vertex number of more than 64 bits.", "Export the mesh again."
        ) from None
    if not textures or not text.texture or not text.libraries:
        return polygons
    image = material_image(path, text.libraries, list(dict.fromkeys(text.materials)))
    return polygons if image is None else _textured(path, polygons, text.texture, places, image)


def _parsed(path: Path, data: bytes) -> _Text:
    out = _Text()
    text = data.removeprefix(codecs.BOM_UTF8).replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        match words[0] if words else b"":
            case b"v":
                out.vertices.append(words[1:])
            case b"vt":
                out.texture.append(words[1:])
            case b"mtllib" | b"usemtl" as what:
                name = line.split(None, 1)[1].strip().decode("utf-8", "replace") if words[1:] else ""
                (out.libraries if what == b"mtllib" else out.materials).append(name)
            case b"f":
                _add_face(path, out, number, line, words[1:])
    return out


def _add_face(path: Path, out: _Text, number: int, line: bytes, words: list[bytes]) -> None:
    """Adds the triangle fan of a polygon."""
    try:
        parts = [word.split(b"/", 2) for word in words]
        corners = [int(part[0]) for part in parts]
        places = [int(part[1]) if len(part) > 1 and part[1] else 0 for part in parts]
        if len(corners) < 3 or 0 in corners:
            raise ValueError
    except ValueError:
        shown = line[:60].decode("latin-1")
        raise CaptureError(
            f"{path}: line {number} is not a face of three or more vertex numbers from 1: {shown!r}.",
            "Export the mesh again.",
        ) from None
    ring = [c - 1 if c > 0 else len(out.vertices) + c for c in corners]
    spots = [c - 1 if c >= 0 else len(out.texture) + c for c in places]
    for k in range(1, len(ring) - 1):
        out.faces.append((ring[0], ring[k], ring[k + 1]))
        out.places.append((spots[0], spots[k], spots[k + 1]))


def _textured(
    path: Path, polygons: Polygons, words: list[list[bytes]], places: np.ndarray, image: np.ndarray
) -> Polygons:
    """Polygons whose vertices each have one place in an image.

    Args:
        words: of the lines ``vt``.
        places: of the corners, [F, 3].
        image: uint8 [H, W, 3].
    """
    xyz, rgb, faces, *_ = polygons
    try:
        uv = np.array([row[:2] for row in words], dtype=np.float64).reshape(len(words), 2)
    except ValueError:
        raise CaptureError(
            f"{path}: a position in the texture (vt) does not have two numbers.", "Export the mesh again."
        ) from None
    if len(faces) and not 0 <= places.min() <= places.max() < len(uv):
        raise CaptureError(
            f"{path}: a corner has no texture coordinate, or one of a number that is not there: there are {len(uv)} "
            "lines vt.",
            "Export the mesh again with texture coordinates for all faces.",
        )
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(xyz):
        return polygons  # is refused
    pairs, corners = np.unique(faces * len(uv) + places, return_inverse=True)
    vertex, place = pairs // len(uv), pairs % len(uv)
    upright = uv[place] * [1, -1] + [0, 1]  # from the bottom left corner to the top left one
    return Polygons(
        xyz[vertex],
        None if rgb is None else rgb[vertex],
        corners.reshape(-1, 3),
        Texture(upright, image, True),
    )


def obj_chunks(mesh: Mesh, path: Path) -> Iterator[bytes]:
    """The text of a file: ``v x y z r g b`` with colours in [0, 1], then ``f a b c`` with indices from 1.

    With a texture ``v x y z`` and ``vt u v`` from the bottom left corner, ``f a/a b/b c/c``, and the name of the file
    of the material. A shift is a comment.
    """
    xyz = mesh.xyz.astype(np.float64)
    number = "%.16g" if mesh.xyz.dtype == np.float64 else "%.9g"
    place = f"v {number} {number} {number}"
    for text in comments_of(replace(mesh.facts, antialiased=None)):
        yield f"# {text}\n".encode()
    if mesh.texture is None:
        yield b"# x y z r g b, colours in [0, 1]\n"
        yield from _lines(place + " %.4g %.4g %.4g\n", np.concatenate([xyz, mesh.rgb / 255], axis=1))
        yield from _lines("f %d %d %d\n", mesh.faces + 1)
        return
    yield os.fsencode(f"mtllib {path.with_suffix('.mtl').name}\nusemtl {MATERIAL}\n")
    yield from _lines(place + "\n", xyz)
    yield from _lines("vt %.9g %.9g\n", mesh.texture.uv.astype(np.float64) * [1, -1] + [0, 1])
    yield from _lines("f %d/%d %d/%d %d/%d\n", np.repeat(mesh.faces + 1, 2, axis=1))


def obj_companions(mesh: Mesh, path: Path) -> dict[Path, bytes]:
    """The material and the image of a textured mesh; the colours contain the light, so that none is added."""
    assert mesh.texture is not None
    image = path.with_suffix(".png")
    material = f"newmtl {MATERIAL}\nKa 0 0 0\nKd 1 1 1\nKs 0 0 0\nillum 0\nmap_Kd {image.name}\n"
    return {path.with_suffix(".mtl"): os.fsencode(material), image: png_of(mesh.texture.image)}


def _lines(form: str, table: np.ndarray) -> Iterator[bytes]:
    for start in range(0, len(table), LINES_PER_CHUNK):
        part = table[start : start + LINES_PER_CHUNK]
        yield (form * len(part) % tuple(part.ravel().tolist())).encode()


OBJ = MeshFormat(".obj", obj_polygons, obj_chunks, obj_companions, textured=True)
