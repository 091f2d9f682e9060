"""Scenes of moving, textured solids and their renderer: pictures whose every answer is known.

Colour is averaged over samples x samples rays of a pixel. Depth, normals, ids and velocities are those of the one ray
through the pixel's centre, so that they mix no two surfaces. There are no shadows and no reflections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from luxel.render.camera import Camera, Points
from luxel.scenes.synthetic.motions import Motion
from luxel.scenes.synthetic.solids import Shape

WAVES = 64
TO_LIGHT = np.array([0.45, -0.35, 0.82]) / np.linalg.norm([0.45, -0.35, 0.82])
AMBIENT, SKY, LAMP = 0.42, 0.13, 0.5  # sum above 1 with the highlight: clamped
SHININESS = 24.0
SMALLEST = 1e-6  # volume, as a share of that of the solid's own space, below which a solid is not there
MOMENT = 1e-5  # half the time over which velocities are differences


@dataclass(frozen=True)
class Texture:
    """Three colours mixed by sums of waves of random directions and lengths: it never repeats.

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
    """One object: a shape with a texture that a motion carries.

    Args:
        name: for people.
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
        """Linear part [3, 3] and place [3] of the motion at a time; None when the solid is not there."""
        matrix = self.motion(time)
        if not abs(np.linalg.det(matrix[:3, :3])) > SMALLEST:
            return None
        return matrix[:3, :3], matrix[:3, 3]

    def reach(self, linear: np.ndarray) -> float:
        """Radius in the world of a sphere around the place that holds the solid."""
        return self.shape.bound * float(np.linalg.norm(linear, 2))


@dataclass
class Picture:
    """What a camera sees.

    Args:
        rgb: straight colours (not multiplied by alpha), float32 [H, W, 3] in [0, 1]; 0 where alpha is.
        alpha: share of the pixel's rays that meet a solid, float32 [H, W].
        depth: z along the camera's axis at the pixel's centre, float32 [H, W], world units; 0: nothing there.
        normals: outward unit normals in world axes, float32 [H, W, 3]; 0: nothing there.
        ids: index of the solid + 1, uint8 [H, W]; 0: nothing there.
        velocity: of the surface point, float32 [H, W, 3], world units per unit of time; 0: nothing there.
    """

    rgb: np.ndarray
    alpha: np.ndarray
    depth: np.ndarray
    normals: np.ndarray
    ids: np.ndarray
    velocity: np.ndarray


@dataclass
class Scene:
    """Solids, at most 255, under one light from a fixed direction."""

    solids: list[Solid] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.solids) > 255:
            raise ValueError(f"ids have room for 255 solids, got {len(self.solids)}")

    def render(self, camera: Camera, time: float = 0.0, *, samples: int = 2) -> Picture:
        """The scene at a time.

        Args:
            camera: a single camera; solids are seen between its near and far.
            time: within [0, 1].
            samples: rays across a pixel for the colour; samples^2 in all.

        Raises:
            ValueError: a batch of cameras, a time outside of [0, 1], or samples below 1.
        """
        if camera.batched or samples < 1:
            raise ValueError("render needs a single camera and samples >= 1")
        _check_time(time)
        eye = _Eye.of(camera, samples)
        _, ids, colour = self._shoot(eye, time, shade=True)
        h, w = camera.height, camera.width
        count = (ids > 0).reshape(h, samples, w, samples).sum(axis=(1, 3), dtype=np.float32)
        total = colour.reshape(h, samples, w, samples, 3).sum(axis=(1, 3))
        rgb = total / np.maximum(count, 1)[..., None]
        eye = _Eye.of(camera, 1)
        depth, ids, normals = self._shoot(eye, time, shade=False)
        seen = ids > 0
        depth = np.where(seen, depth, 0)
        velocity = np.zeros((h, w, 3), np.float32)
        points = eye.points(np.flatnonzero(seen), depth[seen]).T
        velocity[seen] = self.velocities(points, ids[seen], time)
        return Picture(rgb, count / samples**2, depth.astype(np.float32), normals, ids, velocity)

    def _shoot(self, eye: _Eye, time: float, *, shade: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Depth (inf: nothing), ids, and colours or else normals (float32 [., ., 3]) of every ray of an eye."""
        depth = np.full(eye.shape, np.inf)
        ids = np.zeros(eye.shape, np.uint8)
        out = np.zeros((*eye.shape, 3), np.float32)
        poses = [solid.pose(time) for solid in self.solids]
        for index, (solid, pose) in enumerate(zip(self.solids, poses, strict=True)):
            if pose is None or not (window := eye.window(pose[1], solid.reach(pose[0]))):
                continue
            inverse = np.linalg.inv(pose[0])
            origin = (inverse @ (eye.place - pose[1]))[:, None]
            t = solid.shape.hit(origin, eye.directions(window, inverse), eye.near)
            t = t.reshape(depth[window].shape)
            nearer = (t < depth[window]) & (t <= eye.far)
            depth[window][nearer] = t[nearer]
            ids[window][nearer] = index + 1
        for index, (solid, pose) in enumerate(zip(self.solids, poses, strict=True)):
            rays = np.flatnonzero(ids == index + 1)
            if pose is None or not len(rays):
                continue
            inverse = np.linalg.inv(pose[0])
            point = eye.points(rays, depth.reshape(-1)[rays]) - pose[1][:, None]
            point = inverse @ point
            normal = _unit(inverse.T @ solid.shape.normal(point))
            if not shade:
                out.reshape(-1, 3)[rays] = normal.T
                continue
            to_eye = -_unit(eye.rays(rays))
            out.reshape(-1, 3)[rays] = _light(solid.texture(point), normal, to_eye, solid.gloss)
        return depth, ids, out

    def carry(self, points: np.ndarray, ids: np.ndarray, time: float, to: float) -> np.ndarray:
        """Where surface points go between two times.

        Args:
            points: at ``time``, world coordinates, [P, 3].
            ids: of their solids, [P].
            time, to: the two times.

        Returns:
            The same points of the solids at ``to``, [P, 3]; NaN where the id is 0 or the solid is not there at
            ``time``.
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

        Central differences, within [0, 1]; of no meaning at the moment when a ball meets the floor.
        """
        begin, end = max(0.0, time - MOMENT), min(1.0, time + MOMENT)
        return (self.carry(points, ids, time, end) - self.carry(points, ids, time, begin)) / (end - begin)

    def sample(self, count: int, time: float = 0.0, *, seed: int = 0) -> tuple[Points, np.ndarray]:
        """Points on the surfaces as seen from without, where random lines first meet the scene.

        On convex solids that hide nothing of each other they are spread evenly by area.

        Args:
            count: P; there are none if the scene is empty at that time.
            time: within [0, 1].
            seed: of the random lines.

        Returns:
            Points with their albedo, and the ids of their solids, uint8 [P].

        Raises:
            ValueError: the time lies outside of [0, 1].
        """
        _check_time(time)
        random = np.random.default_rng([seed, 3])
        there = [(i, s, p) for i, s in enumerate(self.solids) if (p := s.pose(time)) is not None]
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        if there:
            places = np.stack([pose[1] for _, _, pose in there])
            centre = places.mean(axis=0)
            spans = np.linalg.norm(places - centre, axis=1)
            radius = max(a + s.reach(pose[0]) for a, (_, s, pose) in zip(spans, there, strict=True))
        while there and sum(len(part[1]) for part in parts) < count:
            lines = max(1000, 4 * count)
            toward = _unit(random.standard_normal((3, lines)))
            beside = random.standard_normal((3, lines))
            beside = _unit(beside - (beside * toward).sum(axis=0) * toward)
            start = centre[:, None] + radius * (np.sqrt(random.uniform(0, 1, lines)) * beside - 1.01 * toward)
            depth, ids = np.full(lines, np.inf), np.zeros(lines, np.uint8)
            for index, solid, (linear, place) in there:
                inverse = np.linalg.inv(linear)
                t = solid.shape.hit(inverse @ (start - place[:, None]), inverse @ toward, 0.0)
                ids[t < depth] = index + 1
                depth = np.minimum(depth, t)
            rgb = np.zeros((lines, 3), np.uint8)
            met = ids > 0
            point = start + np.where(met, depth, 0) * toward
            for index, solid, (linear, place) in there:
                own = np.linalg.inv(linear) @ (point[:, ids == index + 1] - place[:, None])
                rgb[ids == index + 1] = np.round(solid.texture(own) * 255)
            parts.append((point.T[met].astype(np.float32), rgb[met], ids[met]))
        empty = (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8), np.zeros(0, np.uint8))
        xyz, rgb, ids = (np.concatenate(column)[:count] for column in zip(empty, *parts, strict=True))
        return Points(xyz, rgb), ids


