"""Stage: the first triangle that each ray meets (kernels of the same name)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.mesh.tree import MeshTree
from luxel.render.native import library_for
from luxel.render.ops.mesh.tree_shape import tree_shape
from luxel.render.ops.registry import aligned, define, register_implementation, require

define(
    "trace_rays(Tensor? rays, Tensor? cam_to_world, Tensor? intrinsics, int width, int height, Tensor boxes,"
    " Tensor triangles, Tensor numbers, float near, float far) -> (Tensor, Tensor, Tensor, Tensor)"
)


class Hits(NamedTuple):
    """What rays meet first; for an image N is H W, row by row.

    Args:
        face: number of the triangle, int32 [N]; -1 where nothing is met.
        weights: barycentric coordinates of the corners b and c, [N, 2]; that of a is 1 - b - c. 0 without a triangle.
        t: distance in lengths of the ray's direction, [N]; 0 without a triangle. For an image: along the optical axis.
        front: whether the corners run anticlockwise viewed from the origin, bool [N].
    """

    face: Tensor
    weights: Tensor
    t: Tensor
    front: Tensor


def trace_rays(rays: Tensor, tree: MeshTree, near: float = 0.0, far: float = math.inf) -> Hits:
    """The first triangle that each ray meets, from either side; nothing waits for the device.

    Rays that meet a closed mesh meet one of its triangles, also at edges and corners (Woop, Benthin and Wald 2013,
    "Watertight Ray/Triangle Intersection"). See `luxel.render.reference.mesh.trace_rays.trace_rays_reference`.

    Args:
        rays: origin and direction of any length above 0, [N, 6], float32 or (CPU only) float64. A ray that is not
            finite meets nothing.
        tree: of the mesh, on the device and in the type of the rays.
        near, far: first and last distance, in lengths of the direction; at least 0.

    Returns:
        See `Hits`; no gradient.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return _call(rays.detach(), None, None, 0, 0, tree, near, far)


def trace_camera(camera: Camera, tree: MeshTree) -> Hits:
    """The first triangle behind the centre of each pixel of a pinhole camera, between its near and far planes.

    Args:
        camera: one, without a lens, on the device and in the type of the tree.
        tree: of the mesh.

    Returns:
        See `Hits`; N = H W, row by row.

    Raises:
        ValueError: the camera is a batch or has a lens, or types or devices do not fit.
    """
    if camera.batched or camera.lens is not None:
        raise ValueError(
            f"trace_camera: camera must be one pinhole, got {list(camera.world_to_cam.shape)} "
            f"{'with' if camera.lens is not None else 'without'} a lens"
        )
    pose = camera.cam_to_world[:3].detach().contiguous()
    lens, size = camera.intrinsics.detach(), (camera.width, camera.height)
    return _call(None, pose, lens, *size, tree, max(camera.near, 0.0), camera.far)


def _call(
    rays: Tensor | None,
    pose: Tensor | None,
    intrinsics: Tensor | None,
    width: int,
    height: int,
    tree: MeshTree,
    near: float,
    far: float,
) -> Hits:
    if not 0 <= near <= far:
        raise ValueError(f"trace_rays: near and far must be 0 <= near <= far, got {near} and {far}")
    face, weights, t, front = torch.ops.luxel.trace_rays(
        rays, pose, intrinsics, width, height, tree.boxes, tree.triangles, tree.numbers, near, far
    )
    return Hits(face, weights, t, front)


def _run(
    rays: Tensor | None,
    cam_to_world: Tensor | None,
    intrinsics: Tensor | None,
    width: int,
    height: int,
    boxes: Tensor,
    triangles: Tensor,
    numbers: Tensor,
    near: float,
    far: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    stage, dtype = "trace_rays", boxes.dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{stage}: tree must be float32 or float64, got {dtype}")
    depth, leaf = tree_shape(stage, boxes, triangles)
    slots = leaf << depth
    outputs = _fake(rays, cam_to_world, intrinsics, width, height, boxes, triangles, numbers, near, far)
    face, weights, t, front = outputs
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "rays": (rays, dtype, (len(face), 6)),
        "cam_to_world": (cam_to_world, dtype, (3, 4)),
        "intrinsics": (intrinsics, dtype, (4,)),
        "boxes": (boxes, dtype, ((1 << depth) - 1, 2, 6)),
        "triangles": (triangles, dtype, (slots, 3, 3)),
        "numbers": (numbers, torch.int32, (slots,)),
    }
    require(stage, boxes.device, expected)
    if not len(face):
        return outputs
    library_for(boxes.device).call(
        stage,
        boxes.device,
        dtype,
        rays=None if rays is None else rays.contiguous(),
        cam_to_world=None if cam_to_world is None else cam_to_world.contiguous(),
        intrinsics=None if intrinsics is None else intrinsics.contiguous(),
        width=width,
        count=len(face),
        boxes=aligned(boxes),
        triangles=triangles.contiguous(),
        numbers=numbers.contiguous(),
        depth=depth,
        leaf=leaf,
        near_t=near,
        far_t=far,
        face=face,
        weights=weights,
        t=t,
        front=front,
    )
    return outputs


def _fake(
    rays: Tensor | None,
    cam_to_world: Tensor | None,
    intrinsics: Tensor | None,
    width: int,
    height: int,
    boxes: Tensor,
    triangles: Tensor,
    numbers: Tensor,
    near: float,
    far: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n = width * height if rays is None else rays.shape[0]
    face = boxes.new_empty(n, dtype=torch.int32)
    return face, boxes.new_empty((n, 2)), boxes.new_empty(n), boxes.new_empty(n, dtype=torch.bool)


register_implementation("trace_rays", _run, _fake)
