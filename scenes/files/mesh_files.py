"""Reading and writing of triangle meshes, and the registry of mesh formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.gltf.mesh_glb import MESH_GLB
from luxel.scenes.files.mesh import GREY, Mesh, MeshFormat, Texture
from luxel.scenes.files.mesh_obj import OBJ
from luxel.scenes.files.mesh_ply import PLY_MESH
from luxel.scenes.files.mesh_stl import STL
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.reading import read_bytes, reading

PLACEHOLDER = Mesh(
    np.zeros((1, 3), np.float32),
    np.zeros((1, 3), np.uint8),
    np.zeros((0, 3), np.int32),
    Texture(np.zeros((1, 2), np.float32), np.zeros((1, 1, 3), np.uint8)),
)
MESH_FORMATS: list[MeshFormat] = [PLY_MESH, OBJ, MESH_GLB, STL]


def readable_mesh_suffixes() -> tuple[str, ...]:
    """Suffixes of the formats that are read."""
    return tuple(known.suffix for known in MESH_FORMATS if known.read)


def writable_mesh_suffixes() -> tuple[str, ...]:
    """Suffixes of the formats that are written."""
    return tuple(known.suffix for known in MESH_FORMATS if known.chunks)


def textured_suffixes() -> tuple[str, ...]:
    """Suffixes of the formats that are written with textures."""
    return tuple(known.suffix for known in MESH_FORMATS if known.chunks and known.textured)


def files_of(path: str | Path, textured: bool) -> list[Path]:
    """The files that `save_mesh` writes for a path: beside the path itself those of a texture."""
    path = Path(path)
    known = _find(path)
    beside = known.beside(PLACEHOLDER, path) if textured and known is not None and known.beside else {}
    return [path, *beside]


def _find(path: Path) -> MeshFormat | None:
    return next((known for known in MESH_FORMATS if known.suffix == path.suffix.lower()), None)


def save_mesh(path: str | Path, mesh: Mesh) -> None:
    """Writes a mesh in the format of the path's suffix, .ply (binary), .obj or .glb, through temporary files.

    A textured .obj has a material (.mtl) and an image (.png) of its name beside it; .ply has the colours alone.

    Raises:
        CaptureError: the format is unknown or cannot hold the mesh, or a file cannot be written.
    """
    path = Path(path)
    known = _find(path)
    if known is None or known.chunks is None:
        raise CaptureError(
            f"{path}: a mesh cannot be written as {path.suffix.lower() or 'a file without suffix'}.",
            f"Give the file the suffix {' or '.join(writable_mesh_suffixes())}.",
        )
    if mesh.texture is not None and known.beside is not None:
        for other, data in known.beside(mesh, path).items():
            write_atomically(other, [data])
    write_atomically(path, known.chunks(mesh, path))


def read_mesh(path: str | Path) -> Mesh:
    """Reads a triangle mesh.

    Formats are .ply (text or binary, with or without vertex colours), .obj (``v`` and ``f`` of all groups; colours
    behind the coordinates), .glb (colours of vertices, no textures) and .stl (text or binary). Polygons become triangle
    fans; triangles with two equal corners and unused vertices are left out.

    Raises:
        CaptureError: the format is unknown, the file cannot be read or is damaged, coordinates are not finite, or there
            are no triangles.
    """
    path = Path(path)
    known = _find(path)
    if known is None or known.read is None:
        raise CaptureError(
            f"{path}: {path.suffix.lower() or 'a file without suffix'} is not a mesh format that luxel reads "
            f"({', '.join(readable_mesh_suffixes())}).",
            "Export the mesh as .ply.",
        )
    with reading(path, f"a {known.suffix} mesh", "Copy or export the mesh again."):
        return _checked(path, *known.read(path, read_bytes(path)))


def _checked(path: Path, xyz: np.ndarray, rgb: np.ndarray | None, faces: np.ndarray) -> Mesh:
    """The mesh without degenerate triangles and unused vertices.

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
    used, corners = np.unique(faces, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):
        kept = xyz[used].astype(np.float32)
    if not len(faces):
        raise CaptureError(
            f"{path}: there are no triangles in it.", "Give a file with a surface, not only points."
        )
    if not np.isfinite(kept).all():
        bad = int(used[~np.isfinite(kept).all(axis=1)][0])
        raise CaptureError(f"{path}: vertex {bad} is not finite.", "Export the mesh again.")
    colours = np.full((len(used), 3), GREY, np.uint8) if rgb is None else rgb[used]
    return Mesh(kept, np.ascontiguousarray(colours), corners.reshape(-1, 3).astype(np.int32))
