"""A synthetic closed mesh with fine detail, for distance fields."""

from __future__ import annotations

import math

import numpy as np

from luxel.scenes.files.meshes.mesh import Mesh


def ridged_knot(
    along: int = 2600, around: int = 40, *, p: int = 2, q: int = 3, radius: float = 0.17, ridges: float = 0.1
) -> Mesh:
    """A torus knot whose tube has fine spiral ridges and studs, closed and without self-intersections.

    208,000 triangles by default; ridges are about 0.02 apart, the mesh is about 2.9 wide.

    Args:
        along, around: vertices along the knot and around its tube; 2 along * around triangles.
        p, q: windings around the axis and through the hole; coprime.
        radius: of the tube, world units.
        ridges: their height, in units of the radius; 0: a smooth tube.
    """
    t = 2 * math.pi * np.arange(along) / along
    ring = 1.0 + 0.42 * np.cos(q * t)
    centre = np.stack([ring * np.cos(p * t), ring * np.sin(p * t), 0.42 * np.sin(q * t)], -1)
    forward = np.roll(centre, -1, axis=0) - np.roll(centre, 1, axis=0)
    forward /= np.linalg.norm(forward, axis=1, keepdims=True)
    # Away from the ring around which the knot winds: never parallel to the tube, and periodic.
    core = np.stack([np.cos(p * t), np.sin(p * t), np.zeros_like(t)], -1)
    side = centre - core
    side -= (side * forward).sum(1, keepdims=True) * forward
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    up = np.cross(forward, side)

    s, angle = np.meshgrid(t, 2 * math.pi * np.arange(around) / around, indexing="ij")
    spiral = np.cos(4 * angle + 90 * s)
    studs = np.maximum(0, np.cos(120 * s) * np.cos(6 * angle)) ** 2
    size = radius * (1 + 0.1 * np.cos(5 * s) + ridges * (0.6 * spiral + 0.4 * studs))
    local = np.cos(angle)[..., None] * side[:, None] + np.sin(angle)[..., None] * up[:, None]
    xyz = (centre[:, None] + size[..., None] * local).reshape(-1, 3)
    return Mesh(xyz.astype(np.float32), _hues(s).reshape(-1, 3), _torus_faces(along, around))


def _torus_faces(along: int, around: int) -> np.ndarray:
    """Two triangles per quadrilateral of a grid that is periodic in both directions, outward for `ridged_knot`."""
    i, j = np.meshgrid(np.arange(along), np.arange(around), indexing="ij")
    after, beside = (i + 1) % along, (j + 1) % around
    a, b, c, d = (u * around + v for u, v in ((i, j), (i, beside), (after, beside), (after, j)))
    return np.stack([np.stack([a, b, c], -1), np.stack([a, c, d], -1)], 2).reshape(-1, 3).astype(np.int32)


def _hues(s: np.ndarray) -> np.ndarray:
    """Colours around the circle of hues, uint8 [..., 3]."""
    wave = 0.55 + 0.35 * np.cos(s[..., None] + 2 * math.pi * np.arange(3) / 3)
    return (255 * wave).astype(np.uint8)
