"""The surface of a scene of primitives, from its depth as cameras see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.mesh import texture_bake
from luxel.render.mesh.decimation import decimated
from luxel.render.mesh.depth_fusion import BYTES, DepthFusion, FusedSurface
from luxel.render.mesh.extras import mesh_package
from luxel.render.mesh.holes import fill_holes
from luxel.render.mesh.texture_atlas import unwrap
from luxel.render.mesh.triangles import TriangleMesh, components
from luxel.render.primitives import Parameters
from luxel.render.runs.memory import free_memory
from luxel.render.surfaces.surface_depth import surface_depth

SAMPLES = 4096  # pixels of a camera that the box is taken from
TRIM = 0.005  # share of them beyond each side of the box
MARGIN = 1.05  # of the box, beyond what is in it
MIN_PART = 0.01  # of the triangles of the largest part; smaller parts are left out
SPARE = 1.3  # memory that the work takes next to the grid
CACHE_SHARE = 0.4  # share of the free memory that renders are stored in
OF_PIXEL = 16  # bytes: depth and colour

Report = Callable[[str, float], None]


@dataclass(frozen=True)
class Finish:
    """What is done with a surface after depth is fused.

    Args:
        fill_holes: openings are closed whose length around is at most this share of the diagonal of the surface's box.
        triangles: the most that stay, at least 4; None: all.
        texture: pixels along each side of its image; None: it has colours of vertices alone.
    """

    fill_holes: float = 0.0
    triangles: int | None = None
    texture: int | None = None


class FinishedSurface(NamedTuple):
    """A surface with colours of its vertices, and perhaps a texture.

    Args:
        mesh: triangles; with a texture vertices are doubled where it is cut.
        colours: of the vertices, RGB in [0, 1], [V, 3].
        uv: place of the vertices in the texture, (0, 0) at its top left corner, [V, 2]; None without one.
        image: RGB in [0, 1], [pixels, pixels, 3]; None without one.
    """

    mesh: TriangleMesh
    colours: Tensor
    uv: Tensor | None = None
    image: Tensor | None = None


class SceneViews:
    """Depth and colours of a scene in its cameras, rendered once where memory allows, else as often as they are used.

    A camera with a lens is used as the pinhole of the same focal length.

    Args:
        scene: primitives, on the device of all work.
        cameras: at least one.
        on_progress: called with the stage and the share of it that is done.
        exact: see `luxel.render.surfaces.surface_depth.surface_depth`.
        turn: makes a context in which a view is rendered, such as a lock of others that render on the device.
        render: options of `luxel.render.raster.rasterize.rasterize`.
    """

    def __init__(
        self,
        scene: Parameters,
        cameras: Sequence[Camera],
        on_progress: Report,
        exact: bool = False,
        turn: Callable[[], AbstractContextManager[object]] = nullcontext,
        **render: Any,
    ) -> None:
        self._turn = turn
        self.cameras = [replace(camera.to(scene.device), lens=None) for camera in cameras]
        self._scene, self._render, self._on_progress, self._exact = scene, render, on_progress, exact
        self._cached: dict[int, tuple[Tensor, Tensor]] = {}
        pixels = sum(camera.width * camera.height for camera in cameras)
        self._caches = pixels * OF_PIXEL < CACHE_SHARE * free_memory(scene.device)

    def forget(self) -> None:
        """Frees the renders; later ones are not retained."""
        self._cached, self._caches = {}, False

    def each(self, stage: str) -> Iterator[tuple[Tensor, Tensor, Camera]]:
        """Depth along z [H, W], 0 where the scene is not opaque, colours [H, W, 3] and the camera, of all cameras."""
        for k, camera in enumerate(self.cameras):
            yield (*self._view(k, camera), camera)
            self._on_progress(stage, (k + 1) / len(self.cameras))

    @torch.no_grad()
    def _view(self, k: int, camera: Camera) -> tuple[Tensor, Tensor]:
        if k in self._cached:
            return self._cached[k]
        with self._turn():
            depth, frame = surface_depth(self._scene, camera, exact=self._exact, **self._render)
            view = depth, frame.rgb
            if self._caches:
                view = view[0], view[1].contiguous()  # not a part of the image of all channels
                self._cached[k] = view
        return view


def scene_surface(
    scene: Parameters, cameras: Sequence[Camera], resolution: int = 512, **options: Any
) -> FusedSurface:
    """`finished_surface` without a finish: the triangles as fused, and the colours of their vertices."""
    made = finished_surface(scene, cameras, resolution, **options)
    return FusedSurface(made.mesh, made.colours)


def finished_surface(
    scene: Parameters,
    cameras: Sequence[Camera],
    resolution: int = 512,
    finish: Finish | None = None,
    *,
    time: float | None = None,
    min_part: float = MIN_PART,
    exact: bool = False,
    turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    on_progress: Report = lambda stage, share: None,
    say: Callable[[str], None] = lambda text: None,
    **render: Any,
) -> FinishedSurface:
    """A triangle mesh of what the cameras see of a scene; depth is where half of the light has been stopped.

    Args:
        scene: primitives, on the device of all work.
        cameras: from which it is rendered; where they look from all sides, the surface is closed.
        resolution: spacings of the grid along the longest side of what is visible.
        finish: closing of holes, fewer triangles, a texture; None: nothing of these.
        time: of scenes that move.
        min_part: parts with fewer triangles than this share of those of the largest are left out.
        exact: see `luxel.render.surfaces.surface_depth.surface_depth`.
        turn: makes a context in which each view is rendered, such as a lock of others that render on the device.
        on_progress: called with the stage and the share of it that is done.
        say: receives the size of the grid, before it is filled, and what the finish did.
        render: options of `luxel.render.raster.rasterize.rasterize` that change alpha.

    Raises:
        LuxelError: there are no cameras, they see nothing, the grid or the texture needs more memory than there is, or
            a package is not installed.
    """
    if not cameras:
        raise LuxelError("There are no cameras to fuse depth from.", "Give a scene with its cameras.")
    finish = finish or Finish()
    _check_finish(finish, scene.device)
    render["time"] = time if scene.moves else None
    views = SceneViews(scene, cameras, on_progress, exact, turn, **render)
    surface, tolerance = _fused(views, resolution, scene.device, say)
    surface = without_small_parts(surface, min_part)
    if finish.fill_holes > 0:
        on_progress("closing holes", 0)
        vertices = surface.mesh.vertices
        diagonal = float((vertices.amax(0) - vertices.amin(0)).norm())
        surface, closed, left = fill_holes(surface, finish.fill_holes * diagonal)
        say(f"holes: {closed:,} closed, {left:,} larger openings stay")
    if finish.triangles is not None:
        on_progress("decimating", 0)
        before = len(surface.mesh.faces)
        surface = decimated(surface, finish.triangles)
        say(f"triangles: {len(surface.mesh.faces):,} of {before:,}")
    if not finish.texture:
        return FinishedSurface(*surface)
    return _textured(surface, views, finish.texture, tolerance, on_progress, say)


def without_small_parts(surface: FusedSurface, least: float) -> FusedSurface:
    """Without parts of fewer triangles than a share of those of the largest part, and without unused vertices."""
    faces = surface.mesh.faces.long()
    of_face = components(surface.mesh)[faces[:, 0]]
    sizes = torch.bincount(of_face)
    retained = faces[sizes[of_face] >= least * sizes.max()]
    used, renamed = retained.unique(return_inverse=True)
    mesh = TriangleMesh(surface.mesh.vertices[used], renamed.view(-1, 3).to(torch.int32))
    return FusedSurface(mesh, surface.colours[used])


def _fused(
    views: SceneViews, resolution: int, device: torch.device, say: Callable[[str], None]
) -> tuple[FusedSurface, float]:
    """The surface of all depth maps, and the distance by which these may differ from it."""
    stage = "finding what the cameras see"
    low, side = _box(torch.cat([_points(depth, camera) for depth, _, camera in views.each(stage)]))
    fusion = DepthFusion(low, side, resolution, device)
    for depth, _, camera in views.each("reserving the grid"):
        fusion.reserve(depth, camera)
    needed = fusion.blocks * BYTES
    say(f"grid: spacing {fusion.spacing:.4g}, {fusion.blocks:,} blocks, {needed / 2**30:.2f} GiB")
    if needed * SPARE > free_memory(device):
        views.forget()
    if needed * SPARE > free_memory(device):
        raise LuxelError(
            f"The mesh needs a grid of {needed / 2**30:.1f} GiB, more than there is memory.",
            f"Give a lower resolution than {resolution}.",
        )
    for view in views.each("fusing depth"):
        fusion.add(*view)
    surface = fusion.surface()
    if not len(surface.mesh.faces):
        raise LuxelError("The cameras see no surface.", "Train the scene longer, or lower the resolution.")
    return surface, fusion.truncation


def _check_finish(finish: Finish, device: torch.device) -> None:
    """Refuses before the work what would fail after it: missing packages, and a texture larger than the memory."""
    if finish.triangles is not None:
        mesh_package("fast_simplification")
        mesh_package("scipy")
    if not finish.texture:
        return
    mesh_package("xatlas")
    needed = finish.texture**2 * texture_bake.BYTES
    if needed > free_memory(device):
        raise LuxelError(
            f"A texture of {finish.texture} x {finish.texture} pixels needs {needed / 2**30:.1f} GiB, more than "
            "there is memory.",
            "Give fewer pixels.",
        )


def _textured(
    surface: FusedSurface,
    views: SceneViews,
    pixels: int,
    tolerance: float,
    on_progress: Report,
    say: Callable[[str], None],
) -> FinishedSurface:
    on_progress("unwrapping", 0)
    unwrapped = unwrap(surface.mesh, pixels)
    colours = surface.colours[unwrapped.source]
    bake = texture_bake.TextureBake(unwrapped, colours, pixels, tolerance)
    for view in views.each("baking the texture"):
        bake.add(*view)
    covered = len(bake.texels.index) / pixels**2
    say(f"texture: {covered:.0%} of {pixels} x {pixels} texels are used, {bake.seen:.1%} of these visible")
    return FinishedSurface(unwrapped.mesh, colours, unwrapped.uv, bake.image())


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
    middle, half = (low + high) / 2, MARGIN * (high - low) / 2
    side = 2 * float(half.max())
    if not side > 0:
        raise LuxelError("The cameras see a single point.", "Train the scene longer.")
    return middle - half.max(), side
