"""PLY meshes: files with any properties and any order of elements are read, binary files are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.meshes.mesh import Mesh, MeshFormat, Polygons
from luxel.scenes.files.ply import EXPORT_AGAIN, HEADER_LIMIT, TYPES
from luxel.scenes.files.scene_facts import comments_of, facts_in
from luxel.scenes.files.scene_format import SceneFacts

FACE_LISTS = ("vertex_indices", "vertex_index")


@dataclass
class _Element:
    """An element of the header; its properties as (name, type), lists as (name, type, type of the length)."""

    name: str
    count: int
    properties: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        return all(len(p) == 2 for p in self.properties)


def ply_polygons(path: Path, data: bytes, textures: bool = False) -> Polygons:
    """Vertices float64 [V, 3], colours uint8 [V, 3] or None, and triangles [F, 3] of a PLY file.

    Raises:
        CaptureError: it cannot be read, is cut short, or its vertices lack x, y or z.
    """
    kind, elements, offset = _header(path, data)
    body: _Words | _Bytes = (
        _Words(path, data[offset:])
        if kind == "ascii"
        else _Bytes(path, data, offset, ">" if "big" in kind else "<")
    )
    vertices: dict[str, np.ndarray] = {}
    faces = np.zeros((0, 3), np.int64)
    for element in elements:
        list_names = FACE_LISTS if element.name == "face" else ()
        columns, lists = body.read(element, list_names)
        if element.name == "vertex":
            vertices = columns
        elif element.name == "face":
            faces = lists
    if not {"x", "y", "z"} <= set(vertices):
        raise CaptureError(f"{path}: the vertices lack x, y or z.", EXPORT_AGAIN)
    xyz = np.stack([vertices[axis].astype(np.float64) for axis in "xyz"], -1)
    names = ("red", "green", "blue")
    rgb = None
    if set(names) <= set(vertices):
        full = 255.0 if vertices["red"].dtype.kind != "f" else 1.0
        colours = np.stack([vertices[n].astype(np.float64) for n in names], -1) * (255 / full)
        rgb = np.clip(np.nan_to_num(colours) + 0.5, 0, 255).astype(np.uint8)
    return Polygons(xyz, rgb, faces, facts=_facts(data))


def has_faces(path: Path, data: bytes) -> bool:
    """Whether the header of a PLY file announces faces, by the first bytes of the file.

    Raises:
        CaptureError: the header cannot be read.
    """
    return any(e.name == "face" and e.count > 0 for e in _header(path, data, complete=False)[1])


def _header(path: Path, data: bytes, complete: bool = True) -> tuple[str, list[_Element], int]:
    end = data.find(b"end_header", 0, HEADER_LIMIT)
    offset = data.find(b"\n", max(end, 0), HEADER_LIMIT) + 1
    if not data.startswith(b"ply") or end < 0 or offset == 0:
        raise CaptureError(f"{path}: this is not a PLY file, or its header does not end.", EXPORT_AGAIN)
    kind, elements = "", []
    try:
        for line in data[:end].decode("latin-1").splitlines()[1:]:
            match line.split():
                case ["format", name, *_]:
                    kind = name
                case ["element", name, number]:
                    elements.append(_Element(name, int(number)))
                case ["property", "list", length, items, name]:
                    elements[-1].properties.append((name, TYPES[items], TYPES[length]))
                case ["property", type_name, name]:
                    elements[-1].properties.append((name, TYPES[type_name]))
        if any(e.count < 0 or len({p[0] for p in e.properties}) < len(e.properties) for e in elements):
            raise ValueError("a negative count, or a repeated name")
        if any(e.count and not e.properties for e in elements):
            raise ValueError("an element without properties")
    except (ValueError, KeyError, IndexError) as error:
        raise CaptureError(f"{path}: the PLY header cannot be read ({error}).", EXPORT_AGAIN) from None
    if kind not in ("ascii", "binary_little_endian", "binary_big_endian"):
        raise CaptureError(f"{path}: unknown PLY format {kind!r}.", EXPORT_AGAIN)
    for element in elements:
        if complete and element.count > len(data):  # each takes a byte at least
            raise _cut_short(path, element)
    return kind, elements, offset


def _facts(data: bytes) -> SceneFacts:
    """What the comments of a header say of the scene."""
    header = data[: data.find(b"end_header", 0, HEADER_LIMIT)].decode("latin-1")
    words = (line.split(maxsplit=1) for line in header.splitlines())
    return facts_in(each[1] for each in words if len(each) == 2 and each[0] == "comment")


def _cut_short(path: Path, element: _Element) -> CaptureError:
    return CaptureError(
        f"{path}: cut short or damaged among {element.count} x {element.name}.",
        "Copy or export the file again.",
    )


def _fans(lengths: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Triangle fans [F, 3] of polygons; ``items`` are the concatenated vertex indices of all polygons."""
    starts = lengths.cumsum() - lengths
    of_each = np.maximum(lengths - 2, 0)
    polygon = np.repeat(np.arange(len(lengths)), of_each)
    k = np.arange(len(polygon)) - np.repeat(of_each.cumsum() - of_each, of_each)
    first = starts[polygon]
    return np.stack([items[first], items[first + k + 1], items[first + k + 2]], -1).astype(np.int64)


