"""The surface of a distance field as a mesh in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.scenes.mesh import Mesh, save_mesh

COARSEST, FINEST = 8, 1024  # cells along the field's box
GREY = 200


def field_mesh(application: Application, resolution: int = 256) -> Mesh:
    """The surface of a field by marching cubes, in the coordinates of what it was trained on; grey.

    Args:
        application: a field that has a surface: one of signed distances.
        resolution: cells along its box, 8 to 1024.

    Raises:
        LuxelError: the field has no surface, nothing of it lies in the box, or the resolution is out of range.
    """
    if not hasattr(application, "surface"):
        raise LuxelError(
            f"A field of {application.kind!r} has no surface.", "Give a field of signed distances: sdf."
        )
    if not COARSEST <= resolution <= FINEST:
        raise LuxelError(
            f"A mesh of {resolution} cells along an axis cannot be made.", f"Give {COARSEST} to {FINEST}."
        )
    found = application.surface(resolution)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    if not len(found.faces):
        raise LuxelError("The field has no surface in its box.", "Train it longer, or on another mesh.")
    xyz = found.vertices.cpu().float().numpy()
    return Mesh(xyz, np.full((len(xyz), 3), GREY, np.uint8), found.faces.cpu().numpy())


def save_field_mesh(path: str | Path, application: Application, resolution: int = 256) -> Mesh:
    """Writes `field_mesh` as .ply or .obj, by the suffix; gives the mesh.

    Raises:
        LuxelError: as `field_mesh`, or the file cannot be written.
    """
    mesh = field_mesh(application, resolution)
    save_mesh(path, mesh)
    return mesh
