"""Convexes as a triangle mesh of their convex hulls."""

from __future__ import annotations

import numpy as np

from luxel.render.mesh.extras import mesh_package
from luxel.render.primitives.convexes.parameters import Convexes
from luxel.render.primitives.parameters import SH_C0
from luxel.render.primitives.spec import PrimitiveMesh

MIN_OPACITY = 0.1
FLATTEST = 1e-6  # least volume of a hull whose points reach 1 along an axis from their mean


def to_mesh(convexes: Convexes, min_opacity: float | None = None) -> PrimitiveMesh:
    """The 3D convex hull of each convex, all side by side in one mesh; 100,000 convexes take some seconds.

    The colour of a hull is that of degree 0. Soft edges, transparency and view dependence of colours are not in the
    mesh; inner faces where hulls overlap stay.

    Args:
        convexes: N of them.
        min_opacity: convexes of less opacity are left out, as are those that their mask hides; [0, 1); None: 0.1.

    Raises:
        ValueError: ``min_opacity`` lies outside of [0, 1).
        LuxelError: scipy, which comes with luxel[mesh], is not installed.
    """
    min_opacity = MIN_OPACITY if min_opacity is None else min_opacity
    if not 0 <= min_opacity < 1:
        raise ValueError(f"min_opacity must be in [0, 1), got {min_opacity}")
    mesh_package("scipy")
    from scipy.spatial import ConvexHull, QhullError

    on_cpu = convexes.detach().to("cpu")
    visible = ((on_cpu.opacities >= min_opacity) & (on_cpu.masks > 0)).numpy()
    points = on_cpu.points.double().numpy()[visible]
    # About their own middle and at unit size: Qhull judges what is flat by the largest coordinate.
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        local = points - points.mean(axis=1, keepdims=True)
        local /= np.abs(local).max(axis=(1, 2), keepdims=True)
    finite = np.isfinite(local).all(axis=(1, 2))
    owners, triangles = [], []
    for number in np.flatnonzero(finite):
        try:
            hull = ConvexHull(local[number])
        except QhullError:  # flat, or with fewer than four different points
            continue
        if hull.volume > FLATTEST:
            owners.append(number)
            triangles.append(hull.simplices)
    counts = np.array([len(t) for t in triangles], int)
    owner = np.repeat(np.array(owners, int), counts)
    corners = np.concatenate([np.zeros((0, 3), int), *triangles])
    corners = outward(local, owner, corners)
    rgb = np.clip(np.rint(255 * np.nan_to_num(0.5 + SH_C0 * on_cpu.sh_dc.double().numpy()[visible])), 0, 255)
    each = points.shape[1]
    used, faces = np.unique(owner[:, None] * each + corners, return_inverse=True)
    return PrimitiveMesh(
        points.reshape(-1, 3)[used].astype(np.float32),
        rgb.astype(np.uint8)[used // each],
        faces.reshape(-1, 3).astype(np.int32),
        parts=len(owners),
        left_out={"faint or masked": int((~visible).sum()), "flat": len(points) - len(owners)},
    )


def outward(points: np.ndarray, owner: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """The corners of triangles, turned so that they run anticlockwise viewed from outside.

    Args:
        points: of the hulls about points inside them, [N, K, 3].
        owner: the hull of each triangle, [F].
        corners: among the points of its hull, [F, 3].
    """
    a, b, c = (points[owner, corners[:, i]] for i in range(3))
    inward = (np.cross(b - a, c - a) * a).sum(axis=-1) < 0
    return np.where(inward[:, None], corners[:, [0, 2, 1]], corners)
