"""Scenes of moving, textured solids, and a ray caster with ground truth of depth, normals, ids and velocities.

Colour is the mean of samples x samples rays per pixel. Depth, normals, ids and velocities are those of the ray through
the pixel's centre, so that they do not mix surfaces. There are no shadows and no reflections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from luxel.render.geometry.camera import Camera, Points
from luxel.scenes.synthetic.solids.motions import Motion
from luxel.scenes.synthetic.solids.solids import Shape

WAVES = 64
TO_LIGHT = np.array([0.45, -0.35, 0.82]) / np.linalg.norm([0.45, -0.35, 0.82])
AMBIENT, SKY, LAMP = 0.42, 0.13, 0.5  # sum above 1 with the highlight: clamped
SHININESS = 24.0
MIN_VOLUME = 1e-6  # relative to object space; smaller solids are absent
TIME_STEP = 1e-5  # of the central differences of velocities


@dataclass(frozen=True)
class Texture:
    """Three colours mixed by sums of sine waves of random directions and lengths; it does not repeat.

    Args:
        seed: of the waves and the colours.
        hue: of the main colour, 0..1.
        coarsest, finest: wavelengths in object units.
        vivid: saturation of the colours, 0..1.
    """

    seed: int
    hue: float
    coarsest: float = 0.7
    finest: float = 0.09
    vivid: float = 1.0

    @cached_property
    def _waves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Wave vectors [3, WAVES], phases [WAVES] and weights [WAVES, 3], float32."""
        random = np.random.default_rng([self.seed, 1])
        direction = random.standard_normal((3, WAVES))
        direction /= np.linalg.norm(direction, axis=0)
        length = self.coarsest * (self.finest / self.coarsest) ** random.uniform(0, 1, WAVES)
        weight = random.standard_normal((WAVES, 3)) * (length[:, None] / self.coarsest) ** 0.5
        weight *= math.sqrt(2) / np.linalg.norm(weight, axis=0)  # each sum has unit variance
        phase = random.uniform(0, 2 * math.pi, WAVES)
        waves = direction * (2 * math.pi / length)
        return waves.astype(np.float32), phase.astype(np.float32), weight.astype(np.float32)

    @cached_property
    def colours(self) -> np.ndarray:
        """The three colours, float32 [3, 3]: of the main hue, a pale neighbour of it, and a dark contrast."""
        random = np.random.default_rng([self.seed, 2])
        hues = self.hue + np.array([0.0, random.uniform(0.04, 0.14), random.uniform(0.4, 0.6)])
        wheel = np.cos(2 * math.pi * (hues[:, None] - np.arange(3) / 3))
        level = np.array([[0.5], [0.78], [0.3]]) * self.vivid + np.array([[0.74], [0.86], [0.5]]) * (
            1 - self.vivid
        )
        swing = self.vivid * np.array([[0.4], [0.2], [0.25]])
        return np.clip(level + swing * wheel, 0, 1).astype(np.float32)

    def __call__(self, point: np.ndarray) -> np.ndarray:
        """Albedo at object points [3, R], float32 [R, 3] in [0, 1]."""
        waves, phase, weight = self._waves
        sums = np.sin(point.T.astype(np.float32) @ waves + phase) @ weight
        pale, dark = (
            1 / (1 + np.exp(-s * (sums[:, i : i + 1] - o))) for i, s, o in ((0, 6, 0.3), (1, 9, 1.0))
        )
        a, b, c = self.colours
        mixed = a + (b - a) * pale
        mixed = mixed + (c - mixed) * dark
        return np.clip(mixed * (1 + 0.13 * np.clip(sums[:, 2:], -2, 2)), 0, 1)


