"""The surface of a scene of primitives, from its depth as cameras see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.mesh.depth_fusion import BYTES, DepthFusion, FusedSurface
from luxel.render.mesh.triangles import TriangleMesh, components
from luxel.render.primitives import Parameters
from luxel.render.rasterize import rasterize
from luxel.render.runs.memory import free_memory

OPAQUE = 0.5  # alpha of pixels that show a surface
SAMPLES = 4096  # pixels of a camera that the box is taken from
TRIM = 0.005  # share of them beyond each side of the box
ROOM = 1.05  # of the box, beyond what is in it
LEAST_PART = 0.01  # of the triangles of the largest part; smaller parts are left out
SPARE = 1.3  # memory that the work takes beside the grid


def scene_surface(
    scene: Parameters,
    cameras: Sequence[Camera],
    resolution: int = 512,
    *,
    time: float | None = None,
    least_part: float = LEAST_PART,
    on_progress: Callable[[str, float], None] = lambda stage, share: None,
    say: Callable[[str], None] = lambda text: None,
    **render: Any,
) -> FusedSurface:
    """A triangle mesh of what the cameras see of a scene; depth is where half of the light has been stopped.

    Args:
        scene: primitives, on the device of all work.
        cameras: from which it is rendered; where they look from all sides, the surface is closed.
        resolution: spacings of the grid along the longest side of what is seen.
        time: of scenes that move.
        least_part: parts with fewer triangles than this share of those of the largest are left out.
        on_progress: called with the stage and the share of it that is done.
        say: receives the size of the grid, before it is filled.
        render: options of `luxel.render.rasterize.rasterize` that change alpha.

    Raises:
        LuxelError: there are no cameras, they see nothing, or the grid needs more memory than there is.
    """
    if not cameras:
        raise LuxelError("There are no cameras to fuse depth from.", "Give a scene with its cameras.")
    device = scene.device
    cameras = [camera.to(device) for camera in cameras]
    options = render | {"time": time if scene.moves else None, "depth": True}

    @torch.no_grad()
    def view(camera: Camera) -> tuple[Tensor, Tensor]:
        frame = rasterize(scene, camera, **options)
        assert frame.median_depth is not None
        return torch.where(frame.alpha > OPAQUE, frame.median_depth, 0.0), frame.rgb

    def each(stage: str, work: Callable[[Camera], None]) -> None:
        for k, camera in enumerate(cameras):
            work(camera)
            on_progress(stage, (k + 1) / len(cameras))

    seen: list[Tensor] = []
    each("finding what the cameras see", lambda camera: seen.append(_points(view(camera)[0], camera)))
    low, side = _box(torch.cat(seen))
    fusion = DepthFusion(low, side, resolution, device)
    each("reserving the grid", lambda camera: fusion.reserve(view(camera)[0], camera))
    needed = fusion.blocks * BYTES
    say(f"grid: spacing {fusion.spacing:.4g}, {fusion.blocks:,} blocks, {needed / 2**30:.2f} GiB")
    if needed * SPARE > free_memory(device):
        raise LuxelError(
            f"The mesh needs a grid of {needed / 2**30:.1f} GiB, more than there is memory.",
            f"Give a lower resolution than {resolution}.",
        )
    each("fusing depth", lambda camera: fusion.add(*view(camera), camera))
    surface = fusion.surface()
    if not len(surface.mesh.faces):
        raise LuxelError("The cameras see no surface.", "Train the scene longer, or lower the resolution.")
    return without_small_parts(surface, least_part)


def without_small_parts(surface: FusedSurface, least: float) -> FusedSurface:
    """Without parts of fewer triangles than a share of those of the largest part, and without unused vertices."""
    faces = surface.mesh.faces.long()
    of_face = components(surface.mesh)[faces[:, 0]]
    sizes = torch.bincount(of_face)
    kept = faces[sizes[of_face] >= least * sizes.max()]
    used, renamed = kept.unique(return_inverse=True)
    mesh = TriangleMesh(surface.mesh.vertices[used], renamed.view(-1, 3).to(torch.int32))
    return FusedSurface(mesh, surface.colours[used])


def _points(depth: Tensor, camera: Camera) -> Tensor:
    """World points of evenly chosen pixels of a depth map with a surface, [P, 3]."""
    rows, columns = (depth > 0).nonzero()[:: max(1, depth.numel() // SAMPLES)].unbind(1)
    z = depth[rows, columns]
    fx, fy, cx, cy = camera.intrinsics.unbind()
    x = torch.stack([(columns + 0.5 - cx) / fx * z, (rows + 0.5 - cy) / fy * z, z], -1)
    return (x - camera.world_to_cam[:3, 3]) @ camera.world_to_cam[:3, :3]


def _box(points: Tensor) -> tuple[Tensor, float]:
    """The lowest corner and the longest side of the box around points, without the outermost ones."""
    points = points[points.isfinite().all(1)]
    if not len(points):
        raise LuxelError("The cameras see no surface.", "Train the scene longer.")
    ordered = points.sort(0).values
    cut = int(TRIM * (len(points) - 1))
    low, high = ordered[cut], ordered[len(points) - 1 - cut]
    middle, half = (low + high) / 2, ROOM * (high - low) / 2
    side = 2 * float(half.max())
    if not side > 0:
        raise LuxelError("The cameras see a single point.", "Train the scene longer.")
    return middle - half.max(), side
