"""The cases of `sanitize.py` of distances: to triangle meshes, and rays to the surface of a distance field."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from luxel.render.fields.drawing.sphere_tracer import DeviceSphereTracer
from luxel.render.mesh.marching_cubes import field_surface
from luxel.render.mesh.tree import MeshTree
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.ops.field.sphere_trace import Rays, sphere_trace
from luxel.render.ops.mesh.mesh_distance import Sign, nearest_on_mesh


def ring(x: Tensor) -> Tensor:
    """Distance to a torus in the middle of the unit box."""
    local = x - 0.5
    around = (local[..., 0].square() + local[..., 1].square()).sqrt() - 0.3
    return (around.square() + local[..., 2].square()).sqrt() - 0.1


def measure(mesh: TriangleMesh, count: int, sign: Sign, device: torch.device) -> dict[str, Tensor]:
    """Distances of random points, far ones, and broken ones."""
    points = torch.rand(count, 3, generator=torch.Generator().manual_seed(count))
    for k, value in enumerate((1e4, -1e4, math.nan, math.inf, -math.inf)):
        points[k::50, k % 3] = value
    distance, nearest = nearest_on_mesh(points.to(device), MeshTree.build(mesh).to(device), sign)
    return {"distance": distance.cpu(), "away": (points - nearest.cpu()).norm(dim=1).nan_to_num(0, 0, 0)}


def trace(
    count: int, cells: int, steps: int, given: bool, device: torch.device, planned: bool = False
) -> dict[str, Tensor]:
    """How many random rays hit, or of a camera's pixels, and where; broken ones among them."""
    generator = torch.Generator().manual_seed(count)
    along = (torch.arange(cells, device=device) + 0.5) / cells
    grid = ring(torch.stack(torch.meshgrid(along, along, along, indexing="ij"), -1)).contiguous()
    origins = 3 * torch.rand(count, 3, generator=generator) - 1
    directions = torch.nn.functional.normalize(torch.rand(count, 3, generator=generator) - origins, dim=-1)
    rays = torch.cat([origins, directions], -1)
    if count > 9:
        rays[3, 4], rays[7, 0], rays[8, 3:] = math.nan, math.inf, torch.tensor([0.0, 0, 1])
    chosen = Rays(count, rays.to(device))
    if not given:
        pose = torch.tensor([[0.25, 0, 0, 0.5], [0, 0, 0.25, -1.2], [0, -0.25, 0, 0.55]])
        lens = torch.tensor([40.0, 42.0, 20.0, count / 80])
        chosen = Rays(count, cam_to_unit=pose.to(device), intrinsics=lens.to(device), width=40)
    if planned:
        plan = DeviceSphereTracer(device, steps, 0.0)
        limits = {"tolerance": 1e-3, "pixels": 0.0}
        with plan.traced(lambda x, live: ring(x)[:, None], None, chosen, grid, **limits) as traced:
            hits = traced()
    else:
        hits = sphere_trace(chosen, grid, ring, tolerance=1e-3, steps=steps)
    if not len(hits.x):
        return {"share": torch.zeros(1)}
    near = (ring(hits.x).abs() < 2e-3).float().mean()
    # Of all: a ray that grazes may hit on one device and miss on another.
    return {
        "share": torch.tensor([len(hits.x) / count]),
        "middle": hits.x.mean(0).cpu(),
        "near": near.cpu()[None],
    }


def mesh_cases() -> dict[str, Callable[..., Any]]:
    """Every case by name, as a function of the device."""
    out: dict[str, Callable[..., Any]] = {}
    closed = field_surface(ring, 24)
    signs: tuple[Sign, ...] = ("none", "pseudonormal", "parity")
    for count in (0, 1, 129, 20_001):
        for sign in signs:
            out[f"mesh distance of {count}, {sign}"] = partial(measure, closed, count, sign)
    for faces in (1, 2, 3, 5, 64, 65):
        part = TriangleMesh(closed.vertices, closed.faces[:faces])
        out[f"mesh distance to {faces} triangles"] = partial(measure, part, 400, "parity")
    for count in (0, 1, 31, 129, 20_000):
        for cells in (1, 33):
            out[f"trace {count} rays, {cells} cells"] = partial(trace, count, cells, 60, True)
    out["trace a camera's pixels"] = partial(trace, 4000, 32, 60, False)
    for count in (40, 4000):
        out[f"trace {count} of a camera's pixels, by a plan"] = partial(
            trace, count, 32, 60, False, planned=True
        )
    out["trace a few steps"] = partial(trace, 4000, 8, 2, False)
    return out
