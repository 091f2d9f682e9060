"""Mesh files as meshes that are rendered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.surfaces.mesh_scene import Image, MeshScene
from luxel.scenes.files.axes import known_axes, signs_between
from luxel.scenes.files.meshes.mesh import Mesh
from luxel.scenes.files.meshes.mesh_files import axes_of_mesh, read_mesh
from luxel.scenes.files.scene_facts import facts_between


def load_mesh(path: Path, *, axes: str | None = None) -> MeshScene:
    """The mesh of a file, with its texture.

    Args:
        axes: of a file that ignores the specification of its format, see `luxel.scenes.files.axes`.

    Raises:
        LuxelError: the file cannot be read, has no triangles, or needs more memory than there is.
    """
    mesh = turned(read_mesh(path, textures=True), axes_of_mesh(path), axes)
    image = None
    if mesh.texture is not None:
        pixels = torch.from_numpy(np.ascontiguousarray(mesh.texture.image))
        image = Image(torch.from_numpy(mesh.texture.uv), pixels, mesh.texture.repeats)
    rgb = torch.from_numpy(mesh.rgb) if mesh.coloured else None
    triangles = TriangleMesh(torch.from_numpy(mesh.xyz), torch.from_numpy(mesh.faces))
    try:
        scene = MeshScene.build(triangles, rgb, image)
    except LuxelError as error:
        raise LuxelError(f"{path}: {error.problem}", error.remedy) from error
    scene.up, scene.metres = mesh.facts.up, mesh.facts.metres
    return scene


def turned(mesh: Mesh, own: str, axes: str | None) -> Mesh:
    """A mesh that was read as if its file had the axes ``own``, where it has ``axes``; None: it has those."""
    if axes is None or (source := known_axes(axes)) == own:
        return mesh
    signs = np.array(signs_between(source, own), np.float32)  # before the reader's own turn, which commutes
    faces = mesh.faces[:, ::-1].copy() if signs.prod() < 0 else mesh.faces
    return Mesh(
        mesh.xyz * signs,
        mesh.rgb,
        faces,
        mesh.texture,
        facts_between(mesh.facts, source, own),
        mesh.coloured,
    )