@dataclass(frozen=True)
class Solid:
    """One object: a shape with a texture and a motion.

    Args:
        name: for display.
        shape, texture: in object space.
        motion: object space to world at a time, [4, 4].
        gloss: height of the highlight, 0..1.
    """

    name: str
    shape: Shape
    texture: Texture
    motion: Motion
    gloss: float = 0.12

    def pose(self, time: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Linear part [3, 3] and translation [3] of the motion at a time; None: the solid is absent."""
        matrix = self.motion(time)
        if not abs(np.linalg.det(matrix[:3, :3])) > MIN_VOLUME:
            return None
        return matrix[:3, :3], matrix[:3, 3]

    def bounding_radius(self, linear: np.ndarray) -> float:
        """Radius of a bounding sphere around the solid's origin, world units."""
        return self.shape.bound * float(np.linalg.norm(linear, 2))


@dataclass
class RenderedView:
    """A rendered view with ground truth.

    Args:
        rgb: straight colours (not multiplied by alpha), float32 [H, W, 3] in [0, 1]; 0 where alpha is 0.
        alpha: fraction of the pixel's rays that hit a solid, float32 [H, W].
        depth: z along the camera's axis at the pixel's centre, float32 [H, W], world units; 0: no surface.
        normals: outward unit normals in world axes, float32 [H, W, 3]; 0: no surface.
        ids: index of the solid + 1, uint8 [H, W]; 0: no surface.
        velocity: of the surface point, float32 [H, W, 3], world units per unit of time; 0: no surface.
    """

    rgb: np.ndarray
    alpha: np.ndarray
    depth: np.ndarray
    normals: np.ndarray
    ids: np.ndarray
    velocity: np.ndarray


@dataclass
class SolidScene:
    """Up to 255 solids under one directional light."""

    solids: list[Solid] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.solids) > 255:
            raise ValueError(f"solids must be at most 255, got {len(self.solids)}")

    def render(self, camera: Camera, time: float = 0.0, *, samples: int = 2) -> RenderedView:
        """Renders the scene at a time.

        Args:
            camera: a single camera; surfaces beyond its near and far planes are not visible.
            time: in [0, 1].
            samples: square root of the number of colour rays per pixel.

        Raises:
            ValueError: a batch of cameras, a time outside [0, 1], or samples below 1.
        """
        if camera.batched or samples < 1:
            raise ValueError(
                "camera must be a single one and samples at least 1, "
                f"got poses {list(camera.world_to_cam.shape)} and {samples}"
            )
        _check_time(time)
        rays = _CameraRays.of(camera, samples)
        _, ids, colour = self._cast(rays, time, shade=True)
        h, w = camera.height, camera.width
        count = (ids > 0).reshape(h, samples, w, samples).sum(axis=(1, 3), dtype=np.float32)
        total = colour.reshape(h, samples, w, samples, 3).sum(axis=(1, 3))
        rgb = total / np.maximum(count, 1)[..., None]
        rays = _CameraRays.of(camera, 1)
        depth, ids, normals = self._cast(rays, time, shade=False)
        visible = ids > 0
        depth = np.where(visible, depth, 0)
        velocity = np.zeros((h, w, 3), np.float32)
        points = rays.points(np.flatnonzero(visible), depth[visible]).T
        velocity[visible] = self.velocities(points, ids[visible], time)
        return RenderedView(rgb, count / samples**2, depth.astype(np.float32), normals, ids, velocity)

    def _cast(
        self, rays: _CameraRays, time: float, *, shade: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Depth (inf: no hit), ids, and colours (normals without ``shade``; float32 [., ., 3]) of a camera's rays."""
        depth = np.full(rays.shape, np.inf)
        ids = np.zeros(rays.shape, np.uint8)
        out = np.zeros((*rays.shape, 3), np.float32)
        poses = [solid.pose(time) for solid in self.solids]
        for index, (solid, pose) in enumerate(zip(self.solids, poses, strict=True)):
            if pose is None or not (window := rays.window(pose[1], solid.bounding_radius(pose[0]))):
                continue
            inverse = np.linalg.inv(pose[0])
            origin = (inverse @ (rays.position - pose[1]))[:, None]
            t = solid.shape.hit(origin, rays.directions(window, inverse), rays.near)
            t = t.reshape(depth[window].shape)
            nearer = (t < depth[window]) & (t <= rays.far)
            depth[window][nearer] = t[nearer]
            ids[window][nearer] = index + 1
        for index, (solid, pose) in enumerate(zip(self.solids, poses, strict=True)):
            hits = np.flatnonzero(ids == index + 1)
            if pose is None or not len(hits):
                continue
            inverse = np.linalg.inv(pose[0])
            point = rays.points(hits, depth.reshape(-1)[hits]) - pose[1][:, None]
            point = inverse @ point
            normal = _unit(inverse.T @ solid.shape.normal(point))
            if not shade:
                out.reshape(-1, 3)[hits] = normal.T
                continue
            to_camera = -_unit(rays.directions_of(hits))
            out.reshape(-1, 3)[hits] = _light(solid.texture(point), normal, to_camera, solid.gloss)
        return depth, ids, out

    def transport(self, points: np.ndarray, ids: np.ndarray, time: float, to: float) -> np.ndarray:
        """Moves surface points with their solids from one time to another.

        Args:
            points: at ``time``, world coordinates, [P, 3].
            ids: of their solids, [P].
            time, to: times in [0, 1].

        Returns:
            Their positions at ``to``, [P, 3]; NaN where the id is 0 or the solid is absent at ``time``.
        """
        out = np.full(points.shape, np.nan)
        for index in np.unique(ids[ids > 0]):
            solid, chosen = self.solids[index - 1], ids == index
            pose = solid.pose(time)
            if pose is None:
                continue
            matrix = solid.motion(to)
            own = (points[chosen] - pose[1]) @ np.linalg.inv(pose[0]).T
            out[chosen] = own @ matrix[:3, :3].T + matrix[:3, 3]
        return out

    def velocities(self, points: np.ndarray, ids: np.ndarray, time: float) -> np.ndarray:
        """Velocities of surface points [P, 3] at a time, world units per unit of time, [P, 3].

        Computed by central differences within [0, 1]; undefined at the instant a ball hits the floor.
        """
        begin, end = max(0.0, time - TIME_STEP), min(1.0, time + TIME_STEP)
        return (self.transport(points, ids, time, end) - self.transport(points, ids, time, begin)) / (
            end - begin
        )

    def sample_points(self, count: int, time: float = 0.0, *, seed: int = 0) -> tuple[Points, np.ndarray]:
        """Random points on visible surfaces: first hits of random lines.

        On convex solids that do not occlude each other, points are uniform by area.

        Args:
            count: P; the result is empty where the scene is empty at that time.
            time: in [0, 1].
            seed: of the random lines.

        Returns:
            Points with their albedo, and the ids of their solids, uint8 [P].

        Raises:
            ValueError: the time is outside [0, 1].
        """
        _check_time(time)
        random = np.random.default_rng([seed, 3])
        there = [(i, s, p) for i, s in enumerate(self.solids) if (p := s.pose(time)) is not None]
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        if there:
            positions = np.stack([pose[1] for _, _, pose in there])
            centre = positions.mean(axis=0)
            spans = np.linalg.norm(positions - centre, axis=1)
            radius = max(a + s.bounding_radius(pose[0]) for a, (_, s, pose) in zip(spans, there, strict=True))
        while there and sum(len(part[1]) for part in parts) < count:
            lines = max(1000, 4 * count)
            toward = _unit(random.standard_normal((3, lines)))
            offset = random.standard_normal((3, lines))
            offset = _unit(offset - (offset * toward).sum(axis=0) * toward)
            start = centre[:, None] + radius * (np.sqrt(random.uniform(0, 1, lines)) * offset - 1.01 * toward)
            depth, ids = np.full(lines, np.inf), np.zeros(lines, np.uint8)
            for index, solid, (linear, translation) in there:
                inverse = np.linalg.inv(linear)
                t = solid.shape.hit(inverse @ (start - translation[:, None]), inverse @ toward, 0.0)
                ids[t < depth] = index + 1
                depth = np.minimum(depth, t)
            rgb = np.zeros((lines, 3), np.uint8)
            met = ids > 0
            point = start + np.where(met, depth, 0) * toward
            for index, solid, (linear, translation) in there:
                own = np.linalg.inv(linear) @ (point[:, ids == index + 1] - translation[:, None])
                rgb[ids == index + 1] = np.round(solid.texture(own) * 255)
            parts.append((point.T[met].astype(np.float32), rgb[met], ids[met]))
        empty = (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8), np.zeros(0, np.uint8))
        xyz, rgb, ids = (np.concatenate(column)[:count] for column in zip(empty, *parts, strict=True))
        return Points(xyz, rgb), ids


