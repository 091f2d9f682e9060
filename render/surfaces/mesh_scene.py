"""A triangle mesh as a scene that is rendered: colours of a texture or of vertices, shading, normals and depth.

Each pixel shows the first triangle behind its centre (`luxel.render.ops.mesh.trace_rays`), from either side. Colours
are shown as they are, as meshes of scenes have their light in them; a mesh without colours is lit from the camera.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import require_pinhole
from luxel.render.mesh.tree import MeshTree
from luxel.render.mesh.triangles import SurfaceSampler, TriangleMesh, merged
from luxel.render.ops.mesh.trace_rays import trace_camera
from luxel.render.runs.memory import free_memory
from luxel.render.scene import About, Draw, Extent, Layers, Scene, check_request

GREY = 0.8  # of shaded surfaces, sRGB
AMBIENT = 0.3  # share of the light of a surface that is visible edge-on
SHARP = 0.85  # cosine of the angle of a triangle to its vertex normal below which its edges are shown sharp
MIN_SAMPLES = 512  # points that mark place and size of a mesh
ONE_SIDED = 0.15  # length of the mean of its normals above which a mesh faces one side
LAYERS = ("colour", "alpha", "depth", "median_depth", "normal")
BYTES = 640  # of memory per triangle while a mesh is prepared


class Image(NamedTuple):
    """An image on a mesh.

    Args:
        uv: where each vertex is in it, (0, 0) at the top left corner, [V, 2].
        pixels: sRGB, uint8 [H, W, 3].
        repeats: whether it repeats beyond [0, 1].
    """

    uv: Tensor
    pixels: Tensor
    repeats: bool


@dataclass
class MeshScene:
    """A mesh with what drawing needs.

    Args:
        mesh: float32, with at least one triangle; all of its vertices are finite.
        tree: of the mesh, for rays.
        rgb: colours of the vertices, uint8 [V, 3]; None: there are none.
        image: shown instead of them; None: there is none.
        up: upward direction, of length 1; None: it is not known.
        metres: length of the unit; None: it is not known.
    """

    mesh: TriangleMesh
    tree: MeshTree
    rgb: Tensor | None = None
    image: Image | None = None
    up: tuple[float, float, float] | None = None
    metres: float | None = None

    @staticmethod
    def build(mesh: TriangleMesh, rgb: Tensor | None = None, image: Image | None = None) -> MeshScene:
        """Prepares a mesh, on its device.

        Raises:
            LuxelError: the memory does not suffice.
            ValueError: there are no triangles, some are not finite, or colours or places are not those of the vertices.
        """
        count, vertices = len(mesh.faces), len(mesh.vertices)
        for name, values, width in (("rgb", rgb, 3), ("image.uv", image and image.uv, 2)):
            if values is not None and values.shape != (vertices, width):
                raise ValueError(
                    f"MeshScene: {name} must be {[vertices, width]} as there are vertices, got {list(values.shape)}"
                )
        if count * BYTES > (free := free_memory(mesh.vertices.device)):
            raise LuxelError(
                f"{count:,} triangles need {count * BYTES / 2**30:.1f} GiB to be rendered, and {free / 2**30:.1f} GiB "
                "are free.",
                "Write the mesh with fewer triangles.",
            )
        uniform = rgb is None or not bool((rgb != rgb[:1]).any())
        return MeshScene(mesh, MeshTree.build(mesh, for_rays=True), None if uniform else rgb, image)

    @property
    def count(self) -> int:
        """The number of triangles, F."""
        return len(self.mesh.faces)

    @property
    def device(self) -> torch.device:
        """The device of the mesh."""
        return self.mesh.vertices.device

    @property
    def coloured(self) -> bool:
        """Whether it has colours of its own."""
        return self.rgb is not None or self.image is not None

    @cached_property
    def centres(self) -> Tensor:
        """Points on it, by area, that mark its place and size, [P, 3]: as many for each triangle on the mean."""
        number = self.count * -(-MIN_SAMPLES // self.count)
        if not bool(self.mesh.areas().sum() > 0):
            return self.mesh.corners().mean(1).repeat(number // self.count, 1)
        return SurfaceSampler(self.mesh).draw(number, torch.Generator(self.device).manual_seed(0))

    @property
    def front(self) -> tuple[float, float, float] | None:
        """The direction that its surface faces on the mean, of length 1, of an open mesh such as a scan from one side;
        None: it has none, as closed meshes."""
        vectors = self.mesh.face_vectors().double()
        mean = vectors.sum(0) / vectors.norm(dim=-1).sum().clamp_min(1e-300)
        if not float(mean.norm()) > ONE_SIDED:
            return None
        x, y, z = (mean / mean.norm()).tolist()
        return x, y, z

    def to(self, device: torch.device | str) -> MeshScene:
        """On another device."""
        image = self.image and Image(
            self.image.uv.to(device), self.image.pixels.to(device), self.image.repeats
        )
        rgb = None if self.rgb is None else self.rgb.to(device)
        return replace(self, mesh=self.mesh.to(device), tree=self.tree.to(device), rgb=rgb, image=image)

    @cached_property
    def corner_normals(self) -> Tensor:
        """Outward normals at the corners of each triangle, [F, 9].

        Those of vertices, whatever seams a texture has, except where a triangle is so oblique to them that the edge is
        a sharp one: there that of the triangle.
        """
        full = merged(self.mesh)
        smooth = full.vertex_normals()[full.faces.long()]
        own = torch.nn.functional.normalize(self.mesh.face_vectors(), dim=-1)[:, None]
        sharp = (smooth * own).sum(-1, keepdim=True) < SHARP
        return torch.where(sharp, own, smooth).flatten(1)

    @cached_property
    def corner_values(self) -> Tensor:
        """Places in the image [F, 6], or colours in [0, 255] at the corners [F, 9], of a mesh that has colours."""
        values = self.image.uv if self.image is not None else self.rgb
        assert values is not None
        return values.float()[self.mesh.faces.long()].flatten(1)

    def draw(self, camera: Camera, request: Draw) -> Layers:
        """Images of the mesh.

        Args:
            camera: one pinhole, on the mesh's device.
            request: of `LAYERS`; the depth along the optical axis is exact, normals have length 1 and point to the
                camera. The option "shaded" lights a grey surface from the camera instead of showing the colours.

        Raises:
            LuxelError: the camera has a lens.
        """
        require_pinhole(camera, "Meshes")
        height, width = camera.height, camera.width
        hits = trace_camera(camera, self.tree)
        met = hits.face >= 0
        pixels = torch.nonzero(met)[:, 0]
        faces, weights = hits.face[pixels], hits.weights[pixels]
        behind = hits.t.new_zeros(3) if request.background is None else request.background.to(hits.t)
        towards = None
        normals = "normal" in request.layers
        lit = request.options.get("shaded", False) or not self.coloured
        if normals or lit:
            towards = torch.nn.functional.normalize(_blend(self.corner_normals, faces, weights), dim=-1)
            towards *= torch.where(hits.front[pixels], 1.0, -1.0)[:, None]
        if lit:
            assert towards is not None
            colours = _headlight(towards, camera, pixels)
        else:
            colours = self._colours(_blend(self.corner_values, faces, weights))
        rgb = behind.repeat(height * width, 1).index_copy_(0, pixels, colours)
        images = {"colour": rgb.view(height, width, 3)}
        if "alpha" in request.layers:
            images["alpha"] = 1 - (~met).to(hits.t.dtype).view(height, width)
        for name in {"depth", "median_depth"} & set(request.layers):
            images[name] = hits.t.view(height, width)
        if normals:
            assert towards is not None
            directions = rgb.new_zeros(rgb.shape).index_copy_(0, pixels, towards)
            images["normal"] = directions.view(height, width, 3)
        return Layers(images)

    def _colours(self, values: Tensor) -> Tensor:
        """Colours in [0, 1] of values between corners, [P, 2] or [P, 3], to [P, 3]."""
        if self.image is None:
            return values.mul_(1 / 255)
        return bilinear(self.image.pixels, values - values.floor() if self.image.repeats else values)


def mesh_scene(mesh: MeshScene) -> Scene:
    """A mesh as a scene, on its device; its first camera is on the side that it faces, a little above."""
    about = About("triangles", LAYERS, ("shaded",), mesh.up, _first_side(mesh), mesh.metres)

    def extent(time: float) -> tuple[Tensor, Tensor]:
        return mesh.centres, mesh.centres.new_ones(len(mesh.centres))

    def finite() -> Tensor:
        return torch.isfinite(mesh.mesh.corners().reshape(mesh.count, -1)).all(-1)

    def draw(camera: Camera, request: Draw) -> Layers:
        check_request(about, request)
        return mesh.draw(camera, request)

    return Scene(
        about,
        mesh.device,
        lambda: {"count": mesh.count},
        lambda: mesh.centres,
        draw,
        lambda device: mesh_scene(mesh.to(device)),
        {MeshScene: mesh, Extent: Extent(extent, finite)},
    )


def _first_side(mesh: MeshScene) -> tuple[float, float, float] | None:
    """The direction to a good first camera; None: any."""
    if mesh.front is None:
        return None
    up = np.array((0.0, -1.0, 0.0) if mesh.up is None else mesh.up)
    level = np.array(mesh.front) - float(np.dot(mesh.front, up)) * up
    length = float(np.linalg.norm(level))
    if not length > 0.2:
        return None
    x, y, z = (1.5 * level / length + 0.3 * up).tolist()
    return x, y, z


def _blend(corners: Tensor, faces: Tensor, weights: Tensor) -> Tensor:
    """Values between the corners of triangles.

    Args:
        corners: of K values at three corners, [F, 3 K].
        faces: numbers of triangles, [P].
        weights: of the corners b and c, [P, 2].
    """
    a, b, c = corners.index_select(0, faces).view(-1, 3, corners.shape[1] // 3).unbind(1)
    return a + weights[:, :1] * (b - a) + weights[:, 1:] * (c - a)


def _headlight(towards: Tensor, camera: Camera, pixels: Tensor) -> Tensor:
    """Colours of a grey surface with these normals [P, 3] in the light of a lamp at the camera, [P, 3]."""
    fx, fy, cx, cy = camera.intrinsics.unbind()
    x = (pixels % camera.width + 0.5 - cx) / fx
    y = (pixels // camera.width + 0.5 - cy) / fy
    rotation = camera.world_to_cam[:3, :3]
    local = towards @ rotation.T
    cosine = -(local[:, 0] * x + local[:, 1] * y + local[:, 2]) / (x * x + y * y + 1).sqrt()
    return (GREY * (AMBIENT + (1 - AMBIENT) * cosine.abs()))[:, None].expand(-1, 3)


def bilinear(pixels: Tensor, coordinates: Tensor) -> Tensor:
    """Colours between the pixels of an image; beyond its border those of the border.

    Args:
        pixels: uint8 [H, W, 3].
        coordinates: in [0, 1] from the top left corner, x and y, [P, 2].

    Returns:
        In [0, 1], [P, 3].
    """
    height, width = pixels.shape[:2]
    at = coordinates * coordinates.new_tensor([width, height]) - 0.5
    at[:, 0].clamp_(0, width - 1)
    at[:, 1].clamp_(0, height - 1)
    first = at.floor()
    x, y = first.int().unbind(1)
    right, down = (x + 1).clamp_max_(width - 1), (y + 1).clamp_max_(height - 1)
    u, v = (at - first).unbind(1)
    flat = pixels.view(-1, 3)
    out: Any = 0
    for row, column, share in (
        (y, x, (1 - u) * (1 - v)),
        (y, right, u * (1 - v)),
        (down, x, (1 - u) * v),
        (down, right, u * v),
    ):
        out = out + flat.index_select(0, row * width + column) * share[:, None]
    return out.mul_(1 / 255)