@dataclass(frozen=True)
class _Eye:
    """The rays of a camera in float64: their d has z = 1 in camera axes, so that t is the depth.

    Args:
        rotation: world_to_cam's, [3, 3].
        place: of the camera, [3].
        x, y: of the columns and rows of rays at depth 1 in camera axes, [W'] and [H'].
        near, far: as in Camera.
    """

    rotation: np.ndarray
    place: np.ndarray
    x: np.ndarray
    y: np.ndarray
    near: float
    far: float

    @staticmethod
    def of(camera: Camera, samples: int) -> _Eye:
        fx, fy, cx, cy = camera.intrinsics.double().tolist()
        matrix = camera.world_to_cam.double().numpy()
        rotation = matrix[:3, :3]
        x = ((np.arange(camera.width * samples) + 0.5) / samples - cx) / fx
        y = ((np.arange(camera.height * samples) + 0.5) / samples - cy) / fy
        place = -np.linalg.solve(rotation, matrix[:3, 3])
        return _Eye(rotation, place, x, y, camera.near, camera.far)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.y), len(self.x)

    def window(self, centre: np.ndarray, radius: float) -> tuple[slice, slice] | None:
        """Rows and columns of all rays that may meet a sphere; None: there are none."""
        x, y, z = self.rotation @ (centre - self.place)
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
        """The rays' d in the world, mapped by ``linear``, of a window row by row, [3, R]."""
        to_world = linear @ self.rotation.T
        x, y = self.x[window[1]], self.y[window[0]]
        planes = [(a[1] * y + a[2])[:, None] + (a[0] * x)[None] for a in to_world]
        return np.stack(planes).reshape(3, -1)

    def rays(self, indices: np.ndarray) -> np.ndarray:
        """The d in the world of rays by number, [3, R]."""
        row, column = np.divmod(indices, len(self.x))
        return self.rotation.T @ np.stack([self.x[column], self.y[row], np.ones(len(indices))])

    def points(self, indices: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """World points on rays by number at their depths, [3, R]."""
        return self.place[:, None] + depth * self.rays(indices)


def _check_time(time: float) -> None:
    if not 0 <= time <= 1:
        raise ValueError(f"times are within [0, 1], got {time}")


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.sqrt((vectors * vectors).sum(axis=0))


def _light(albedo: np.ndarray, normal: np.ndarray, to_eye: np.ndarray, gloss: float) -> np.ndarray:
    """Lambert with a light sky above, and Blinn's highlight; albedo [R, 3], normal and to_eye [3, R]; [R, 3]."""
    facing = np.maximum(TO_LIGHT @ normal, 0)
    halfway = _unit(to_eye + TO_LIGHT[:, None])
    shine = gloss * np.maximum((halfway * normal).sum(axis=0), 0) ** SHININESS * (facing > 0)
    level = AMBIENT + SKY * normal[2] + LAMP * facing
    return np.clip(albedo * level[:, None] + shine[:, None], 0, 1)
