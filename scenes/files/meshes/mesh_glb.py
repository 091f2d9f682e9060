""".glb meshes: triangles in binary glTF 2.0, with normals, and vertex colours or a texture.

Colours of vertices are linear in glTF, those of luxel and of textures sRGB (IEC 61966-2-1). Where a mesh has the
colours of a scene, these contain its light: the material is unlit (KHR_materials_unlit).
Source: the Khronos specification of glTF 2.0, sections 3.7 (meshes), 3.8 (textures) and 3.9 (materials).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.axes import OWN, signs_between
from luxel.scenes.files.gltf.document import (
    COPY_AGAIN,
    FLOAT,
    UNSIGNED_INT,
    UNSIGNED_SHORT,
    Document,
    Primitive,
    indices,
    parse_glb,
    placed_meshes,
    values,
)
from luxel.scenes.files.gltf.facts import facts_of
from luxel.scenes.files.gltf.writing import (
    ARRAY,
    ELEMENTS,
    LARGEST,
    about_asset,
    as_text,
    glb_chunks,
    glb_size,
)
from luxel.scenes.files.meshes.glb_texture import shared_texture, surface_of
from luxel.scenes.files.meshes.mesh import GREY, Mesh, MeshFormat, Polygons, png_of
from luxel.scenes.files.scene_facts import facts_between

AXES = "LUF"
SIGNS = np.array(signs_between(OWN, AXES))  # a half turn, which is its own inverse
TRIANGLES, STRIP, FAN = MODES = 4, 5, 6  # modes of mesh primitives
GROWTH = 16  # bytes of vertices and triangles per byte of a file, at most: nodes may repeat a mesh
MAX_INSTANCES = 4096  # of mesh primitives in a scene


def to_linear(rgb: np.ndarray) -> np.ndarray:
    """Linear colours of sRGB, both in [0, 1]."""
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def from_linear(linear: np.ndarray) -> np.ndarray:
    """sRGB of linear colours, both in [0, 1]."""
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def glb_polygons(path: Path, data: bytes, textures: bool = False) -> Polygons:
    """Vertices, colours and triangles of all nodes of a file's scene, and what the file says of it.

    Args:
        textures: read the texture too, see `luxel.scenes.files.meshes.glb_texture.shared_texture`.

    Raises:
        CaptureError: the file is damaged, or stores its triangles in a form that luxel does not read.
    """
    document, binary = parse_glb(path, memoryview(data))
    placed = [
        (primitive, matrix)
        for mesh, matrix in placed_meshes(path, document)
        for primitive in mesh.primitives
        if primitive.mode in MODES
    ]
    if not placed:
        raise CaptureError(
            f"{path}: there are no triangles in it.", "Give a file with a surface, not only points."
        )
    limit = GROWTH * len(data)
    for primitive, _ in placed:
        limit -= sum(24 * document.accessors[number].count for number in _vertices_and_faces(path, primitive))
    if limit < 0 or len(placed) > MAX_INSTANCES:
        raise CaptureError(
            f"{path}: its nodes put meshes at {len(placed)} positions, too many for its size.",
            "Export each mesh once.",
        )
    parts = [_polygons(path, document, binary, primitive, matrix) for primitive, matrix in placed]
    starts = np.cumsum([0, *(len(part.xyz) for part in parts)])
    faces = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)])
    rgb = None
    if any(part.rgb is not None for part in parts):
        grey = [np.full(part.xyz.shape, GREY, np.uint8) if part.rgb is None else part.rgb for part in parts]
        rgb = np.concatenate(grey)
    texture = None
    if textures:
        counts = [(primitive, len(part.xyz)) for (primitive, _), part in zip(placed, parts, strict=True)]
        texture = shared_texture(path, document, binary, counts)
    xyz = np.concatenate([part.xyz for part in parts])
    return Polygons(xyz, rgb, faces, texture, facts_between(facts_of(document), AXES, OWN))


def _vertices_and_faces(path: Path, primitive: Primitive) -> list[int]:
    """The accessors that say how large a primitive is."""
    if "POSITION" not in primitive.attributes:
        raise CaptureError(f"{path}: a mesh has no positions (POSITION).", COPY_AGAIN)
    positions = primitive.attributes["POSITION"]
    return [positions, positions if primitive.indices is None else primitive.indices]


def _polygons(
    path: Path, document: Document, binary: memoryview, primitive: Primitive, matrix: np.ndarray
) -> Polygons:
    """The triangles of a primitive in luxel's axes, where the matrix of a node [4, 4] puts them."""
    xyz = _column(path, document, binary, primitive.attributes["POSITION"], (3,)).astype(np.float64)
    number = primitive.indices
    order = np.arange(len(xyz)) if number is None else indices(path, document, binary, number)
    if len(order) and order.max() >= len(xyz):
        raise CaptureError(
            f"{path}: a triangle has vertex {order.max()}, and there are {len(xyz)}.", COPY_AGAIN
        )
    rgb = None
    if (number := primitive.attributes.get("COLOR_0")) is not None:
        linear = np.clip(np.nan_to_num(_column(path, document, binary, number, (3, 4))[:, :3]), 0, 1)
        if len(linear) != len(xyz):
            raise CaptureError(
                f"{path}: a mesh has {len(xyz)} positions and {len(linear)} colours.", COPY_AGAIN
            )
        rgb = np.rint(255 * from_linear(linear)).astype(np.uint8)
    elif (linear := surface_of(path, document, primitive).rgb) is not None:
        rgb = np.tile(np.rint(255 * from_linear(np.array(linear))).astype(np.uint8), (len(xyz), 1))
    faces = _triangles(path, order, primitive.mode)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = (xyz @ matrix[:3, :3].T + matrix[:3, 3]) * SIGNS
        mirrors = np.linalg.det(matrix[:3, :3]) < 0
    return Polygons(moved, rgb, faces[:, ::-1] if mirrors else faces)


