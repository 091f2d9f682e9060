"""A furnished room of textured and bare walls, and a capture of it from within; a seed chooses all but its plan."""

from __future__ import annotations

import colorsys
import math
from pathlib import Path

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.captures.static_capture import shadowed_scene, write_static_capture
from luxel.scenes.synthetic.rays.ray_caster import StaticSolid, Triple
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import (
    BRICKS,
    CLOUDS,
    MARBLE,
    PLAIN,
    PLANKS,
    PRINT,
    STONES,
    STRIPES,
    TILES,
    Surface,
)
from luxel.scenes.synthetic.solids.motions import rotation

FOV_X = math.radians(74)
WALLS = (BRICKS, TILES, STRIPES, STONES, MARBLE)
NOISE = 0.004  # standard deviation of the points, metres
THICK = 0.1  # half of the thickness of walls, metres
WINDOW, SILL, LINTEL = 0.9, 0.9, 2.1  # half of the width of the window; heights of its edges, metres


def make_room_solids(seed: int) -> list[StaticSolid]:
    """About 120 solids, z up, in metres: the floor is at z = 0 and the middle of the room at the origin.

    Args:
        seed: of sizes, positions, colours and textures, and of which walls are bare.
    """
    return _Room(seed).solids


def room_cameras(views: int, *, width: int, height: int, seed: int) -> list[Camera]:
    """Cameras on a loop around the middle at the height of a standing or a sitting person, looking in all directions.

    Args:
        views: number of cameras.
        width, height: of the images, pixels.
        seed: of the room, and of deviations.
    """
    random = np.random.default_rng([seed, 92])
    half_x, half_y, _ = _extents(seed)
    fov_y = 2 * math.atan(math.tan(0.5 * FOV_X) * height / width)
    cameras = []
    for index in range(views):
        angle = 2 * math.pi * (index + random.uniform(-0.25, 0.25)) / views
        share = 0.42 + 0.06 * math.sin(3 * angle) + random.uniform(-0.03, 0.03)
        eye = np.array([share * half_x * math.cos(angle), share * half_y * math.sin(angle), 0.0])
        eye[2] = (1.25, 1.6)[index // 3 % 2] + random.uniform(-0.1, 0.1)
        turn = angle + (math.pi if index % 2 else 0) + random.uniform(-0.7, 0.7)
        to = eye + np.array([math.cos(turn), math.sin(turn), random.uniform(-0.4, 0.1)])
        up = (*random.uniform(-0.03, 0.03, 2), 1.0)
        cameras.append(Camera.look_at(eye.tolist(), to.tolist(), up, fov_y=fov_y, width=width, height=height))
    return cameras


def write_room(
    out: str | Path,
    *,
    seed: int,
    views: int = 112,
    width: int = 924,
    height: int = 693,
    points: int = 60_000,
    device: torch.device | str | None = None,
) -> Path:
    """Writes a capture of the room, see `write_static_capture`.

    Args:
        out: folder, created if it does not exist.
        seed: of the room, the cameras and the points.
        views: number of images.
        width, height: of the images, pixels.
        points: number of points.
        device: to render on; None: a GPU where there is one.

    Returns:
        The folder.
    """
    side = max(width, height)
    solids = make_room_solids(seed)
    scene = shadowed_scene(solids, seed, device, shadow_radius=5.0, longer_side=side)
    cameras = room_cameras(views, width=width, height=height, seed=seed)
    return write_static_capture(out, scene, cameras, points=points, noise=NOISE, seed=seed)


def _extents(seed: int) -> Triple:
    """Half of the length and width of the room, and its height, metres."""
    random = np.random.default_rng([seed, 90])
    return random.uniform(2.4, 3.0), random.uniform(1.9, 2.4), random.uniform(2.5, 2.9)


class _Room:
    """Solids added one by one, with random surfaces."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 91])
        self.half_x, self.half_y, self.height = _extents(seed)
        self.hue = self.random.uniform()
        self.solids: list[StaticSolid] = []
        self._shell()
        self._table()
        self._shelf()
        self._bed()
        self._clutter()

    def add(
        self, shape: int, size: Triple, centre: Triple, surface: Surface, turn: float = 0.0, tilt: float = 0.0
    ) -> None:
        """Adds a solid tilted around x, then turned around z, radians."""
        axes = rotation((0, 0, 1), turn) @ rotation((1, 0, 0), tilt)
        self.solids.append(StaticSolid(shape, size, centre, surface, axes))

    def colours(self, vivid: float = 0.55) -> tuple[Triple, Triple, Triple]:
        """Colours of a hue far from the one before: a main one, its variation and a dark contrast."""
        self.hue = (self.hue + 0.382 + 0.1 * self.random.uniform()) % 1
        level = self.random.uniform(0.7, 0.95)
        return (
            colorsys.hsv_to_rgb(self.hue, vivid * self.random.uniform(0.6, 1), level),
            colorsys.hsv_to_rgb((self.hue + 0.06) % 1, 0.5 * vivid, min(1.0, level + 0.1)),
            colorsys.hsv_to_rgb((self.hue + 0.5) % 1, 0.4, 0.25),
        )

    def look(self, cell: float) -> Surface:
        """A surface with a random pattern."""
        pattern = int(self.random.choice([*WALLS, PLANKS, PLAIN]))
        scale = 3 if pattern in (MARBLE, PLAIN) else 1
        grain = self.random.uniform(0.1, 0.35)
        return Surface(pattern, scale * cell, self.colours(), self.random.uniform(0, 0.3), grain)

    def paper(self, cell: float) -> Surface:
        """Something printed."""
        return Surface(PRINT, cell, ((0.95, 0.92, 0.86), *self.colours(0.8)[::2]), 0.1, 0.05)

    def bare(self) -> Surface:
        """A wall of one colour, without any detail."""
        colour = colorsys.hsv_to_rgb(self.random.uniform(), self.random.uniform(0, 0.12), 0.93)
        return Surface(PLAIN, 1.0, (colour,) * 3, 0.0, 0.0)

    def _shell(self) -> None:
        """Floor, ceiling, four walls of which two are bare, a window in one, and what is outside of it."""
        x, y, top = self.half_x, self.half_y, self.height
        sky = ((0.3, 0.5, 0.8), (0.78, 0.86, 0.93), (0.97, 0.96, 0.94))
        self.add(ELLIPSOID, (60, 60, 60), (0, 0, -2), Surface(CLOUDS, 20.0, sky, 0, 0.02))
        grass = ((0.36, 0.45, 0.2), (0.5, 0.52, 0.27), (0.2, 0.27, 0.12))
        self.add(BOX, (40, 40, 0.2), (0, 0, -1.6), Surface(MARBLE, 2.0, grass, 0, 0.4))
        floor = Surface(int(self.random.choice([PLANKS, TILES])), 0.14, self.colours(0.5), 0.2, 0.25)
        self.add(BOX, (x + 0.2, y + 0.2, THICK), (0, 0, -THICK), floor)
        self.add(BOX, (x + 0.2, y + 0.2, THICK), (0, 0, top + THICK), self.bare())
        bare = self.random.permutation(4) < 2
        looks = [
            self.bare()
            if empty
            else Surface(int(self.random.choice(WALLS)), 0.22, self.colours(), 0.05, 0.25)
            for empty in bare
        ]
        self.add(BOX, (THICK, y + 0.2, top / 2), (-x - THICK, 0, top / 2), looks[0])
        self.add(BOX, (x + 0.2, THICK, top / 2), (0, y + THICK, top / 2), looks[1])
        self.add(BOX, (THICK, y + 0.2, top / 2), (x + THICK, 0, top / 2), looks[2])
        side, wall = 0.5 * (x + 0.2 - WINDOW), -y - THICK  # the light comes from there
        for sign in (-1, 1):
            self.add(BOX, (side, THICK, top / 2), (sign * (WINDOW + side), wall, top / 2), looks[3])
        self.add(BOX, (WINDOW, THICK, SILL / 2), (0, wall, SILL / 2), looks[3])
        rest = 0.5 * (top - LINTEL)
        self.add(BOX, (WINDOW, THICK, rest), (0, wall, LINTEL + rest), looks[3])
        wood = Surface(PLANKS, 0.06, self.colours(0.3), 0.1, 0.2)
        self.add(BOX, (0.03, 0.03, 0.5 * (LINTEL - SILL)), (0, wall, 0.5 * (LINTEL + SILL)), wood)
        self.add(BOX, (WINDOW + 0.05, 0.16, 0.02), (0, wall + 0.1, SILL), wood)
        for k in range(4):
            at = self.random.uniform(-0.7, 0.7) * x
            size = (self.random.uniform(0.2, 0.4), 0.015, self.random.uniform(0.2, 0.4))
            poster = self.paper(self.random.uniform(0.02, 0.05)) if k % 2 else self.look(0.08)
            self.add(BOX, size, (at, y - 0.015, self.random.uniform(1.3, 1.9)), poster)

    def _table(self) -> None:
        """A table in a corner with things on it, and a chair."""
        wood = Surface(PLANKS, 0.1, self.colours(0.5), 0.2, 0.3)
        x, y, high = 0.62 * self.half_x, 0.62 * self.half_y, 0.74
        self.add(BOX, (0.7, 0.42, 0.025), (x, y, high - 0.025), wood)
        for i in (-1, 1):
            for j in (-1, 1):
                self.add(CYLINDER, (0.03, 0.03, high / 2), (x + 0.62 * i, y + 0.34 * j, high / 2), wood)
        for k in range(12):
            at = (x + self.random.uniform(-0.6, 0.6), y + self.random.uniform(-0.34, 0.34))
            self._thing(self.random.uniform(0.03, 0.1), (*at, high), k)
        self.add(BOX, (0.21, 0.21, 0.02), (x, y - 0.62, 0.45), self.look(0.06))
        self.add(BOX, (0.21, 0.02, 0.3), (x, y - 0.82, 0.75), self.look(0.06))
        self.add(CYLINDER, (0.04, 0.04, 0.22), (x, y - 0.62, 0.22), wood)

    def _shelf(self) -> None:
        """A bookcase at a wall."""
        wood, wide = Surface(PLANKS, 0.09, self.colours(0.4), 0.1, 0.3), 0.75
        x, y, deep = -self.half_x + 0.16, -0.35 * self.half_y, 0.15
        for end in (-1, 1):
            self.add(BOX, (deep, 0.02, 0.95), (x, y + end * wide, 0.95), wood)
        for level in range(5):
            base = 0.04 + 0.45 * level
            self.add(BOX, (deep, wide, 0.02), (x, y, base), wood)
            at = y - wide + 0.05
            while level < 4 and at < y + wide - 0.12:
                thick, high = self.random.uniform(0.015, 0.04), self.random.uniform(0.12, 0.19)
                size = (self.random.uniform(0.09, 0.13), thick, high)
                book = self.paper(0.02) if self.random.uniform() < 0.5 else self.look(0.03)
                self.add(BOX, size, (x, at + thick, base + 0.02 + high), book)
                at += 2 * thick + (0.25 if self.random.uniform() < 0.15 else 0.004)

    def _bed(self) -> None:
        """A bed with pillows in the corner opposite to the table, and a rug."""
        x, y = -0.5 * self.half_x, 0.6 * self.half_y
        self.add(BOX, (0.95, 0.45, 0.2), (x, y, 0.2), Surface(PLANKS, 0.1, self.colours(0.5), 0.1, 0.3))
        self.add(BOX, (0.92, 0.43, 0.09), (x, y, 0.48), Surface(STRIPES, 0.07, self.colours(), 0.0, 0.2))
        for side in (-0.2, 0.2):
            self.add(ELLIPSOID, (0.2, 0.17, 0.08), (x - 0.7, y + side, 0.62), self.look(0.05))
        self.add(CYLINDER, (0.8, 0.8, 0.006), (0.3, -0.2, 0.006), self.look(0.12))

    def _clutter(self) -> None:
        """Things on the floor along the walls, a lamp and a plant."""
        for k in range(16):
            angle = 2 * math.pi * (k + self.random.uniform(-0.3, 0.3)) / 16
            x, y = 0.83 * self.half_x * math.cos(angle), 0.8 * self.half_y * math.sin(angle)
            self._thing(self.random.uniform(0.08, 0.22), (x, y, 0.0), k)
        x, y = self.half_x - 0.35, -self.half_y + 0.4
        self.add(CYLINDER, (0.02, 0.02, 0.75), (x, y, 0.75), self.look(0.05))
        self.add(CYLINDER, (0.2, 0.2, 0.14), (x, y, 1.6), self.look(0.05))
        x, y = -self.half_x + 0.4, -self.half_y + 0.4
        self.add(CYLINDER, (0.16, 0.16, 0.18), (x, y, 0.18), self.look(0.06))
        leaf = Surface(MARBLE, 0.15, ((0.3, 0.5, 0.2), (0.45, 0.6, 0.3), (0.15, 0.3, 0.1)), 0.1, 0.4)
        for _ in range(14):
            to = self.random.normal(size=3)
            to = to / np.linalg.norm(to) * self.random.uniform(0.1, 0.3)
            at = (x + to[0], y + to[1], 0.7 + to[2])
            turn, tilt = self.random.uniform(0, 6), self.random.uniform(-1, 1)
            self.add(ELLIPSOID, (0.05, 0.14, 0.012), at, leaf, turn, tilt)

    def _thing(self, r: float, at: Triple, index: int) -> None:
        """A random solid of about a radius that stands at a point."""
        x, y, z = at
        shape = (BOX, CYLINDER, ELLIPSOID, TORUS)[index % 4]
        tall = self.random.uniform(0.7, 1.4)
        size = {
            BOX: (0.8 * r, 0.6 * r, tall * r),
            CYLINDER: (0.55 * r, 0.55 * r, tall * r),
            ELLIPSOID: (0.8 * r, 0.7 * r, tall * r),
            TORUS: (0.6 * r, 0.6 * r, 0.25 * r),
        }[shape]
        look = self.paper(0.2 * r) if shape == BOX and self.random.uniform() < 0.5 else self.look(0.35 * r)
        self.add(shape, size, (x, y, z + size[2]), look, self.random.uniform(0, 6))
