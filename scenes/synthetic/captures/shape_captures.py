"""Generated captures of exact shapes, on which extracted surfaces are measured.

The shapes are spheres, cylinders, tori and boxes, of which the distance of any point is known exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from luxel.render.geometry.camera import Camera, Points
from luxel.render.native import best_device
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.files.ply import save_points
from luxel.scenes.synthetic.captures.static_capture import frame_entry
from luxel.scenes.synthetic.rays.ray_caster import StaticScene, StaticSolid, Triple
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import BRICKS, MARBLE, PRINT, STONES, TILES, Surface
from luxel.scenes.synthetic.solids.motions import rotation
from luxel.scenes.synthetic.toy import as_bytes

DISTANCE, FOV = 3.4, math.radians(40)  # of the cameras from the middle; the shapes fill a ball of radius 1
SAMPLES = 2  # square root of the rays per pixel
POINTS, NOISE = 5000, 0.004  # of the file of points, as structure from motion gives them
GREEN = ((0.42, 0.55, 0.4), (0.6, 0.62, 0.5), (0.2, 0.26, 0.22))
RED = ((0.68, 0.42, 0.34), (0.75, 0.6, 0.5), (0.3, 0.18, 0.16))
BLUE = ((0.4, 0.5, 0.66), (0.62, 0.66, 0.72), (0.16, 0.2, 0.3))
SAND = ((0.72, 0.64, 0.48), (0.6, 0.5, 0.36), (0.34, 0.26, 0.18))


class SurfacePoints(NamedTuple):
    """Points on a surface.

    Args:
        xyz: [P, 3]. normals: outward, of length 1, [P, 3].
    """

    xyz: Tensor
    normals: Tensor


def _solid(shape: int, size: Triple, at: Triple, pattern: int, colours: tuple[Triple, ...]) -> StaticSolid:
    return StaticSolid(shape, size, at, Surface(pattern, 0.09, colours, gloss=0.06, grain=0.45))


def _turned(solid: StaticSolid, axis: Triple, angle: float) -> StaticSolid:
    return StaticSolid(solid.shape, solid.size, solid.centre, solid.surface, rotation(axis, angle))


def links() -> tuple[StaticSolid, ...]:
    """Rings that are linked, around a ball: smooth and curved everywhere, with places that few cameras see."""
    ring = (0.5, 0.5, 0.13)
    return (
        _turned(_solid(TORUS, ring, (-0.3, 0, 0), STONES, SAND), (1, 0, 0), 1.2),
        _turned(_solid(TORUS, ring, (0.3, 0, 0), MARBLE, BLUE), (1, 0, 0), -0.5),
        _turned(_solid(TORUS, ring, (0, 0.12, 0.42), PRINT, RED), (0, 1, 0), 1.4),
        _solid(ELLIPSOID, (0.24, 0.24, 0.24), (0, -0.1, -0.5), TILES, GREEN),
    )


def blocks() -> tuple[StaticSolid, ...]:
    """Boxes, cylinders and a ball on a plate: flat faces, edges and corners."""
    return (
        _solid(BOX, (0.75, 0.6, 0.06), (0, 0, -0.5), PRINT, SAND),
        _turned(_solid(BOX, (0.2, 0.24, 0.4), (-0.36, 0.16, -0.05), BRICKS, RED), (0, 0, 1), 0.4),
        _solid(CYLINDER, (0.2, 0.2, 0.3), (0.34, 0.22, -0.15), STONES, GREEN),
        _solid(ELLIPSOID, (0.22, 0.22, 0.22), (0.34, 0.22, 0.3), MARBLE, BLUE),
        _turned(_solid(BOX, (0.26, 0.12, 0.12), (0.1, -0.36, -0.32), TILES, BLUE), (0, 0, 1), -0.5),
        _turned(_solid(CYLINDER, (0.1, 0.1, 0.42), (-0.1, -0.05, 0.2), BRICKS, SAND), (0, 1, 0), 1.1),
    )


SHAPE_CAPTURES = {"links": links, "blocks": blocks}


def shape_cameras(views: int, side: int) -> list[Camera]:
    """Cameras all around, evenly on a sphere (Fibonacci lattice), looking at the middle."""
    cameras = []
    for index in range(views):
        z = 1 - (2 * index + 1) / views
        angle, flat = index * math.pi * (3 - math.sqrt(5)), math.sqrt(1 - z * z)
        eye = [DISTANCE * flat * math.cos(angle), DISTANCE * flat * math.sin(angle), DISTANCE * z]
        up = (0.0, 0.0, 1.0) if abs(z) < 0.99 else (1.0, 0.0, 0.0)
        cameras.append(Camera.look_at(eye, [0.0, 0.0, 0.0], up, fov_y=FOV, width=side, height=side))
    return cameras


def write_shape_capture(
    out: str | Path,
    kind: str,
    *,
    views: int = 100,
    side: int = 800,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Path:
    """Writes a capture that `luxel.scenes.open` reads: images/ with alpha, transforms.json and points3D.ply.

    Args:
        out: folder, created if it does not exist.
        kind: one of SHAPE_CAPTURES.
        views: number of images. side: their width and height, pixels.
        seed: of textures and points.
        device: to render on; None: a GPU where there is one.

    Returns:
        The folder.

    Raises:
        ValueError: an unknown kind, or no views.
    """
    if kind not in SHAPE_CAPTURES or views < 1:
        raise ValueError(
            f"kind must be one of {', '.join(SHAPE_CAPTURES)} with views >= 1, got {kind}, {views}"
        )
    folder = Path(out)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    chosen = torch.device(device or best_device())
    solids = SHAPE_CAPTURES[kind]()
    scene = StaticScene(solids, seed, chosen, shadow_radius=1.5, shadow_side=2 * side)
    cameras = shape_cameras(views, side)
    random = np.random.default_rng([seed, 71])
    images, frames, positions, colours = [], [], [], []
    for index, camera in enumerate(cameras):
        view = scene.render(camera, samples=SAMPLES)
        alpha = _averaged((view.ids >= 0).float())
        rgb = torch.where(alpha[..., None] > 0, view.rgb / alpha[..., None].clamp_min(1e-6), 0.0).clamp(0, 1)
        image = as_bytes(torch.cat([rgb, alpha[..., None]], -1).cpu().numpy())
        hits = view.depth.isfinite().nonzero()
        few = torch.from_numpy(random.integers(0, max(1, len(hits)), -(-POINTS // views)))
        at = hits[few.to(hits.device)]
        positions.append(_world_points(camera, view.depth, at).cpu().numpy())
        row, column = (at // SAMPLES).cpu().numpy().T
        colours.append(image[row, column, :3])
        images.append(image)
        frames.append(frame_entry(f"images/{index:04d}.png", camera))
    for_each(lambda k: Image.fromarray(images[k]).save(folder / f"images/{k:04d}.png"), views)
    xyz = np.concatenate(positions)
    xyz += NOISE * random.standard_normal(xyz.shape)
    save_points(folder / "points3D.ply", Points(xyz.astype(np.float32), np.concatenate(colours)))
    document = {"camera_model": "PINHOLE", "ply_file_path": "points3D.ply", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(document, indent=1))
    return folder


def distances(solids: Sequence[StaticSolid], points: Tensor) -> Tensor:
    """Signed distance of points from the union of solids, negative inside; exact outside and near its surface.

    Args:
        points: [P, 3], float64.

    Returns:
        [P].
    """
    return torch.stack([_distance(solid, points) for solid in solids]).amin(0)


def visible_surface(
    solids: Sequence[StaticSolid],
    cameras: Sequence[Camera],
    spacing: float = 0.005,
    device: torch.device | str = "cpu",
) -> SurfacePoints:
    """What the cameras see of the solids, about one point in each cube of a side of ``spacing``.

    Rays are cast on ``device``, and the points are on it.
    """
    scene = StaticScene(solids, device=torch.device(device), shadow_side=0)
    hits = []
    for camera in cameras:
        depth = scene.depth(camera)
        hits.append(_world_points(camera, depth, depth.isfinite().nonzero()))
    retained = _one_of_each_cube(torch.cat(hits), spacing).requires_grad_()
    with torch.enable_grad():
        (normals,) = torch.autograd.grad(distances(solids, retained).sum(), retained)
    return SurfacePoints(retained.detach(), torch.nn.functional.normalize(normals, dim=-1))


def _distance(solid: StaticSolid, points: Tensor) -> Tensor:
    local = (points - points.new_tensor(solid.centre)) @ torch.as_tensor(solid.axes).to(points)
    a, b, c = solid.size
    if solid.shape == ELLIPSOID:
        if not a == b == c:
            raise ValueError("distances: of ellipsoids only balls are known exactly")
        return local.norm(dim=-1) - a
    if solid.shape == TORUS:
        return torch.hypot(local[:, :2].norm(dim=-1) - a, local[:, 2]) - c
    if solid.shape == CYLINDER:
        beyond = torch.stack([local[:, :2].norm(dim=-1) - a, local[:, 2].abs() - c], -1)
    else:
        beyond = local.abs() - points.new_tensor([a, b, c])
    return beyond.clamp_min(0).norm(dim=-1) + beyond.amax(-1).clamp_max(0)


def _one_of_each_cube(points: Tensor, side: float) -> Tensor:
    """The first of the points in each cube of a grid, [K, 3]."""
    cubes = (points / side).floor().long()
    low = cubes.amin(0)
    spans = cubes.amax(0) - low + 1
    x, y, z = (cubes - low).unbind(1)
    _, cube = ((x * spans[1] + y) * spans[2] + z).unique(return_inverse=True)
    rows = torch.arange(len(points), device=points.device)
    first = torch.full_like(rows, len(points))[: int(cube.max()) + 1]
    return points[first.scatter_reduce_(0, cube, rows, "amin")]


def _world_points(camera: Camera, depth: Tensor, at: Tensor) -> Tensor:
    """What some rays of a depth map hit, in world axes, float64 [R, 3].

    Args:
        depth: along the camera's axis, [H * samples, W * samples].
        at: row and column of the rays, [R, 2].
    """
    samples = depth.shape[0] // camera.height
    row, column = at.unbind(1)
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    x, y = ((column.double() + 0.5) / samples - cx) / fx, ((row.double() + 0.5) / samples - cy) / fy
    pose = camera.world_to_cam.double().to(depth.device)
    rays = torch.stack([x, y, torch.ones_like(x)], -1) @ pose[:3, :3]
    return rays * depth[row, column].double()[:, None] + camera.position.double().to(depth.device)


def _averaged(values: Tensor) -> Tensor:
    height, width = (side // SAMPLES for side in values.shape)
    return values.view(height, SAMPLES, width, SAMPLES).mean((1, 3))
