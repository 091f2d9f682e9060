"""Triangle meshes from files: PLY, OBJ and STL."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.mesh import Mesh
from luxel.scenes.ply import EXPORT_AGAIN, HEADER_LIMIT, TYPES, read_bytes

SUFFIXES = (".ply", ".obj", ".stl")
GREY = 200  # of vertices, whose colours are not read


def read_mesh(path: str | Path) -> Mesh:
    """A mesh whose faces are triangles, or polygons that are cut into triangles from their first corner.

    Args:
        path: .ply (binary or text), .obj, or .stl (binary or text; equal corners become one vertex).

    Returns:
        The mesh, in grey.

    Raises:
        CaptureError: the file is missing, of another kind, damaged, or has no faces.
    """
    path = Path(path)
    readers = {".ply": _read_ply, ".obj": _read_obj, ".stl": _read_stl}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is no mesh that luxel reads.",
            f"Give one of {', '.join(SUFFIXES)}.",
        )
    data = read_bytes(path)
    try:
        xyz, faces = reader(path, data)
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        if isinstance(error, CaptureError):
            raise
        raise CaptureError(f"{path}: the mesh cannot be read ({error}).", "Export it again.") from error
    if not len(faces) or not len(xyz):
        raise CaptureError(f"{path}: there are no faces in this file.", "Give a mesh, not points.")
    if faces.min() < 0 or faces.max() >= len(xyz):
        raise CaptureError(f"{path}: a face has corners that do not exist.", "Export the mesh again.")
    if not np.isfinite(xyz).all():
        raise CaptureError(f"{path}: the mesh has vertices that are not finite.", "Export it again.")
    return Mesh(xyz.astype(np.float32), np.full((len(xyz), 3), GREY, np.uint8), faces.astype(np.int32))


def _fan(polygons: Iterable[list[int]]) -> np.ndarray:
    """Triangles of polygons, [F, 3]."""
    found = [(p[0], p[i], p[i + 1]) for p in polygons for i in range(1, len(p) - 1)]
    return np.array(found, np.int64).reshape(-1, 3)


def _read_ply(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces; elements of other names are passed over."""
    end = data.find(b"end_header", 0, HEADER_LIMIT)
    start = data.find(b"\n", end) + 1
    lines = [line.split() for line in data[: max(end, 0)].decode("latin-1").splitlines()]
    if end < 0 or not start or lines[0] != ["ply"]:
        raise CaptureError(f"{path}: this is not a PLY file.", EXPORT_AGAIN)
    kind = next(words[1] for words in lines if words[:1] == ["format"])
    elements: list[tuple[str, int, list[tuple[str, ...]]]] = []
    for words in lines:
        if words[:1] == ["element"]:
            elements.append((words[1], int(words[2]), []))
        elif words[:1] == ["property"]:
            elements[-1][2].append(tuple(words[1:]))
    reader = _Words(data[start:]) if kind == "ascii" else _Bytes(data, start, ">" if "big" in kind else "<")
    xyz, faces = np.zeros((0, 3)), np.zeros((0, 3), np.int64)
    for name, count, properties in elements:
        names = [p[-1] for p in properties]
        if all(p[0] != "list" for p in properties):
            table = reader.table(count, [(p[1], TYPES[p[0]]) for p in properties])
            if name == "vertex":
                xyz = np.stack([table[axis].astype(np.float64) for axis in "xyz"], -1)
            continue
        place = next((i for i, n in enumerate(names) if n in ("vertex_indices", "vertex_index")), None)
        if name == "face" and place is None:
            raise ValueError("the faces have no vertex_indices")
        rows = reader.lists(count, properties, 0 if place is None else place)
        if name == "face":
            faces = rows
    return xyz, faces


