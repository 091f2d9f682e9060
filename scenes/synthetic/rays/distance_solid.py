"""A solid given by its signed distance, sphere-traced in torch: a union of rounded shapes with others carved out.

Sphere tracing: Hart 1996, "Sphere tracing: a geometric method for the antialiased ray tracing of implicit surfaces".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.rays.ray_caster import SHININESS, TO_LIGHT, StaticSolid
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import Spots, Textures

STEPS, STEPS_AT_ONCE = 192, 4  # of a ray, at most; after so many those that ended are left out
HIT, GRAZED = (
    5e-5,
    1e-3,
)  # distances that end a ray, of the bounding radius: at any step, and after the last one
TILE = 8  # rays along each side of what is traced as one cone at first
TETRAHEDRON = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))  # offsets of the four samples of a gradient
AMBIENT, SKY, LAMP = 0.5, 0.1, 0.5  # light from everywhere, from above and from the lamp
AT_ONCE = {"cuda": 1 << 22, "cpu": 1 << 16}  # points whose distances are computed together
RAYS_AT_ONCE = {"cuda": 1 << 25, "cpu": 1 << 18}  # of images that are traced together


class DistanceSolid:
    """A union of shapes, each grown by a rounding, without what is carved out.

    The distance is exact outside near the surface, but for edges of what is carved, and never more than the true one.

    Args:
        added: the union; balls, boxes, cylinders and tori.
        carved: shapes whose inside is empty.
        rounding: by which each of the union is grown, so that edges are round, units.
        radius: of a ball around the origin that holds all of it.
        seed: of the textures.
        device: of all computation.

    Raises:
        ValueError: an ellipsoid that is not a ball.
    """

    def __init__(
        self,
        added: Sequence[StaticSolid],
        carved: Sequence[StaticSolid] = (),
        *,
        rounding: float = 0.0,
        radius: float = 1.0,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        if any(solid.shape == ELLIPSOID and len(set(solid.size)) > 1 for solid in (*added, *carved)):
            raise ValueError("distances of ellipsoids that are not balls are not known")
        self.added, self.device = tuple(added), torch.device(device)
        self.rounding, self.radius = rounding, radius
        self._union, self._holes = _Shapes(added, self.device), _Shapes(carved, self.device)
        self._textures = Textures(seed, self.device)
        looks = [(*np.ravel(one.surface.colours), one.surface.cell, one.surface.gloss) for one in added]
        self._looks = torch.tensor(looks, dtype=torch.float32, device=self.device).T
        self._patterns = torch.tensor([one.surface.pattern for one in added], device=self.device)
        self._grain = torch.tensor([one.surface.grain for one in added], device=self.device)

    def distances(self, points: Tensor) -> Tensor:
        """Signed distances, negative inside.

        Args:
            points: [P, 3].

        Returns:
            [P].
        """
        chunks = points.split(AT_ONCE[self.device.type])
        return torch.cat([self._distances(chunk) for chunk in chunks]) if len(points) else points[:, 0]

    def normals(self, points: Tensor) -> Tensor:
        """Unit outward normals near the surface, by differences, [P, 3]."""
        step = 4e-4 * self.radius
        offsets = points.new_tensor(TETRAHEDRON)
        gradient = sum(k * self.distances(points + step * k)[:, None] for k in offsets)
        assert isinstance(gradient, Tensor)
        return torch.nn.functional.normalize(gradient, dim=-1)

    def render(self, camera: Camera, *, samples: int = 2) -> tuple[Tensor, Tensor]:
        """Renders a single camera with samples x samples rays per pixel.

        Returns:
            Colours and coverage, [H, W, 4] in [0, 1], colours not multiplied by the coverage; and the depth of each ray
            along the camera's axis, [H * samples, W * samples], inf without a hit.
        """
        return next(self.images([camera], samples=samples))

    def images(self, cameras: Sequence[Camera], *, samples: int = 2) -> Iterator[tuple[Tensor, Tensor]]:
        """What `render` gives of each of some cameras of one size; several are traced together."""
        size = cameras[0].width * cameras[0].height * samples**2
        together = max(1, RAYS_AT_ONCE[self.device.type] // size)
        for begin in range(0, len(cameras), together):
            yield from self._images(cameras[begin : begin + together], samples)

    def _images(self, cameras: Sequence[Camera], samples: int) -> Iterator[tuple[Tensor, Tensor]]:
        height, width = cameras[0].height, cameras[0].width
        traced = [self._rays(camera, height * samples, width * samples) for camera in cameras]
        rays = torch.cat([rays for rays, _ in traced])
        origins = torch.stack([camera.position for camera in cameras]).to(self.device)
        t = self._trace(cameras, samples, origins, rays)
        hit = t.isfinite().nonzero()[:, 0]
        seen = torch.zeros(len(t), 4, device=self.device)
        if len(hit):
            view = hit // (len(t) // len(cameras))
            spread = torch.tensor([1 / (samples * float(c.intrinsics[0])) for c in cameras]).to(self.device)
            points = origins[view] + rays[hit] * t[hit, None]
            seen[hit, :3] = self._shade(points, rays[hit], t[hit] * spread[view])
            seen[hit, 3] = 1
        tiles = seen.view(-1, height, samples, width, samples, 4).mean((2, 4))
        alpha = tiles[..., 3:]
        colours = (tiles[..., :3] / alpha.clamp_min(1e-6)).clamp(0, 1)
        depth = (t / torch.cat([length for _, length in traced])).view(-1, height * samples, width * samples)
        yield from zip(torch.cat([colours, alpha], -1), depth, strict=True)

    def _distances(self, points: Tensor) -> Tensor:
        solid = self._union(points).amin(0) - self.rounding
        return torch.maximum(solid, -self._holes(points).amin(0)) if self._holes.count else solid

    def _rays(self, camera: Camera, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """Unit directions of the middles of rows x columns equal cells of an image, [R, 3], and lengths at depth 1."""
        fx, fy, cx, cy = camera.intrinsics.tolist()
        x = ((torch.arange(columns, device=self.device) + 0.5) * (camera.width / columns) - cx) / fx
        y = ((torch.arange(rows, device=self.device) + 0.5) * (camera.height / rows) - cy) / fy
        local = torch.stack([*torch.meshgrid(x, y, indexing="xy"), x.new_ones(rows, columns)], -1).view(-1, 3)
        length = local.norm(dim=1)
        turn = camera.world_to_cam[:3, :3].to(self.device)
        rays = (local[:, :, None] * turn).sum(1)  # no matmul, which may round to TF32
        return rays / length[:, None], length

    def _trace(self, cameras: Sequence[Camera], samples: int, origins: Tensor, rays: Tensor) -> Tensor:
        """Distances to the first hits of samples x samples rays per pixel of each camera, [R]; inf: none.

        Tiles of rays are traced as one cone up to the surface, from where each of their rays goes on.
        """
        height, width = cameras[0].height * samples, cameras[0].width * samples
        rows, columns = -(-height // TILE), -(-width // TILE)
        wide = [
            replace(c, width=columns * TILE, height=rows * TILE, intrinsics=c.intrinsics * samples)
            for c in cameras
        ]
        focal = min(float(camera.intrinsics[:2].min()) for camera in wide)
        cone = TILE / (2**0.5 * focal)  # angle from the middle of a tile to its corner
        middles = torch.cat([self._rays(camera, rows, columns)[0] for camera in wide])
        tiles = self._march(origins, middles, None, cone).view(-1, rows, 1, columns, 1)
        start = tiles.expand(-1, -1, TILE, -1, TILE).reshape(-1, rows * TILE, columns * TILE)
        return self._march(origins, rays, start[:, :height, :width].reshape(-1), 0.0)

    def _march(self, origins: Tensor, rays: Tensor, start: Tensor | None, cone: float) -> Tensor:
        """Distances along rays [R, 3] at which cones of a small angle around them meet the surface, [R]; inf: none.

        Args:
            origins: of R / C rays each, one after the other, [C, 3].
            start: where the rays begin, [R], inf: no ray; None: where they enter the ball around the solid.
            cone: the angle; 0: the rays alone.
        """
        each = len(rays) // len(origins)
        square = (origins * origins).sum(1)
        middle = -(rays.view(-1, each, 3) * origins[:, None]).sum(2).flatten()
        radius = self.radius + cone * (square.sqrt() + self.radius)
        inside = (radius**2 - square).repeat_interleave(each) + middle * middle
        half = inside.clamp_min(0).sqrt()
        first = (middle - half).clamp_min(0)
        first = first if start is None else torch.maximum(first, start)
        live = ((inside > 0) & (first < middle + half)).nonzero()[:, 0]
        out = torch.full_like(middle, torch.inf)
        t, end, along, origin = first[live], (middle + half)[live], rays[live], origins[live // each]
        done = away = t
        for step in range(STEPS):
            away = self.distances(origin + along * t[:, None])
            done = away < HIT * self.radius + 2 * cone * t
            t = torch.where(done, t, (t + away) / (1 + cone))
            if step % STEPS_AT_ONCE < STEPS_AT_ONCE - 1:
                continue
            out[live[done]] = t[done]
            retained = (~done & (t < end)).nonzero()[:, 0]
            live, t, end, along, origin, away = (x[retained] for x in (live, t, end, along, origin, away))
            if not len(live):
                return out
        grazed = away < GRAZED * self.radius + 2 * cone * t
        out[live[grazed]] = t[grazed]
        return out

    def _shade(self, points: Tensor, rays: Tensor, footprint: Tensor) -> Tensor:
        """Colours of surface points, [R, 3]: Lambertian shading with a sky term and Blinn's highlight."""
        own = torch.cat([self._union(part).argmin(0) for part in points.split(AT_ONCE[self.device.type])])
        normal = self.normals(points)
        local, turned = self._union.local(points, own), self._union.turned(normal, own)
        axis = turned.abs().argmax(1, keepdim=True)
        uv = torch.stack([local.gather(1, (axis + k) % 3)[:, 0] for k in (1, 2)])
        size = self._union.size[own]
        extent = torch.stack([size.gather(1, (axis + k) % 3)[:, 0] for k in (1, 2)])
        looks = self._looks[:, own]
        slant = (normal * rays).sum(1).abs().clamp_min(0.05)
        spots = Spots(local.T.contiguous(), uv, extent, footprint / slant.sqrt(), looks[9], own)
        albedo = self._textures(self._patterns[own], looks[:9].view(3, 3, -1), self._grain[own], spots).T
        to_light = torch.as_tensor(TO_LIGHT, dtype=normal.dtype, device=self.device)
        facing = (normal * to_light).sum(1).clamp_min(0)
        halfway = torch.nn.functional.normalize(to_light - rays, dim=1)
        shine = looks[10] * (halfway * normal).sum(1).clamp_min(0) ** SHININESS * (facing > 0)
        level = AMBIENT + SKY * normal[:, 2] + LAMP * facing
        return (albedo * level[:, None] + shine[:, None]).clamp(0, 1)


