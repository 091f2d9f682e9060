"""Triangle meshes with vertex colours, and the interface of a mesh format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GREY = 200  # colour of vertices of files without colours


@dataclass
class Mesh:
    """Coloured triangles, anticlockwise seen from outside.

    Args:
        xyz: vertices in world coordinates, float32 [V, 3].
        rgb: their colours, uint8 [V, 3].
        faces: vertex indices of each triangle, int32 [F, 3].
    """

    xyz: np.ndarray
    rgb: np.ndarray
    faces: np.ndarray


# Vertices float [V, 3], colours uint8 [V, 3] or None, and vertex indices of triangles int [F, 3].
Polygons = tuple[np.ndarray, np.ndarray | None, np.ndarray]


@dataclass(frozen=True)
class MeshFormat:
    """A file format of triangle meshes; `luxel.scenes.files.mesh_files.MESH_FORMATS` lists all.

    Args:
        suffix: of its files, in lower case, with the dot.
        read: called with the path (for error messages) and the bytes of a file; None: the format is only written.
            Raises CaptureError for invalid files.
        chunks: the bytes of a file, piece by piece; None: the format is only read.
    """

    suffix: str
    read: Callable[[Path, bytes], Polygons] | None = None
    chunks: Callable[[Mesh], Iterator[bytes]] | None = None
