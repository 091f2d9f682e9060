"""A ray caster of static solids in torch, on the CPU or a GPU: textures, one light with shadows, highlights.

Each solid is intersected only with the rays inside its bounding box in the image. Shadows come from a depth map in the
direction of the light. `solid_scene` is a ray caster of moving solids in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.rays.ray_shapes import NEAR, divisors, first_hit, half_extents, surface
from luxel.scenes.synthetic.rays.ray_textures import CLOUDS, Spots, Surface, Textures

Triple = tuple[float, float, float]

TO_LIGHT = np.array([0.52, -0.38, 0.76]) / np.linalg.norm([0.52, -0.38, 0.76])
AMBIENT, SKY, LAMP = 0.34, 0.14, 0.62  # sum above 1 with the highlight: clamped
SHININESS = 24.0
SHADOW_BIAS = 0.03  # least distance between a surface and what it casts a shadow on, world units
MARGIN = 2  # pixels around a solid's bounding box


@dataclass(frozen=True)
class StaticSolid:
    """One solid.

    Args:
        shape: BOX, ELLIPSOID, CYLINDER or TORUS of `ray_shapes`.
        size: of the shape, see `ray_shapes`.
        centre: world coordinates.
        surface: its texture and gloss.
        rotation: object axes to world axes, [3, 3]; None: the identity.
    """

    shape: int
    size: Triple
    centre: Triple
    surface: Surface
    rotation: np.ndarray | None = None

    @property
    def axes(self) -> np.ndarray:
        """Object axes to world axes, [3, 3]."""
        return np.eye(3) if self.rotation is None else self.rotation

    @property
    def corners(self) -> np.ndarray:
        """Corners of its bounding box in world coordinates, [8, 3]."""
        signs = np.stack(np.meshgrid(*[(-1, 1)] * 3), axis=-1).reshape(8, 3)
        return (signs * half_extents(self.shape, self.size)) @ self.axes.T + self.centre


@dataclass(frozen=True)
class RayGrid:
    """Rays o + t d of an image, where o and d are affine in the coordinates x of columns and y of rows.

    Args:
        origin, direction: of (x, y, 1) to world coordinates, [3, 3] each; float64.
        x, y: float64 [W] and [H], evenly spaced.
        frame: world to coordinates right, down and forward, [3, 4].
        perspective: whether x and y are those at distance 1 in front of the origin.
    """

    origin: np.ndarray
    direction: np.ndarray
    x: np.ndarray
    y: np.ndarray
    frame: np.ndarray
    perspective: bool

    @staticmethod
    def of_camera(camera: Camera, samples: int) -> RayGrid:
        """Samples x samples rays per pixel; t is the depth along the camera's axis."""
        fx, fy, cx, cy = camera.intrinsics.double().tolist()
        frame = camera.world_to_cam.double().cpu().numpy()[:3]
        origin = np.zeros((3, 3))
        origin[:, 2] = np.linalg.solve(frame[:, :3], -frame[:, 3])
        x = ((np.arange(camera.width * samples) + 0.5) / samples - cx) / fx
        y = ((np.arange(camera.height * samples) + 0.5) / samples - cy) / fy
        return RayGrid(origin, np.linalg.inv(frame[:, :3]), x, y, frame, True)

    @staticmethod
    def of_light(radius: float, side: int) -> RayGrid:
        """Side x side parallel rays of the light onto the ball of a radius around the origin."""
        right = np.cross(TO_LIGHT, (0, 0, 1))
        right /= np.linalg.norm(right)
        down = np.cross(-TO_LIGHT, right)
        direction = np.zeros((3, 3))
        direction[:, 2] = -TO_LIGHT
        origin = np.stack([right, down, 2 * radius * TO_LIGHT], axis=1)
        frame = np.concatenate([np.stack([right, down, -TO_LIGHT]), [[0], [0], [2 * radius]]], axis=1)
        steps = ((np.arange(side) + 0.5) / side * 2 - 1) * radius
        return RayGrid(origin, direction, steps, steps, frame, False)

    def window(self, corners: np.ndarray) -> tuple[slice, slice] | None:
        """Rows and columns whose rays may meet the box of 8 corners [8, 3]; None: there are none."""
        local = corners @ self.frame[:, :3].T + self.frame[:, 3]
        if (local[:, 2] < NEAR).all():
            return None
        slices = []
        for k, steps in ((1, self.y), (0, self.x)):
            begin, end = 0, len(steps)
            if not self.perspective or (local[:, 2] > NEAR).all():
                at = local[:, k] / (local[:, 2] if self.perspective else 1.0)
                position = (at - steps[0]) / (steps[1] - steps[0]) if end > 1 else np.zeros(8)
                begin = int(max(0, np.floor(position.min()) - MARGIN))
                end = int(min(end, np.ceil(position.max()) + MARGIN + 1))
            if begin >= end:
                return None
            slices.append(slice(begin, end))
        return slices[0], slices[1]