class _Shapes:
    """Distances of points from each of some shapes."""

    def __init__(self, solids: Sequence[StaticSolid], device: torch.device) -> None:
        self.count = len(solids)

        def tensor(values: list[object], *shape: int) -> Tensor:
            return torch.tensor(np.array(values), dtype=torch.float32, device=device).view(-1, *shape)

        self.size = tensor([one.size for one in solids], 3)
        self.centre = tensor([one.centre for one in solids], 3)
        self.axes = tensor([one.axes for one in solids], 3, 3)  # object axes to world axes
        shapes = (BOX, ELLIPSOID, CYLINDER, TORUS)
        rows = [[k for k, one in enumerate(solids) if one.shape == shape] for shape in shapes]
        self._groups = [
            (shape, torch.tensor(group, device=device))
            for shape, group in zip(shapes, rows, strict=True)
            if group
        ]

    def __call__(self, points: Tensor) -> Tensor:
        """Signed distances of points [P, 3] from each shape, [S, P]."""
        out = points.new_empty(self.count, len(points))
        for shape, rows in self._groups:
            out[rows] = self._distances(shape, rows, points)
        return out

    def local(self, points: Tensor, own: Tensor) -> Tensor:
        """Points in the axes of a shape each, int64 [P]; [P, 3]."""
        return self.turned(points - self.centre[own], own)

    def turned(self, vectors: Tensor, own: Tensor) -> Tensor:
        """World vectors in the axes of a shape each, [P, 3]."""
        return (self.axes[own] * vectors[:, :, None]).sum(1)

    def _distances(self, shape: int, rows: Tensor, points: Tensor) -> Tensor:
        away = (points[None] - self.centre[rows, None].to(points)).unbind(-1)
        axes, size = self.axes[rows].to(points), self.size[rows, None].to(points)
        x, y, z = (_turned(away, axes[:, :, k, None].unbind(1)) for k in range(3))
        a, b, c = size.unbind(-1)
        if shape == ELLIPSOID:
            return torch.sqrt(x * x + y * y + z * z) - a
        if shape == TORUS:
            return torch.hypot(torch.hypot(x, y) - a, z) - c
        if shape == CYLINDER:
            beyond = torch.stack([torch.hypot(x, y) - a, z.abs() - c])
        else:
            beyond = torch.stack([x.abs() - a, y.abs() - b, z.abs() - c])
        return beyond.clamp_min(0).norm(dim=0) + beyond.amax(0).clamp_max(0)


def _turned(vector: Sequence[Tensor], axis: Sequence[Tensor]) -> Tensor:
    """The scalar products of vectors and axes, by components; no matmul, which may round to TF32."""
    return torch.addcmul(torch.addcmul(vector[0] * axis[0], vector[1], axis[1]), vector[2], axis[2])