class _Bytes:
    """Binary elements one after another."""

    def __init__(self, data: bytes, position: int, order: str) -> None:
        self.data, self.position, self.order = data, position, order

    def table(self, count: int, columns: list[tuple[str, str]]) -> np.ndarray:
        """Rows of one length."""
        layout = np.dtype([(name, self.order + kind) for name, kind in columns])
        found = np.frombuffer(self.data, layout, count, self.position)
        self.position += count * layout.itemsize
        return found

    def lists(self, count: int, properties: list[tuple[str, ...]], wanted: int) -> np.ndarray:
        """Triangles of the wanted list; at once where all rows are triangles and nothing else."""
        if len(properties) == 1 and count:
            _, length, index, name = properties[0]
            columns = [("n", self.order + TYPES[length]), (name, self.order + TYPES[index], 3)]
            layout = np.dtype(columns)
            if self.position + count * layout.itemsize <= len(self.data):
                rows = np.frombuffer(self.data, layout, count, self.position)
                if (rows["n"] == 3).all():
                    self.position += count * layout.itemsize
                    return rows[name].astype(np.int64)
        return _fan(self._row(properties)[wanted] for _ in range(count))

    def _row(self, properties: list[tuple[str, ...]]) -> list[list[int]]:
        return [self._numbers(p[1:3]) if p[0] == "list" else self._take(p[0], 1) for p in properties]

    def _numbers(self, kinds: tuple[str, ...]) -> list[int]:
        return self._take(kinds[1], self._take(kinds[0], 1)[0])

    def _take(self, kind: str, count: int) -> list[int]:
        layout = np.dtype(self.order + TYPES[kind])
        found = np.frombuffer(self.data, layout, count, self.position)
        self.position += count * layout.itemsize
        return found.tolist()


class _Words:
    """Elements as text."""

    def __init__(self, data: bytes) -> None:
        self.words, self.position = data.split(), 0

    def _take(self, count: int) -> list[bytes]:
        found = self.words[self.position : self.position + count]
        if len(found) < count:
            raise ValueError("cut short")
        self.position += count
        return found

    def table(self, count: int, columns: list[tuple[str, str]]) -> np.ndarray:
        """Rows of one length."""
        rows = np.array(self._take(count * len(columns)), np.float64).reshape(count, len(columns))
        found = np.empty(count, [(name, "f8") for name, _ in columns])
        for index, (name, _) in enumerate(columns):
            found[name] = rows[:, index]
        return found

    def lists(self, count: int, properties: list[tuple[str, ...]], wanted: int) -> np.ndarray:
        """Triangles of the wanted list."""
        return _fan(self._row(properties)[wanted] for _ in range(count))

    def _row(self, properties: list[tuple[str, ...]]) -> list[list[int]]:
        row: list[list[int]] = []
        for p in properties:
            number = int(self._take(1)[0]) if p[0] == "list" else 1
            row.append([int(float(word)) for word in self._take(number)])
        return row


def _read_obj(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of Wavefront OBJ; everything else is passed over."""
    xyz: list[list[float]] = []
    polygons: list[list[int]] = []
    for line in data.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == b"v":
            xyz.append([float(word) for word in words[1:4]])
        elif words[0] == b"f":
            corners = [int(word.split(b"/")[0]) for word in words[1:]]
            polygons.append([c - 1 if c > 0 else len(xyz) + c for c in corners])
    return np.array(xyz, np.float64).reshape(-1, 3), _fan(polygons)


def _read_stl(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of STL, with equal corners as one vertex."""
    count = int.from_bytes(data[80:84], "little")
    if len(data) >= 84 and len(data) >= 84 + 50 * count and (count or not data.startswith(b"solid")):
        layout = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("rest", "<u2")])
        corners = np.frombuffer(data, layout, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip().startswith(b"solid"):
        lines = (line.split() for line in data.splitlines())
        table = [[float(word) for word in words[1:4]] for words in lines if words[:1] == [b"vertex"]]
        corners = np.array(table, np.float32).reshape(-1, 3)
    else:
        raise CaptureError(f"{path}: this is no STL file, or it is cut short.", "Export it again.")
    if len(corners) % 3:
        raise ValueError("the corners of a triangle are missing")
    xyz, index = np.unique(corners, axis=0, return_inverse=True)
    return xyz, index.reshape(-1, 3)
