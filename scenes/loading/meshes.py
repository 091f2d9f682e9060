"""The loader of mesh files."""

from __future__ import annotations

from pathlib import Path

from luxel.render.scene import Scene
from luxel.render.surfaces.mesh_scene import mesh_scene
from luxel.scenes.files.meshes.mesh_files import is_mesh
from luxel.scenes.files.meshes.mesh_loading import load_mesh
from luxel.scenes.loading.loader import DEFAULT, Loader, LoadOptions


def load_mesh_file(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The mesh of a file, with its texture."""
    return mesh_scene(load_mesh(path, axes=options.axes).to(options.device))


LOADER = Loader("a mesh", is_mesh, load_mesh_file)
