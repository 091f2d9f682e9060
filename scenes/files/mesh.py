"""Triangle meshes with vertex colours or a texture, and the interface of a mesh format."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from luxel.scenes.files.scene_format import SceneFacts

GREY = 200  # colour of vertices of files without colours


class Texture(NamedTuple):
    """An image on a mesh.

    Args:
        uv: where each vertex is in the image, in [0, 1], (0, 0) at the top left corner, float32 [V, 2].
        image: sRGB, uint8 [H, W, 3].
    """

    uv: np.ndarray
    image: np.ndarray


@dataclass
class Mesh:
    """Coloured triangles, anticlockwise seen from outside.

    Args:
        xyz: vertices in world coordinates, float32 [V, 3].
        rgb: their colours, uint8 [V, 3].
        faces: vertex indices of each triangle, int32 [F, 3].
        texture: shown instead of the colours by formats that have textures; None: there is none.
        facts: what is known of the scene, in luxel's axes; .glb holds it.
    """

    xyz: np.ndarray
    rgb: np.ndarray
    faces: np.ndarray
    texture: Texture | None = None
    facts: SceneFacts = field(default_factory=SceneFacts)


# Vertices float [V, 3], colours uint8 [V, 3] or None, and vertex indices of triangles int [F, 3].
Polygons = tuple[np.ndarray, np.ndarray | None, np.ndarray]


@dataclass(frozen=True)
class MeshFormat:
    """A file format of triangle meshes; `luxel.scenes.files.mesh_files.MESH_FORMATS` lists all.

    Args:
        suffix: of its files, in lower case, with the dot.
        read: called with the path (for error messages) and the bytes of a file; None: the format is only written.
            Raises CaptureError for invalid files.
        chunks: called with a mesh and the path of the file, gives its bytes, piece by piece; None: the format is only
            read. Raises CaptureError for meshes that the format cannot hold.
        beside: called likewise, gives the other files that a textured mesh needs beside it and their bytes; None: it
            needs none.
        textured: whether files hold textures.
    """

    suffix: str
    read: Callable[[Path, bytes], Polygons] | None = None
    chunks: Callable[[Mesh, Path], Iterator[bytes | memoryview]] | None = None
    beside: Callable[[Mesh, Path], dict[Path, bytes]] | None = None
    textured: bool = False


def png_of(image: np.ndarray) -> bytes:
    """The file of an image, uint8 [H, W, 3]."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=4)
    return buffer.getvalue()