def _column(
    path: Path, document: Document, binary: memoryview, number: int, widths: tuple[int, ...]
) -> np.ndarray:
    column = values(path, document, binary, number)
    if column.shape[1] not in widths:
        raise CaptureError(
            f"{path}: accessor {number} has {column.shape[1]} numbers per vertex, not {widths[0]}.",
            COPY_AGAIN,
        )
    return column


def _triangles(path: Path, order: np.ndarray, mode: int) -> np.ndarray:
    """The corners of triangles [F, 3] of vertices in the order in which they are rendered."""
    if mode == TRIANGLES:
        if len(order) % 3:
            raise CaptureError(f"{path}: a mesh has {len(order)} corners of triangles.", COPY_AGAIN)
        return order.reshape(-1, 3)
    k = np.arange(max(len(order) - 2, 0))
    if mode == FAN:
        return np.stack([order[k + 1], order[k + 2], order[np.zeros_like(k)]], -1)
    odd = k % 2
    return np.stack([order[k], order[k + 1 + odd], order[k + 2 - odd]], -1)


def mesh_glb_chunks(mesh: Mesh, path: Path) -> Iterator[bytes | memoryview]:
    """The bytes of a file with one mesh.

    Raises:
        CaptureError: there are no triangles, a vertex is not finite, or the file would be too large for the format.
    """
    if not len(mesh.faces):
        raise CaptureError(f"{path}: there are no triangles to write.", "Write a mesh with a surface.")
    if not np.isfinite(mesh.xyz).all():
        bad = int((~np.isfinite(mesh.xyz).all(axis=1)).argmax())
        raise CaptureError(f"{path}: vertex {bad} is not finite.", "Leave such vertices out.")
    xyz = (mesh.xyz * SIGNS).astype("<f4")
    columns = {"POSITION": xyz, "NORMAL": _normals(xyz, mesh.faces)}
    png = b""
    if mesh.texture is not None:
        columns["TEXCOORD_0"] = mesh.texture.uv.astype("<f4")
        png = png_of(mesh.texture.image)
    else:
        rgba = np.concatenate([to_linear(mesh.rgb / 255), np.ones((len(xyz), 1))], axis=1)
        columns["COLOR_0"] = np.rint(65535 * rgba).astype("<u2")
    corners = mesh.faces.astype("<u4")
    text = as_text(_document(mesh, columns, corners, len(png)))
    pieces = [
        *(np.ascontiguousarray(array).data.cast("B") for array in (*columns.values(), corners)),
        png,
        bytes(-len(png) % 4),
    ]
    length = sum(map(len, pieces))
    if (total := glb_size(text, length)) > LARGEST:
        raise CaptureError(
            f"{path}: the mesh needs {total} bytes, and a .glb file has at most {LARGEST}.",
            "Write .ply, or fewer triangles.",
        )
    yield from glb_chunks(text, length, pieces)


