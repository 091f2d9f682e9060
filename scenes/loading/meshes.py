"""The loader of mesh files."""

from __future__ import annotations

from pathlib import Path

from luxel.render.scene import Scene
from luxel.render.surfaces.mesh_scene import mesh_scene
from luxel.scenes.files.meshes.mesh_files import is_mesh
from luxel.scenes.files.meshes.mesh_loading import load_mesh
from luxel.scenes.loading.loader import DEFAULT, Loader, LoadOptions
from luxel.scenes.measuring.measured_facts import measured_in_scene


def load_mesh_file(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The mesh of a file, with its texture."""
    mesh = load_mesh(path, axes=options.axes).to(options.device)
    scene = mesh_scene(mesh)
    if not options.measured:
        return scene
    measured = measured_in_scene(scene)
    mesh.up, mesh.metres = measured.up or mesh.up, measured.metres or mesh.metres
    return mesh_scene(mesh)


LOADER = Loader("a mesh", is_mesh, load_mesh_file)