@dataclass(frozen=True)
class _CameraRays:
    """The rays of a camera in float64; directions have z = 1 in camera axes, so that t is the depth.

    Args:
        rotation: world_to_cam's, [3, 3].
        position: of the camera, [3].
        x, y: camera coordinates at depth 1 of the columns and rows of rays, [W'] and [H'].
        near, far: as in Camera.
    """

    rotation: np.ndarray
    position: np.ndarray
    x: np.ndarray
    y: np.ndarray
    near: float
    far: float

    @staticmethod
    def of(camera: Camera, samples: int) -> _CameraRays:
        fx, fy, cx, cy = camera.intrinsics.double().tolist()
        matrix = camera.world_to_cam.double().numpy()
        rotation = matrix[:3, :3]
        x = ((np.arange(camera.width * samples) + 0.5) / samples - cx) / fx
        y = ((np.arange(camera.height * samples) + 0.5) / samples - cy) / fy
        position = -np.linalg.solve(rotation, matrix[:3, 3])
        return _CameraRays(rotation, position, x, y, camera.near, camera.far)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.y), len(self.x)

    def window(self, centre: np.ndarray, radius: float) -> tuple[slice, slice] | None:
        """Rows and columns of all rays that may hit a sphere; None: no ray does."""
        x, y, z = self.rotation @ (centre - self.position)
        if z + radius < self.near:
            return None
        slices = []
        for across, grid in ((y, self.y), (x, self.x)):
            away = math.hypot(across, z)
            low, high = -math.inf, math.inf
            if away > radius:
                middle, spread = math.atan2(across, z), math.asin(radius / away)
                low = math.tan(middle - spread) if middle - spread > -math.pi / 2 else low
                high = math.tan(middle + spread) if middle + spread < math.pi / 2 else high
            begin, end = np.searchsorted(grid, low), np.searchsorted(grid, high, side="right")
            if begin >= end:
                return None
            slices.append(slice(int(begin), int(end)))
        return slices[0], slices[1]

    def directions(self, window: tuple[slice, slice], linear: np.ndarray) -> np.ndarray:
        """World directions of the rays of a window, mapped by ``linear``, row by row, [3, R]."""
        to_world = linear @ self.rotation.T
        x, y = self.x[window[1]], self.y[window[0]]
        planes = [(a[1] * y + a[2])[:, None] + (a[0] * x)[None] for a in to_world]
        return np.stack(planes).reshape(3, -1)

    def directions_of(self, indices: np.ndarray) -> np.ndarray:
        """World directions of rays by index, [3, R]."""
        row, column = np.divmod(indices, len(self.x))
        return self.rotation.T @ np.stack([self.x[column], self.y[row], np.ones(len(indices))])

    def points(self, indices: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """World points at given depths on rays by index, [3, R]."""
        return self.position[:, None] + depth * self.directions_of(indices)


def _check_time(time: float) -> None:
    if not 0 <= time <= 1:
        raise ValueError(f"time must be in [0, 1], got {time}")


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.sqrt((vectors * vectors).sum(axis=0))


def _light(albedo: np.ndarray, normal: np.ndarray, to_camera: np.ndarray, gloss: float) -> np.ndarray:
    """Lambertian shading with a sky term and Blinn's highlight; albedo [R, 3], normal and to_camera [3, R]; [R, 3]."""
    facing = np.maximum(TO_LIGHT @ normal, 0)
    halfway = _unit(to_camera + TO_LIGHT[:, None])
    shine = gloss * np.maximum((halfway * normal).sum(axis=0), 0) ** SHININESS * (facing > 0)
    level = AMBIENT + SKY * normal[2] + LAMP * facing
    return np.clip(albedo * level[:, None] + shine[:, None], 0, 1)
