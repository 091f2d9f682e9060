"""Triangle meshes from files: PLY, OBJ and STL."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.mesh import Mesh
from luxel.scenes.files.mesh_ply import ply_polygons
from luxel.scenes.files.ply import read_bytes

GREY = 200  # of vertices without a colour
SUFFIXES = (".ply", ".obj", ".stl")


def read_mesh(path: str | Path) -> Mesh:
    """Reads a triangle mesh.

    .ply (text or binary; vertex colours where there are any), .obj (``v`` and ``f`` of all groups; colours after the
    coordinates) and .stl (text or binary; corners at the same place become one vertex). Polygons become fans of
    triangles. Triangles with a corner twice are left out, and vertices that nothing uses.

    Raises:
        CaptureError: another suffix, a file that cannot be read or is damaged, coordinates that are not finite, or no
            triangles.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".ply":
            xyz, rgb, faces = ply_polygons(path, read_bytes(path))
        case ".obj":
            xyz, rgb, faces = _obj_polygons(path, read_bytes(path))
        case ".stl":
            xyz, rgb, faces = _stl_triangles(path, read_bytes(path))
        case other:
            raise CaptureError(
                f"{path}: {other or 'a file without suffix'} is no mesh format that is read ({', '.join(SUFFIXES)}).",
                "Export the mesh as .ply.",
            )
    return _checked(path, xyz, rgb, faces)


def _checked(path: Path, xyz: np.ndarray, rgb: np.ndarray | None, faces: np.ndarray) -> Mesh:
    """The mesh without what nothing uses.

    Args:
        xyz: [V, 3].
        rgb: uint8 [V, 3], or None.
        faces: [F, 3].
    """
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(xyz):
        raise CaptureError(
            f"{path}: a face has vertex {faces.max() if faces.max() >= len(xyz) else faces.min()}, "
            f"and there are {len(xyz)}.",
            "Export the mesh again.",
        )
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    used, renamed = np.unique(faces, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):
        kept = xyz[used].astype(np.float32)
    if not len(faces):
        raise CaptureError(
            f"{path}: there are no triangles in it.", "Give a file with a surface, not with points alone."
        )
    if not np.isfinite(kept).all():
        bad = int(used[~np.isfinite(kept).all(axis=1)][0])
        raise CaptureError(f"{path}: vertex {bad} is not finite.", "Export the mesh again.")
    colours = np.full((len(used), 3), GREY, np.uint8) if rgb is None else rgb[used]
    return Mesh(kept, np.ascontiguousarray(colours), renamed.reshape(-1, 3).astype(np.int32))


def _obj_polygons(path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
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
                f"{path}: line {number} is no face of three or more vertices, counted from 1: {shown!r}.",
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
        raise CaptureError(f"{path}: a vertex is not of three numbers.", "Export the mesh again.") from None
    if rgb is not None:
        full = 1.0 if np.nan_to_num(rgb).max(initial=0) <= 1 else 255.0
        rgb = np.clip(np.nan_to_num(rgb) * (255 / full) + 0.5, 0, 255).astype(np.uint8)
    return xyz, rgb, np.array(faces, dtype=np.int64).reshape(-1, 3)


def _stl_triangles(path: Path, data: bytes) -> tuple[np.ndarray, None, np.ndarray]:
    layout = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if count >= 0 and len(data) == 84 + count * layout.itemsize:
        corners = np.frombuffer(data, layout, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid" and (b"facet" in data or b"endsolid" in data):
        corners = _text_corners(path, data)
    else:
        raise CaptureError(
            f"{path}: this is no STL file, or it is cut short: {max(count, 0)} triangles are announced in "
            f"{len(data)} bytes.",
            "Copy or export the file again.",
        )
    # -0 and 0 are one place.
    xyz, index = np.unique(corners + np.float32(0), axis=0, return_inverse=True)
    return xyz, None, index.reshape(-1, 3)


def _text_corners(path: Path, data: bytes) -> np.ndarray:
    """The corners of a text STL file, [3 F, 3]."""
    rows = [words[1:] for words in (line.split() for line in data.splitlines()) if words[:1] == [b"vertex"]]
    try:
        if len(rows) % 3:
            raise ValueError
        with np.errstate(over="ignore"):
            return np.array(rows, dtype=np.float64).reshape(-1, 3).astype(np.float32)
    except ValueError:
        raise CaptureError(
            f"{path}: the text STL file is cut short or has no numbers where corners should be.",
            "Copy or export the file again.",
        ) from None