class _Words:
    """The body of a text file."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.words, self.at = path, data.split(), 0

    def read(
        self, element: _Element, list_names: tuple[str, ...]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Columns by name, and the triangles of the first list of ``list_names``."""
        try:
            if element.plain:
                width = len(element.properties)
                words = self.words[self.at : self.at + element.count * width]
                table = np.array(words, dtype=np.float64).reshape(element.count, width)
                self.at += element.count * width
                with np.errstate(over="ignore", invalid="ignore"):
                    columns = {p[0]: table[:, i].astype(p[1]) for i, p in enumerate(element.properties)}
                return columns, np.zeros((0, 3), np.int64)
            lengths, items = [], []
            for _ in range(element.count):
                for p in element.properties:
                    count = int(self.words[self.at]) if len(p) == 3 else 1
                    self.at += len(p) == 3
                    corners = self.words[self.at : self.at + count]
                    if count < 0 or len(corners) < count:
                        raise ValueError
                    if p[0] in list_names:
                        lengths.append(count)
                        items += corners
                    self.at += count
            return {}, _fans(np.array(lengths, np.int64), np.array(items, dtype=np.int64))
        except (ValueError, IndexError, OverflowError):
            raise _cut_short(self.path, element) from None


class _Bytes:
    """The body of a binary file."""

    def __init__(self, path: Path, data: bytes, at: int, order: str) -> None:
        self.path, self.data, self.at, self.order = path, data, at, order

    def read(
        self, element: _Element, list_names: tuple[str, ...]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Columns by name, and the triangles of the first list of ``list_names``."""
        try:
            if element.plain:
                rows = self._rows(element, {})
                return {name: rows[name] for name in rows.dtype.names or ()}, np.zeros((0, 3), np.int64)
            return {}, self._equal_lists(element, list_names)
        except _Unequal:
            return {}, self._unequal_lists(element, list_names)
        except (ValueError, IndexError):
            raise _cut_short(self.path, element) from None

    def _rows(self, element: _Element, lengths: dict[str, int]) -> np.ndarray:
        """All rows at once, where every list has the given length."""
        layout = []
        for p in element.properties:
            if len(p) == 3:
                layout += [(f"length of {p[0]}", self.order + p[2]), (p[0], self.order + p[1], lengths[p[0]])]
            else:
                layout.append((p[0], self.order + p[1]))
        kind = np.dtype(layout)
        if element.count * kind.itemsize > len(self.data) - self.at:
            raise ValueError
        rows = np.frombuffer(self.data, kind, element.count, self.at)
        self.at += element.count * kind.itemsize
        return rows.astype(kind.newbyteorder("="))

    def _equal_lists(self, element: _Element, list_names: tuple[str, ...]) -> np.ndarray:
        """Triangles where all polygons have as many corners as the first: the fast path."""
        start, lengths, at = self.at, {}, self.at
        if not element.count:
            return np.zeros((0, 3), np.int64)
        for p in element.properties:
            if len(p) == 3:
                lengths[p[0]] = int(np.frombuffer(self.data, self.order + p[2], 1, at)[0])
                if lengths[p[0]] < 0:
                    raise ValueError
                at += np.dtype(p[2]).itemsize + lengths[p[0]] * np.dtype(p[1]).itemsize
            else:
                at += np.dtype(p[1]).itemsize
        try:
            rows = self._rows(element, lengths)
        except ValueError:
            raise _Unequal from None
        if any((rows[f"length of {name}"] != length).any() for name, length in lengths.items()):
            self.at = start
            raise _Unequal
        name = next((name for name in lengths if name in list_names), None)
        if name is None:
            return np.zeros((0, 3), np.int64)
        items = rows[name].reshape(-1)
        return _fans(np.full(element.count, lengths[name]), items)

    def _unequal_lists(self, element: _Element, list_names: tuple[str, ...]) -> np.ndarray:
        """Triangles where polygons differ in their number of corners: row by row."""
        lengths, items = [], []
        try:
            for _ in range(element.count):
                for p in element.properties:
                    count = 1
                    if len(p) == 3:
                        count = int(np.frombuffer(self.data, self.order + p[2], 1, self.at)[0])
                        self.at += np.dtype(p[2]).itemsize
                    if count < 0:
                        raise ValueError
                    values = (
                        np.frombuffer(self.data, self.order + p[1], count, self.at) if count else np.zeros(0)
                    )
                    self.at += count * np.dtype(p[1]).itemsize
                    if p[0] in list_names:
                        lengths.append(count)
                        items.append(values.astype(np.int64))
        except (ValueError, IndexError):
            raise _cut_short(self.path, element) from None
        return _fans(np.array(lengths, np.int64), np.concatenate([np.zeros(0, np.int64), *items]))


class _Unequal(Exception):
    """Polygons differ in their number of corners."""


def ply_chunks(mesh: Mesh, path: Path) -> Iterator[bytes]:
    """The bytes of a binary little-endian file: x y z float, red green blue uchar, faces as lists of int indices.

    Coordinates in float64 are written as double; facts are comments.
    """
    double = mesh.xyz.dtype == np.float64
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(mesh.xyz)}",
        *(f"property {'double' if double else 'float'} {axis}" for axis in "xyz"),
        *(f"property uchar {channel}" for channel in ("red", "green", "blue")),
        f"element face {len(mesh.faces)}",
        "property list uchar int vertex_indices",
        *(f"comment {text}" for text in comments_of(replace(mesh.facts, antialiased=None))),
        "end_header",
    ]
    yield ("\n".join(header) + "\n").encode()
    vertices = np.empty(len(mesh.xyz), [("xyz", "<f8" if double else "<f4", 3), ("rgb", "u1", 3)])
    vertices["xyz"], vertices["rgb"] = mesh.xyz, mesh.rgb
    yield vertices.tobytes()
    faces = np.empty(len(mesh.faces), [("corners", "u1"), ("index", "<i4", 3)])
    faces["corners"], faces["index"] = 3, mesh.faces
    yield faces.tobytes()


PLY_MESH = MeshFormat(".ply", ply_polygons, ply_chunks)
