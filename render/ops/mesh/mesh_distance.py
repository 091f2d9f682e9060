"""Stage: exact distances of points to a triangle mesh (kernels of the same name)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from luxel.render.mesh.tree import MeshTree
from luxel.render.native import library_for
from luxel.render.ops.mesh.tree_shape import tree_shape
from luxel.render.ops.registry import aligned, define, register_implementation, require

Sign = Literal["none", "pseudonormal", "parity"]
SIGNS: dict[str, int] = {"none": 0, "pseudonormal": 1, "parity": 2}  # as in cuda/abi/mesh.h

define(
    "mesh_distance(Tensor points, Tensor boxes, Tensor triangles, Tensor pseudonormals, int sign, bool with_nearest)"
    " -> (Tensor, Tensor)"
)


def mesh_distance(points: Tensor, tree: MeshTree, sign: Sign = "pseudonormal") -> Tensor:
    """The exact distance of points to a triangle mesh, negative inside; nothing waits for the device.

    The nearest triangle is searched by branch and bound in a tree of boxes. See
    `luxel.render.reference.mesh.mesh_distance.mesh_distance_reference`.

    Args:
        points: [N, 3], float32 or (CPU only) float64, in the mesh's units.
        tree: of the mesh, on the device and in the type of the points.
        sign: "pseudonormal" by the angle-weighted normal of the nearest face, edge or corner (Baerentzen and Aanaes
            2005), right for closed meshes whose triangles run anticlockwise viewed from outside; "parity" by the
            majority of five rays that cross the mesh an odd number of times, for any other; "none": at least 0.

    Returns:
        [N]; NaN where a point is not finite. No gradient: it is (p - nearest point) / distance.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return _call(points, tree, sign, False)[0]


def nearest_on_mesh(points: Tensor, tree: MeshTree, sign: Sign = "pseudonormal") -> tuple[Tensor, Tensor]:
    """The same, and the nearest points of the mesh, [N] and [N, 3]."""
    return _call(points, tree, sign, True)


def _call(points: Tensor, tree: MeshTree, sign: Sign, with_nearest: bool) -> tuple[Tensor, Tensor]:
    if sign not in SIGNS:
        raise ValueError(f"mesh_distance: sign must be one of {tuple(SIGNS)}, got {sign!r}")
    return torch.ops.luxel.mesh_distance(
        points.detach(), tree.boxes, tree.triangles, tree.pseudonormals, SIGNS[sign], with_nearest
    )


def _run(
    points: Tensor, boxes: Tensor, triangles: Tensor, pseudonormals: Tensor, sign: int, with_nearest: bool
) -> tuple[Tensor, Tensor]:
    stage, dtype = "mesh_distance", points.dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{stage}: points must be float32 or float64, got {dtype}")
    if points.dim() != 2:
        raise ValueError(f"{stage}: points must be [N, 3], got {list(points.shape)}")
    if sign not in SIGNS.values():
        raise ValueError(f"{stage}: sign must be 0 to {len(SIGNS) - 1}, got {sign}")
    depth, leaf = tree_shape(stage, boxes, triangles)
    slots = leaf << depth
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "points": (points, dtype, (points.shape[0], 3)),
        "boxes": (boxes, dtype, ((1 << depth) - 1, 2, 6)),
        "triangles": (triangles, dtype, (slots, 3, 3)),
        "pseudonormals": (pseudonormals, dtype, (slots, 7, 3)),
    }
    require(stage, points.device, expected)
    distance, nearest = outputs = _fake(points, boxes, triangles, pseudonormals, sign, with_nearest)
    library_for(points.device).call(
        stage,
        points.device,
        dtype,
        points=points.contiguous(),
        count=points.shape[0],
        boxes=aligned(boxes),
        triangles=triangles.contiguous(),
        pseudonormals=pseudonormals.contiguous(),
        depth=depth,
        leaf=leaf,
        sign=sign,
        distance=distance,
        nearest=nearest if with_nearest else None,
    )
    return outputs


def _fake(
    points: Tensor, boxes: Tensor, triangles: Tensor, pseudonormals: Tensor, sign: int, with_nearest: bool
) -> tuple[Tensor, Tensor]:
    n = points.shape[0]
    return points.new_empty(n), points.new_empty((n, 3) if with_nearest else (0,))


register_implementation("mesh_distance", _run, _fake)
