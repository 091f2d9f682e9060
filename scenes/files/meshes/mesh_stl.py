"""STL meshes, text and binary; read only."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.meshes.mesh import MeshFormat, Polygons


def stl_triangles(path: Path, data: bytes, textures: bool = False) -> Polygons:
    """Vertices and triangles of an STL file; corners at the same position become one vertex.

    Raises:
        CaptureError: the file is cut short, or not an STL file.
    """
    layout = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if count >= 0 and len(data) == 84 + count * layout.itemsize:
        corners = np.frombuffer(data, layout, count, 84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid" and (b"facet" in data or b"endsolid" in data):
        corners = _text_corners(path, data)
    else:
        raise CaptureError(
            f"{path}: not an STL file, or cut short: the header counts {max(count, 0)} triangles, the file has "
            f"{len(data)} bytes.",
            "Copy or export the file again.",
        )
    # Adding 0 turns -0 into 0.
    xyz, index = np.unique(corners + np.float32(0), axis=0, return_inverse=True)
    return Polygons(xyz, None, index.reshape(-1, 3))


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
            f"{path}: the text STL file is cut short or a corner is not three numbers.",
            "Copy or export the file again.",
        ) from None


STL = MeshFormat(".stl", stl_triangles)