def _normals(xyz: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Normals of vertices, float32 [V, 3] of length 1; the same for vertices at one place, as at seams of a texture."""
    _, position = np.unique(xyz, axis=0, return_inverse=True)
    position = position.reshape(-1)
    a, b, c = xyz.astype(np.float64)[faces].transpose(1, 0, 2)
    vectors = np.cross(b - a, c - a)
    sums = np.stack(
        [
            np.bincount(position[faces].ravel(), np.repeat(vectors[:, k], 3), position.max() + 1)
            for k in range(3)
        ],
        -1,
    )[position]
    length = np.linalg.norm(sums, axis=1, keepdims=True)
    known = length > np.finfo(np.float64).tiny
    return np.where(known, sums / np.where(known, length, 1), [0.0, 0.0, 1.0]).astype("<f4")


def _document(mesh: Mesh, columns: dict[str, np.ndarray], corners: np.ndarray, png: int) -> dict[str, Any]:
    """The document of a file with these attributes, triangles and an image one after the other."""
    views, accessors, start = [], [], 0
    for array, target in [*((column, ARRAY) for column in columns.values()), (corners, ELEMENTS)]:
        views.append({"buffer": 0, "byteOffset": start, "byteLength": array.nbytes, "target": target})
        start += array.nbytes
    for number, column in enumerate(columns.values()):
        short = column.dtype.itemsize == 2
        accessor = {
            "bufferView": number,
            "componentType": UNSIGNED_SHORT if short else FLOAT,
            "count": len(column),
            "type": f"VEC{column.shape[1]}",
        }
        accessors.append(accessor | ({"normalized": True} if short else {}))
    accessors[0] |= {"min": columns["POSITION"].min(0).tolist(), "max": columns["POSITION"].max(0).tolist()}
    accessors.append(
        {
            "bufferView": len(columns),
            "componentType": UNSIGNED_INT,
            "count": corners.size,
            "type": "SCALAR",
        }
    )
    surface: dict[str, Any] = {"metallicFactor": 0.0, "roughnessFactor": 0.9}
    material: dict[str, Any] = {"pbrMetallicRoughness": surface, "doubleSided": True}
    primitive = {
        "attributes": {name: number for number, name in enumerate(columns)},
        "indices": len(columns),
        "material": 0,
        "mode": TRIANGLES,
    }
    up = mesh.facts.up
    turned = None if up is None else (up[0] * SIGNS[0], up[1] * SIGNS[1], up[2] * SIGNS[2])
    shift = mesh.facts.shift
    moved = None if shift is None else (shift[0] * SIGNS[0], shift[1] * SIGNS[1], shift[2] * SIGNS[2])
    document: dict[str, Any] = {
        "asset": about_asset(replace(mesh.facts, up=turned, shift=moved)),
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}],
        "materials": [material],
        "accessors": accessors,
        "bufferViews": views,
    }
    if mesh.texture is not None or (mesh.rgb != mesh.rgb[:1]).any():
        material["extensions"] = {"KHR_materials_unlit": {}}
        document["extensionsUsed"] = ["KHR_materials_unlit"]
    if mesh.texture is not None:
        surface["baseColorTexture"] = {"index": 0}
        views.append({"buffer": 0, "byteOffset": start, "byteLength": png})
        document["images"] = [{"bufferView": len(views) - 1, "mimeType": "image/png"}]
        document["samplers"] = [{"magFilter": 9729, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}]
        document["textures"] = [{"sampler": 0, "source": 0}]
    document["buffers"] = [{"byteLength": start + png + -png % 4}]
    return document


MESH_GLB = MeshFormat(".glb", glb_polygons, mesh_glb_chunks, textured=True, axes=AXES)