@dataclass
class CastView:
    """An image, and the first hit of each of its rays.

    Args:
        rgb: float32 [H, W, 3] in [0, 1].
        depth: along the camera's axis, of each ray, float32 [H * samples, W * samples], world units; inf: no hit.
        ids: index of the solid of each ray, int64 [H * samples, W * samples]; -1: no hit.
    """

    rgb: Tensor
    depth: Tensor
    ids: Tensor


@dataclass
class StaticScene:
    """Solids under one light.

    Args:
        solids: those with the pattern CLOUDS are rendered without shading and cast no shadow.
        seed: of the textures.
        device: of all computation.
        shadow_radius: of the ball around the origin in which there are shadows, world units.
        shadow_side: resolution of the depth map of the light; 0: there are no shadows.
    """

    solids: Sequence[StaticSolid]
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    shadow_radius: float = 24.0
    shadow_side: int = 1024

    @cached_property
    def _textures(self) -> Textures:
        return Textures(self.seed, self.device)

    @cached_property
    def _corners(self) -> list[np.ndarray]:
        return [solid.corners for solid in self.solids]

    @cached_property
    def _tables(self) -> tuple[Tensor, Tensor]:
        """Shape and pattern, int64 [2, S]; size, centre, axes, colours, cell, gloss and grain [27, S]."""
        whole = [(solid.shape, solid.surface.pattern) for solid in self.solids]
        values = []
        for solid in self.solids:
            look = solid.surface
            shown = (*np.ravel(look.colours), look.cell, look.gloss, look.grain)
            values.append((*solid.size, *solid.centre, *solid.axes.ravel(), *shown))
        return self._tensor(whole, torch.int64).T.contiguous(), self._tensor(values).T.contiguous()

    @cached_property
    def _light_depth(self) -> Tensor:
        """Distance of the first surface along the light's rays, [side, side]."""
        rays = RayGrid.of_light(self.shadow_radius, self.shadow_side)
        casts = [i for i, solid in enumerate(self.solids) if solid.surface.pattern != CLOUDS]
        return self._cast(rays, casts)[0]

    def _tensor(self, values: object, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=dtype).to(self.device)

    def render(self, camera: Camera, *, samples: int = 2) -> CastView:
        """Renders a single camera with samples x samples rays per pixel.

        Raises:
            ValueError: a batch of cameras, or samples below 1.
        """
        if camera.batched or samples < 1:
            raise ValueError(
                "camera must be a single one and samples at least 1, "
                f"got poses {list(camera.world_to_cam.shape)} and {samples}"
            )
        rays = RayGrid.of_camera(camera, samples)
        depth, ids = self._cast(rays, range(len(self.solids)))
        colour = self._shade(rays, depth, ids)
        mean = colour.reshape(3, camera.height, samples, camera.width, samples).mean(dim=(2, 4))
        return CastView(mean.permute(1, 2, 0).contiguous(), depth, ids)

    def depth(self, camera: Camera, *, samples: int = 1) -> Tensor:
        """The depth that `render` gives, without the work for colours, float32 [H * samples, W * samples]."""
        return self._cast(RayGrid.of_camera(camera, samples), range(len(self.solids)))[0]

    def _cast(self, rays: RayGrid, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Least t [H, W] of the rays, inf without a hit, and the index of the solid, -1 there."""
        shape = len(rays.y), len(rays.x)
        depth = torch.full(shape, torch.inf, device=self.device)
        ids = torch.full(shape, -1, dtype=torch.int64, device=self.device)
        x, y = self._tensor(rays.x), self._tensor(rays.y)[:, None]
        windows = [(i, window) for i in indices if (window := rays.window(self._corners[i]))]
        matrices = self._tensor([self._own_rays(rays, i) for i, _ in windows])[..., None, None]
        for (index, window), (ox, oy, o, dx, dy, d) in zip(windows, matrices, strict=True):
            solid, columns, rows = self.solids[index], x[window[1]], y[window[0]]
            if rays.perspective:
                d = dx * columns + (dy * rows + d)
            else:
                o = ox * columns + (oy * rows + o)
            t = first_hit(solid.shape, solid.size, o, d)
            least = depth[window]
            ids[window].masked_fill_(t < least, index)
            least.copy_(torch.minimum(t, least))
        return depth, ids

    def _own_rays(self, rays: RayGrid, index: int) -> np.ndarray:
        """Factors of x, y and 1 in the rays' origin and direction, in the space of a solid's `first_hit`, [6, 3]."""
        solid = self.solids[index]
        into = solid.axes.T / np.array(divisors(solid.shape, solid.size))[:, None]
        origin = rays.origin - np.outer(solid.centre, (0, 0, 1))
        return np.concatenate([(into @ origin).T, (into @ rays.direction).T])

    def _shade(self, rays: RayGrid, depth: Tensor, ids: Tensor) -> Tensor:
        """Colours of a camera's rays, [3, H, W]; black without a hit."""
        out = torch.zeros(3, *ids.shape, device=self.device)
        row, column = (ids >= 0).nonzero().unbind(1)
        if not len(row):
            return out
        eye = self._tensor(rays.origin[:, 2])[:, None]
        dx, dy, d = self._tensor(rays.direction.T)[..., None]
        d = dx * self._tensor(rays.x)[column] + (dy * self._tensor(rays.y)[row] + d)
        t, seed = depth[row, column], ids[row, column]
        shape, pattern = self._tables[0][:, seed]
        values = self._tables[1][:, seed]
        size, centre, axes, colours = values[:3], values[3:6], values[6:15], values[15:24]
        cell, gloss, grain = values[24:]
        axes = axes.reshape(3, 3, -1)
        world = eye + t * d
        point = (axes * (world - centre)[:, None]).sum(0)
        own, uv, extent = surface(shape, size, point)
        normal = (axes * own[None]).sum(1)
        length = torch.sqrt((d * d).sum(0))
        to_eye = -d / length
        slant = (normal * to_eye).sum(0).abs().clamp_min(0.05)
        spread = float(rays.x[1] - rays.x[0]) if len(rays.x) > 1 else 1e-3
        footprint = t * length * spread / torch.sqrt(slant)
        spots = Spots(point, uv, extent, footprint, cell, seed)
        albedo = self._textures(pattern, colours.reshape(3, 3, -1), grain, spots)
        lit = self._light(albedo, normal, to_eye, gloss, self._shadow(world, normal))
        out[:, row, column] = torch.where(pattern == CLOUDS, albedo, lit)
        return out

    def _light(self, albedo: Tensor, normal: Tensor, to_eye: Tensor, gloss: Tensor, lit: Tensor) -> Tensor:
        """Lambertian shading with a sky term and Blinn's highlight, [3, R]; ``lit`` is 0 in shadow, [R]."""
        to_light = self._tensor(TO_LIGHT)[:, None]
        facing = (normal * to_light).sum(0).clamp_min(0)
        halfway = to_eye + to_light
        halfway = halfway / torch.sqrt((halfway * halfway).sum(0)).clamp_min(1e-6)
        shine = gloss * (halfway * normal).sum(0).clamp_min(0) ** SHININESS * (facing > 0)
        level = AMBIENT + SKY * normal[2] + LAMP * facing * lit
        return (albedo * level + shine * lit).clamp(0, 1)

    def _shadow(self, world: Tensor, normal: Tensor) -> Tensor:
        """Fraction of the light that reaches points [3, R], bilinear between four comparisons with the depth map."""
        if not self.shadow_side:
            return torch.ones_like(world[0])
        side, depth = self.shadow_side, self._light_depth.flatten()
        rays = RayGrid.of_light(self.shadow_radius, side)
        frame = self._tensor(rays.frame)
        texel = 2 * self.shadow_radius / side
        lifted = world + (0.5 * SHADOW_BIAS + texel) * normal
        local = (frame[:, :3, None] * lifted).sum(1) + frame[:, 3:]  # no matmul, which may round to TF32
        position = (local[:2] / self.shadow_radius + 1) * (0.5 * side) - 0.5
        corner = torch.floor(position)
        part = position - corner
        lit = torch.zeros_like(world[0])
        for i in (0, 1):
            for j in (0, 1):
                x, y = corner[0].long() + i, corner[1].long() + j
                inside = (x >= 0) & (x < side) & (y >= 0) & (y < side)
                nearest = depth[(y * side + x).clamp(0, side * side - 1)]
                weight = (part[0] if i else 1 - part[0]) * (part[1] if j else 1 - part[1])
                lit += weight * (~inside | (nearest > local[2] - 0.5 * SHADOW_BIAS))
        return lit
