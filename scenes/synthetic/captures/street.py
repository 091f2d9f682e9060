"""A street of two scales, and a capture of it on foot: small print at arm's length, towers and hills far off.

The farthest of what is seen is about a thousand times as far as the nearest. A seed chooses buildings, things, textures
and the walk. `write_utm_copy` writes the same capture in the coordinates of a map.
"""

from __future__ import annotations

import colorsys
import json
import math
from pathlib import Path

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.files.ply import load_points
from luxel.scenes.geometry import OPENGL_TO_OPENCV, quaternion_from_rotation, rotation_from_quaternion
from luxel.scenes.synthetic.captures.static_capture import (
    link_or_copy,
    shadowed_scene,
    write_static_capture,
)
from luxel.scenes.synthetic.rays.ray_caster import StaticSolid, Triple
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import (
    BRICKS,
    CLOUDS,
    MARBLE,
    PLANKS,
    PRINT,
    STONES,
    STRIPES,
    TILES,
    WINDOWS,
    Surface,
)
from luxel.scenes.synthetic.solids.motions import rotation

FOV_X = math.radians(68)
HALF_WALK = 14.0  # half of the length of the walk along x, metres
ROAD, PAVEMENT = 3.5, 6.5  # distances from the middle of the road to its edge and to the houses, metres
WALK = 4.9  # distance from the middle of the road at which people walk
HALF_STREET = 70.0  # half of the length of the rows of houses
SKY = 1500.0  # radius
NOISE = 0.01  # standard deviation of the points, metres
UTM = (4.0e5, 5.2e6, 100.0)  # least east, north and height of the origin in a map
UTM_SPREAD = (2.0e5, 4.0e5, 900.0)  # by which the seed moves it
FACADES = (BRICKS, STONES, TILES, WINDOWS)


def make_street_solids(seed: int) -> list[StaticSolid]:
    """About 250 solids in metres, z up, the ground at z = 0, along the x axis.

    Args:
        seed: of buildings, things, colours and textures.
    """
    return _Street(seed).solids


