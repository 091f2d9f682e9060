"""Surfaces of neural fields as meshes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.scenes.files.meshes.mesh import GREY, Mesh
from luxel.scenes.files.meshes.mesh_files import save_mesh

COARSEST, FINEST = 8, 1024  # cells along the field's box


def field_mesh(application: Application, resolution: int = 256, level: float | None = None) -> Mesh:
    """The surface of a field by marching cubes, in the coordinates of its training data; grey.

    Args:
        application: a field that has a surface: one of signed distances, or one with a density.
        resolution: cells along the longest side of its box, 8 to 1024.
        level: of a field with a density: density at the surface, above 0, per longest side of the box; None: the
            `surface_level` of the application.

    Raises:
        LuxelError: the field has no surface, none of it lies in the box, the resolution or the level is out of range,
            or a level is given for a field without a density.
    """
    if level is not None and application.surface_level is None and application.exports_surface():
        raise LuxelError(f"A field of {application.kind!r} has no density.", "Leave the level out.")
    if level is not None and not (level > 0 and math.isfinite(level)):
        raise LuxelError(f"The level of a density must be above 0, got {level:g}.", "Give another one.")
    if not COARSEST <= resolution <= FINEST:
        raise LuxelError(
            f"A mesh of {resolution} cells along an axis cannot be made.", f"Give {COARSEST} to {FINEST}."
        )
    surface = application.surface(resolution, level)
    if not len(surface.faces):
        raise LuxelError(
            "The field has no surface in its box.",
            "Lower the level, or train it longer."
            if application.surface_level is not None
            else "Train it longer, or on another mesh.",
        )
    xyz = surface.vertices.cpu().float().numpy()
    return Mesh(xyz, np.full((len(xyz), 3), GREY, np.uint8), surface.faces.cpu().numpy())


def save_field_mesh(
    path: str | Path, application: Application, resolution: int = 256, level: float | None = None
) -> Mesh:
    """Writes `field_mesh` as .ply or .obj, by the suffix; returns the mesh.

    Raises:
        LuxelError: as `field_mesh`, or the file cannot be written.
    """
    mesh = field_mesh(application, resolution, level)
    save_mesh(path, mesh)
    return mesh
