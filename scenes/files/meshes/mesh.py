"""Triangle meshes with vertex colours or a texture, and the interface of a mesh format."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from luxel.scenes.files.axes import OWN
from luxel.scenes.files.scene_format import SceneFacts

GREY = 200  # colour of vertices of files without colours


class Texture(NamedTuple):
    """An image on a mesh.

    Args:
        uv: where each vertex is in the image, in [0, 1], (0, 0) at the top left corner, float32 [V, 2].
        image: sRGB, uint8 [H, W, 3].
        repeats: whether the image repeats beyond [0, 1]; files of luxel have none there.
    """

    uv: np.ndarray
    image: np.ndarray
    repeats: bool = False


@dataclass
class Mesh:
    """Coloured triangles, anticlockwise viewed from outside.

    Args:
        xyz: vertices in world coordinates, float32 [V, 3]; or float64, which .ply and .obj write as they are.
        rgb: their colours, uint8 [V, 3]; grey of files that have none.
        faces: vertex indices of each triangle, int32 [F, 3].
        texture: shown instead of the colours by formats that have textures; None: there is none.
        facts: what is known of the scene, in luxel's axes; .glb, .ply and .obj hold it, the latter as comments.
        coloured: whether ``rgb`` comes from the file.
    """

    xyz: np.ndarray
    rgb: np.ndarray
    faces: np.ndarray
    texture: Texture | None = None
    facts: SceneFacts = field(default_factory=SceneFacts)
    coloured: bool = True


class Polygons(NamedTuple):
    """What a file says of a mesh, unchecked.

    Args:
        xyz: vertices, float [V, 3].
        rgb: their colours, uint8 [V, 3]; None: there are none.
        faces: vertex indices of triangles, integers [F, 3].
        texture: None: there is none, or it was not asked for.
        facts: in luxel's axes.
    """

    xyz: np.ndarray
    rgb: np.ndarray | None
    faces: np.ndarray
    texture: Texture | None = None
    facts: SceneFacts = SceneFacts()


@dataclass(frozen=True)
class MeshFormat:
    """A file format of triangle meshes; `luxel.scenes.files.meshes.mesh_files.MESH_FORMATS` lists all.

    Args:
        suffix: of its files, in lower case, with the dot.
        read: called with the path (for error messages), the bytes of a file and whether the texture is wanted; None:
            the format is only written. Raises CaptureError for invalid files.
        chunks: called with a mesh and the path of the file, gives its bytes, piece by piece; None: the format is only
            read. Raises CaptureError for meshes that the format cannot hold.
        companions: called likewise, gives the other files that a textured mesh needs and their bytes; None: it
            needs none.
        textured: whether files hold textures.
        axes: of its specification, see `luxel.scenes.files.axes`; ``read`` and ``chunks`` turn them.
    """

    suffix: str
    read: Callable[[Path, bytes, bool], Polygons] | None = None
    chunks: Callable[[Mesh, Path], Iterator[bytes | memoryview]] | None = None
    companions: Callable[[Mesh, Path], dict[Path, bytes]] | None = None
    textured: bool = False
    axes: str = OWN


def png_of(image: np.ndarray) -> bytes:
    """The file of an image, uint8 [H, W, 3]."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=4)
    return buffer.getvalue()
