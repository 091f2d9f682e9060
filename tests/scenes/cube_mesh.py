"""A cube, as mesh files have it."""

from __future__ import annotations

import numpy as np
import torch

from luxel.render.mesh.triangles import TriangleMesh
from luxel.scenes.files.meshes.mesh import Mesh

CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
QUADS = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])


def cube() -> Mesh:
    """Twelve triangles."""
    faces = np.concatenate([QUADS[:, [0, 1, 2]], QUADS[:, [0, 2, 3]]]).astype(np.int32)
    return Mesh(CORNERS, (20 * np.arange(24).reshape(8, 3) % 256).astype(np.uint8), faces)


def as_tensors(mesh: Mesh) -> TriangleMesh:
    return TriangleMesh(torch.from_numpy(mesh.xyz), torch.from_numpy(mesh.faces))


def is_cube(mesh: Mesh) -> bool:
    """Closed, of volume 1, and facing outward."""
    tensors = as_tensors(mesh)
    return len(mesh.xyz) == 8 and tensors.is_closed() and abs(tensors.volume().item() - 1) < 1e-6
