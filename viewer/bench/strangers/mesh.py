"""Distances between the mesh of a run and the exact solid that it was trained on, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.mesh.tree import MeshTree
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.ops.mesh.mesh_distance import mesh_distance
from luxel.scenes.files.meshes.mesh_files import read_mesh
from luxel.scenes.synthetic.captures.exact_solid import exact_solid_cameras
from luxel.scenes.synthetic.rays.distance_solid import DistanceSolid
from luxel.viewer.bench.strangers.trained import luxel

SAMPLES = 200_000  # points on the mesh
LOOKS, SIDE = 24, 128  # images of which the hits are the points of the solid that the mesh should reach


def mesh_scores(
    solid: DistanceSolid, seed: int, run: Path, device: torch.device, seconds: float
) -> dict[str, Any]:
    """Extracts the mesh of a run by `luxel export --mesh` and measures it.

    Args:
        solid: the truth.
        seed: of its capture.
        run: folder of the run.
        device: to extract and measure on.
        seconds: after which the extraction is ended.

    Returns:
        mesh_accuracy: mean distance of points on the mesh from the solid; mesh_completeness: mean distance of points
        of the solid that are seen from outside from the mesh; both in thousandths of the solid's radius; mesh_seconds
        of the extraction.

    Raises:
        OutOfTime, RuntimeError: see `luxel`; CaptureError: the mesh cannot be read.
    """
    path = run / "mesh.ply"
    words = ["export", str(run), "--out", str(path), "--mesh", "--device", device.type]
    wall = luxel(words, run.with_suffix(".log"), seconds)
    return {**distances_of(path, solid, exact_solid_cameras(LOOKS, SIDE, seed=seed)), "mesh_seconds": wall}


def distances_of(path: Path, solid: DistanceSolid, cameras: list[Camera]) -> dict[str, float]:
    """mesh_accuracy and mesh_completeness of a mesh file, see `mesh_scores`; ``cameras`` see the solid."""
    read = read_mesh(path)
    vertices = torch.from_numpy(read.xyz).float().to(solid.device)
    mesh = TriangleMesh(vertices, torch.from_numpy(read.faces).long().to(solid.device))
    unit = 1e3 / solid.radius
    visible = visible_points(solid, cameras)
    return {
        "mesh_accuracy": unit * float(solid.distances(random_points(mesh, SAMPLES)).abs().mean()),
        "mesh_completeness": unit * float(mesh_distance(visible, MeshTree.build(mesh), "none").mean()),
    }


def random_points(mesh: TriangleMesh, count: int) -> Tensor:
    """Random points on a mesh, uniform by area, [count, 3]."""
    generator = torch.Generator().manual_seed(0)
    ends = mesh.areas().double().cumsum(0)
    drawn = torch.rand(3, count, generator=generator, dtype=torch.float64).to(ends)
    face = torch.searchsorted(ends, drawn[0] * ends[-1]).clamp_max(len(ends) - 1)
    a, b, c = mesh.corners()[face].unbind(1)
    across, along = drawn[1:, :, None].to(a)
    root = across.sqrt()  # Osada et al. 2002, equation 1
    return (1 - root) * a + root * (1 - along) * b + root * along * c


def visible_points(solid: DistanceSolid, cameras: list[Camera]) -> Tensor:
    """What the rays through the middles of the cameras' pixels hit first, [P, 3]."""
    points = []
    for camera, (_, depth) in zip(cameras, solid.images(cameras, samples=1), strict=True):
        row, column = depth.isfinite().nonzero().unbind(1)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        rays = torch.stack([(column + 0.5 - cx) / fx, (row + 0.5 - cy) / fy, torch.ones_like(row)], -1)
        turn = camera.world_to_cam[:3, :3].to(depth)
        ahead = (rays[:, :, None] * turn).sum(1) * depth[row, column, None]
        points.append(ahead + camera.position.to(depth))
    return torch.cat(points)
