"""Convexes as a triangle mesh of their convex hulls."""

from __future__ import annotations

from typing import NamedTuple

from luxel.render.primitives.convexes.hulls import MIN_OPACITY, to_mesh
from luxel.render.primitives.convexes.parameters import Convexes
from luxel.scenes.files.meshes.mesh import Mesh


class HullMesh(NamedTuple):
    """A mesh, and the numbers of convexes that are in it or left out."""

    mesh: Mesh
    hulls: int  # in the mesh
    degenerate: int  # left out: flat, or not finite
    faint: int  # left out: hardly opaque, or masked


def convex_hulls(convexes: Convexes, min_opacity: float = MIN_OPACITY) -> HullMesh:
    """The 3D convex hull of each convex in one mesh, see `luxel.render.primitives.convexes.hulls.to_mesh`.

    Raises:
        ValueError: ``min_opacity`` lies outside of [0, 1).
    """
    made = to_mesh(convexes, min_opacity)
    mesh = Mesh(made.xyz, made.rgb, made.faces)
    return HullMesh(mesh, made.parts, made.left_out["flat"], made.left_out["faint or masked"])