def street_cameras(views: int, *, width: int, height: int, seed: int) -> list[Camera]:
    """Cameras on the way along one pavement and back along the other, looking ahead, at the houses and back.

    Args:
        views: number of cameras.
        width, height: of the images, pixels.
        seed: of deviations.
    """
    random = np.random.default_rng([seed, 102])
    fov_y = 2 * math.atan(math.tan(0.5 * FOV_X) * height / width)
    first = (views + 1) // 2
    cameras = []
    for index in range(views):
        back = index >= first
        share = (index - first if back else index) / max(1, first - 1)
        x = HALF_WALK * (1 - 2 * share if back else 2 * share - 1) + random.uniform(-0.1, 0.1)
        side = (1 if back else -1) * (WALK + 0.25 * math.sin(5 * share + seed))
        eye = (x, side, (1.3, 1.7)[index // 4 % 2] + random.uniform(-0.05, 0.05))
        turn = (math.pi if back else 0) + (0.0, 0.75, -0.75, 1.4)[index % 4] + random.uniform(-0.2, 0.2)
        to = (x + math.cos(turn), side + math.sin(turn), eye[2] + random.uniform(-0.12, 0.16))
        up = (*random.uniform(-0.03, 0.03, 2), 1.0)
        cameras.append(Camera.look_at(list(eye), list(to), up, fov_y=fov_y, width=width, height=height))
    return cameras


def write_street(
    out: str | Path,
    *,
    seed: int,
    views: int = 112,
    width: int = 980,
    height: int = 653,
    points: int = 80_000,
    device: torch.device | str | None = None,
) -> Path:
    """Writes a capture of the street, see `write_static_capture`.

    Args:
        out: folder, created if it does not exist.
        seed: of the street, the cameras and the points.
        views: number of images.
        width, height: of the images, pixels.
        points: number of points.
        device: to render on; None: a GPU where there is one.

    Returns:
        The folder.
    """
    side = max(width, height)
    solids = make_street_solids(seed)
    scene = shadowed_scene(solids, seed, device, shadow_radius=45.0, longer_side=side)
    cameras = street_cameras(views, width=width, height=height, seed=seed)
    return write_static_capture(out, scene, cameras, points=points, noise=NOISE, seed=seed)


def utm_origin(seed: int) -> np.ndarray:
    """East, north and height of the origin of a copy in a map, metres, float64 [3]."""
    return np.add(UTM, np.random.default_rng([seed, 103]).uniform(0, UTM_SPREAD)).round(3)


def write_utm_copy(capture: str | Path, out: str | Path, *, seed: int) -> Path:
    """Writes a capture of `write_static_capture` again as a COLMAP model in the coordinates of a map.

    Args:
        capture: folder of the original.
        out: folder of the copy, created if it does not exist; the images are linked where the file system can do so.
        seed: of `utm_origin`, which is added to all coordinates in float64.

    Returns:
        The folder.
    """
    original, folder = Path(capture), Path(out)
    model = folder / "sparse" / "0"
    model.mkdir(parents=True, exist_ok=True)
    (folder / "images").mkdir(exist_ok=True)
    origin = utm_origin(seed)
    document = json.loads((original / "transforms.json").read_text())
    cameras, images = [], []
    for number, frame in enumerate(document["frames"], start=1):
        lens = [frame[name] for name in ("w", "h", "fl_x", "fl_y", "cx", "cy")]
        cameras.append(" ".join(map(repr, [number, "PINHOLE", *lens])).replace("'", ""))
        pose = np.array(frame["transform_matrix"]) @ OPENGL_TO_OPENCV
        quaternion = quaternion_from_rotation(pose[:3, :3].T)
        # Of the rotation that is read back: a last bit of the matrix moves a camera by decimetres.
        shift = -rotation_from_quaternion(quaternion.tolist(), frame["file_path"]) @ (pose[:3, 3] + origin)
        values = [*quaternion.tolist(), *shift.tolist()]
        name = Path(frame["file_path"]).name
        images += [f"{number} {' '.join(map(repr, values))} {number} {name}", ""]
    points = load_points(original / "points3D.ply")
    rows = zip((points.xyz.astype(np.float64) + origin).tolist(), points.rgb.tolist(), strict=True)
    lines = [
        " ".join(map(repr, [number, *xyz, *rgb, 1.0])) for number, (xyz, rgb) in enumerate(rows, start=1)
    ]
    for name, text in (("cameras", cameras), ("images", images), ("points3D", lines)):
        (model / f"{name}.txt").write_text("\n".join([*text, ""]))
    paths = sorted((original / "images").iterdir())
    for_each(lambda index: link_or_copy(paths[index], folder / "images" / paths[index].name), len(paths))
    return folder


class _Street:
    """Solids added one by one, with random surfaces."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 101])
        self.hue = self.random.uniform()
        self.solids: list[StaticSolid] = []
        self._ground()
        for side in (-1, 1):
            self._houses(side)
            self._pavement(side)
        self._far()

    def add(
        self, shape: int, size: Triple, centre: Triple, surface: Surface, turn: float = 0.0, tilt: float = 0.0
    ) -> None:
        """Adds a solid tilted around x, then turned around z, radians."""
        axes = rotation((0, 0, 1), turn) @ rotation((1, 0, 0), tilt)
        self.solids.append(StaticSolid(shape, size, centre, surface, axes))

    def colours(self, vivid: float = 0.5) -> tuple[Triple, Triple, Triple]:
        """Colours of a hue far from the one before: a main one, its variation and a dark contrast."""
        self.hue = (self.hue + 0.382 + 0.1 * self.random.uniform()) % 1
        level = self.random.uniform(0.55, 0.9)
        return (
            colorsys.hsv_to_rgb(self.hue, vivid * self.random.uniform(0.5, 1), level),
            colorsys.hsv_to_rgb((self.hue + 0.06) % 1, 0.5 * vivid, min(1.0, level + 0.12)),
            colorsys.hsv_to_rgb((self.hue + 0.5) % 1, 0.35, 0.22),
        )

    def look(self, cell: float) -> Surface:
        """A surface with a random pattern."""
        pattern = int(self.random.choice([BRICKS, TILES, PLANKS, STONES, STRIPES, MARBLE]))
        grain = self.random.uniform(0.15, 0.4)
        scale = 3 if pattern == MARBLE else 1
        return Surface(pattern, scale * cell, self.colours(), self.random.uniform(0, 0.2), grain)

    def paper(self, cell: float) -> Surface:
        """Something printed."""
        return Surface(PRINT, cell, ((0.93, 0.91, 0.85), *self.colours(0.8)[::2]), 0.1, 0.05)

    def _ground(self) -> None:
        sky = ((0.3, 0.5, 0.8), (0.78, 0.86, 0.93), (0.97, 0.96, 0.94))
        self.add(ELLIPSOID, (SKY, SKY, SKY), (0, 0, -40), Surface(CLOUDS, 450.0, sky, 0, 0.02))
        grass = ((0.36, 0.45, 0.2), (0.5, 0.52, 0.27), (0.2, 0.27, 0.12))
        self.add(BOX, (SKY, SKY, 1.0), (0, 0, -1.16), Surface(MARBLE, 12.0, grass, 0, 0.4))
        tar = ((0.36, 0.36, 0.37), (0.45, 0.44, 0.43), (0.22, 0.22, 0.23))
        self.add(BOX, (SKY, ROAD, 0.1), (0, 0, -0.2), Surface(MARBLE, 1.6, tar, 0.05, 0.5))
        for k in range(-24, 25):
            white = ((0.9, 0.9, 0.86), (0.8, 0.8, 0.76), (0.5, 0.5, 0.48))
            self.add(BOX, (0.8, 0.07, 0.005), (3.0 * k, 0, -0.1), Surface(MARBLE, 0.5, white, 0, 0.3))
        paving = Surface(
            int(self.random.choice([STONES, TILES, BRICKS])), 0.35, self.colours(0.25), 0.0, 0.35
        )
        for side in (-1, 1):
            half = 0.5 * (PAVEMENT + 0.5 - ROAD)
            self.add(BOX, (HALF_STREET, half, 0.1), (0, side * (ROAD + half), -0.1), paving)

    def _houses(self, side: int) -> None:
        """A row of houses with doors, windows, shop signs and posters."""
        at = -HALF_STREET
        while at < HALF_STREET:
            half, high = self.random.uniform(3, 6), self.random.uniform(3.5, 9)
            deep = 5.0
            middle, face = at + half, side * PAVEMENT
            pattern = int(self.random.choice(FACADES))
            cell = 1.3 if pattern == WINDOWS else self.random.uniform(0.25, 0.5)
            wall = Surface(pattern, cell, self.colours(0.45), 0.05, 0.3)
            self.add(BOX, (half - 0.05, deep, high), (middle, face + side * deep, high), wall)
            glass = ((0.18, 0.22, 0.28), (0.65, 0.74, 0.82), self.colours(0.3)[0])
            for k in range(int(2 * half / 2.2)):
                x = at + 1.2 + 2.2 * k
                if k % 2:
                    look = Surface(WINDOWS, 0.45, glass, 0.3, 0.1)
                    self.add(BOX, (0.75, 0.06, 0.8), (x, face - side * 0.03, 1.7), look)
                elif self.random.uniform() < 0.5:
                    door = Surface(PLANKS, 0.14, self.colours(0.6), 0.1, 0.3)
                    self.add(BOX, (0.5, 0.05, 1.05), (x, face - side * 0.02, 1.05), door)
                else:
                    size = (self.random.uniform(0.3, 0.6), 0.02, self.random.uniform(0.4, 0.8))
                    self.add(
                        BOX, size, (x, face - side * 0.01, 1.6), self.paper(self.random.uniform(0.03, 0.06))
                    )
            sign = self.paper(0.18)
            self.add(BOX, (0.6 * half, 0.08, 0.28), (middle, face - side * 0.08, 2.95), sign)
            at += 2 * half + (self.random.uniform(2, 6) if self.random.uniform() < 0.25 else 0)

    def _pavement(self, side: int) -> None:
        """Lamps, trees, bollards, boxes and parked cars."""
        edge = side * (ROAD + 0.45)
        for k in range(-7, 8):
            x = 9.0 * k + self.random.uniform(-1, 1)
            metal = Surface(STRIPES, 0.1, self.colours(0.3), 0.3, 0.2)
            self.add(CYLINDER, (0.06, 0.06, 2.4), (x, edge, 2.4), metal)
            self.add(ELLIPSOID, (0.22, 0.22, 0.26), (x, edge, 4.9), self.look(0.1))
            x += 4.5
            bark = ((0.4, 0.3, 0.22), (0.5, 0.4, 0.3), (0.2, 0.15, 0.1))
            self.add(CYLINDER, (0.14, 0.14, 1.3), (x, edge, 1.3), Surface(STONES, 0.08, bark, 0, 0.5))
            leaf = ((0.3, 0.45, 0.18), (0.45, 0.55, 0.25), (0.14, 0.25, 0.08))
            for _ in range(3):
                to = self.random.uniform(-0.6, 0.6, 3)
                size = (self.random.uniform(0.6, 1.0), self.random.uniform(0.6, 1.0), 0.8)
                at = (x + to[0], edge + to[1], 3.2 + to[2])
                self.add(ELLIPSOID, size, at, Surface(STONES, 0.16, leaf, 0, 0.6))
        for k in range(12):
            x = 3.0 * (k - 6) + self.random.uniform(-0.8, 0.8)
            r = self.random.uniform(0.12, 0.3)
            shape = (BOX, CYLINDER, ELLIPSOID, TORUS)[k % 4]
            size = (r, r, 0.35 * r) if shape == TORUS else (r, r, self.random.uniform(0.8, 1.6) * r)
            look = self.paper(0.25 * r) if shape == BOX else self.look(0.3 * r)
            y = side * (self.random.uniform(5.75, 6.1) if k % 3 else self.random.uniform(3.8, 4.1))
            self.add(shape, size, (x, y, size[2]), look, self.random.uniform(0, 6))
        for k in (-2, -1, 1, 2):
            self._car((9.0 * k + self.random.uniform(-2, 2), side * (ROAD - 0.95)))

    def _car(self, at: tuple[float, float]) -> None:
        x, y = at
        paint = Surface(MARBLE, 2.0, self.colours(0.8), 0.35, 0.1)
        glass = ((0.15, 0.18, 0.22), (0.5, 0.6, 0.7), (0.1, 0.1, 0.12))
        self.add(BOX, (2.0, 0.8, 0.32), (x, y, 0.5), paint)
        self.add(ELLIPSOID, (1.3, 0.74, 0.62), (x - 0.15, y, 0.8), Surface(WINDOWS, 0.6, glass, 0.35, 0.05))
        for i in (-1.2, 1.2):
            for j in (-0.72, 0.72):
                rubber = ((0.12, 0.12, 0.13), (0.2, 0.2, 0.2), (0.5, 0.5, 0.5))
                wheel = Surface(STRIPES, 0.08, rubber, 0.1, 0.2)
                self.add(CYLINDER, (0.32, 0.32, 0.11), (x + i, y + j, 0.22), wheel, 0.0, 0.5 * math.pi)

    def _far(self) -> None:
        """Towers in the gaps and at both ends of the street, and hills behind them."""
        for k in range(26):
            angle, away = 2 * math.pi * k / 26, self.random.uniform(90, 420)
            high = self.random.uniform(0.05, 0.12) * away + 10
            half = self.random.uniform(6, 16)
            pattern = int(self.random.choice(FACADES))
            look = Surface(pattern, self.random.uniform(2.5, 4.5), self.colours(0.4), 0.1, 0.25)
            at = (away * math.cos(angle), away * math.sin(angle), high)
            self.add(BOX, (half, self.random.uniform(6, 16), high), at, look, self.random.uniform(0, 3))
        for k in range(10):
            angle, away = 2 * math.pi * (k + self.random.uniform(0, 0.8)) / 10, self.random.uniform(650, 1000)
            green = ((0.33, 0.42, 0.26), (0.45, 0.5, 0.33), (0.25, 0.33, 0.28))
            size = (
                self.random.uniform(150, 260),
                self.random.uniform(100, 200),
                self.random.uniform(60, 140),
            )
            at = (away * math.cos(angle), away * math.sin(angle), -10)
            self.add(ELLIPSOID, size, at, Surface(MARBLE, 60.0, green, 0, 0.35), angle)
