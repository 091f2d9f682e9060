"""Reading and writing of triangle meshes, and the registry of mesh formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.axes import OWN
from luxel.scenes.files.gltf.document import read_document
from luxel.scenes.files.gltf.glb import EXTENSION
from luxel.scenes.files.meshes.mesh import GREY, Mesh, MeshFormat, Polygons, Texture
from luxel.scenes.files.meshes.mesh_glb import MESH_GLB, MODES
from luxel.scenes.files.meshes.mesh_obj import OBJ
from luxel.scenes.files.meshes.mesh_ply import PLY_MESH, has_faces
from luxel.scenes.files.meshes.mesh_stl import STL
from luxel.scenes.files.ply import HEADER_LIMIT, write_atomically
from luxel.scenes.files.reading import open_file, read_bytes, reading

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
    """The files that `save_mesh` writes for a path: next to the path itself those of a texture."""
    path = Path(path)
    known = _find(path)
    companions = (
        known.companions(PLACEHOLDER, path) if textured and known is not None and known.companions else {}
    )
    return [path, *companions]


def _find(path: Path) -> MeshFormat | None:
    return next((known for known in MESH_FORMATS if known.suffix == path.suffix.lower()), None)


def save_mesh(path: str | Path, mesh: Mesh) -> None:
    """Writes a mesh in the format of the path's suffix, .ply (binary), .obj or .glb, through temporary files.

    A textured .obj has a material (.mtl) and an image (.png) of its name alongside it; .ply has the colours alone.

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
    if mesh.texture is not None and known.companions is not None:
        for other, data in known.companions(mesh, path).items():
            write_atomically(other, [data])
    write_atomically(path, known.chunks(mesh, path))


def read_mesh(path: str | Path, *, textures: bool = False) -> Mesh:
    """Reads a triangle mesh.

    Formats are .ply (text or binary, with or without vertex colours), .obj (``v`` and ``f`` of all groups; colours
    after the coordinates; the image of its material), .glb (colours of vertices, an image inside the file) and .stl
    (text or binary). Polygons become triangle fans; triangles with two equal corners and unused vertices are left out.

    Args:
        path: of the file.
        textures: read the texture too. One that cannot be used (in another format, several of them) is left out, with a
            warning; a damaged image is an error.

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
        return _checked(path, known.read(path, read_bytes(path), textures))


def axes_of_mesh(path: str | Path) -> str:
    """The axes of the format of a mesh file; luxel's where it is none."""
    known = _find(Path(path))
    return OWN if known is None else known.axes


def is_mesh(path: str | Path) -> bool:
    """Whether an existing file holds a triangle mesh and no splats, by what is in it.

    A .ply file does with faces and without the columns of a primitive, a .glb file with triangles and without
    KHR_gaussian_splatting; .obj and .stl always do. A file that cannot be read is none.
    """
    path = Path(path)
    known = _find(path)
    if known is None or known.read is None or not path.is_file():
        return False
    try:
        if known is MESH_GLB:
            document = read_document(path)
            primitives = [primitive for mesh in document.meshes for primitive in mesh.primitives]
            splats = any(EXTENSION in primitive.extensions for primitive in primitives)
            return not splats and any(primitive.mode in MODES for primitive in primitives)
        if known is PLY_MESH:
            with open_file(path) as file:
                return has_faces(path, file.read(HEADER_LIMIT))
    except (CaptureError, OSError, ValueError):
        return False
    return True


def _checked(path: Path, polygons: Polygons) -> Mesh:
    """The mesh without degenerate triangles and unused vertices."""
    xyz, rgb, faces, texture, facts = polygons
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(xyz):
        raise CaptureError(
            f"{path}: a face has vertex {faces.max() if faces.max() >= len(xyz) else faces.min()}, "
            f"and there are {len(xyz)}.",
            "Export the mesh again.",
        )
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    used, corners = np.unique(faces, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):
        retained = xyz[used].astype(np.float32)
    if not len(faces):
        raise CaptureError(
            f"{path}: there are no triangles in it.", "Give a file with a surface, not only points."
        )
    if not np.isfinite(retained).all():
        bad = int(used[~np.isfinite(retained).all(axis=1)][0])
        raise CaptureError(f"{path}: vertex {bad} is not finite.", "Export the mesh again.")
    if texture is not None:
        uv = texture.uv[used].astype(np.float32)
        if not np.isfinite(uv).all():
            bad = int(used[~np.isfinite(uv).all(axis=1)][0])
            raise CaptureError(
                f"{path}: the texture coordinate of vertex {bad} is not finite.", "Export the mesh again."
            )
        texture = texture._replace(uv=uv)
    colours = np.full((len(used), 3), GREY, np.uint8) if rgb is None else rgb[used]
    triangles = corners.reshape(-1, 3).astype(np.int32)
    return Mesh(retained, np.ascontiguousarray(colours), triangles, texture, facts, rgb is not None)
