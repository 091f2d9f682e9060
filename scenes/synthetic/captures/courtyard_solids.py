"""The solids of the synthetic courtyard: ground, walls, colonnade, tables, scattered objects, hills and a sky."""

from __future__ import annotations

import colorsys
import math

import numpy as np

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
    WINDOWS,
    Surface,
)

RADIUS = 15.0  # of the courtyard: distance of its walls from the middle, units
COLONNADE = 10.6  # radius of the ring of columns
CLEAR = 7.0  # radius of the area around the middle that is free for the cameras, but for the table
TABLE = 0.95  # height of the tables
SKY = 80.0  # radius
WOOD = ((0.62, 0.43, 0.26), (0.45, 0.29, 0.17), (0.16, 0.1, 0.07))
PALE = ((0.86, 0.82, 0.74), (0.66, 0.6, 0.52), (0.38, 0.35, 0.33))


class _Builder:
    """Solids added one by one, with random surfaces."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 10])
        self.solids: list[StaticSolid] = []
        self.hue = self.random.uniform()

    def add(
        self, shape: int, size: Triple, centre: Triple, surface: Surface, turn: float = 0, tilt: float = 0
    ) -> None:
        """Adds a solid tilted around x, then turned around z, radians."""
        self.solids.append(StaticSolid(shape, size, centre, surface, _turned(turn, tilt)))

    def colours(self, vivid: float = 0.6) -> tuple[Triple, Triple, Triple]:
        """Colours of a hue far from the one before: middle, pale or deep, and a dark contrast."""
        self.hue = (self.hue + 0.382 + 0.05 * self.random.uniform()) % 1
        level = self.random.uniform(0.6, 0.9)
        first = colorsys.hsv_to_rgb(self.hue, vivid, level)
        second = colorsys.hsv_to_rgb((self.hue + 0.07) % 1, 0.5 * vivid, min(1.0, level + 0.15))
        return first, second, colorsys.hsv_to_rgb((self.hue + 0.5) % 1, 0.5, 0.22)

    def look(self, scale: float) -> Surface:
        """A random surface for a solid of about the size ``scale``, units."""
        gloss = self.random.uniform(0.05, 0.35)
        if self.random.uniform() < 0.25:
            return Surface(PLAIN, 1.5 * scale, self.colours(), gloss, 0.08)
        pattern = int(self.random.choice([BRICKS, TILES, PLANKS, STONES, STRIPES, MARBLE]))
        cell = scale * {PLANKS: 0.2, STRIPES: 0.25, MARBLE: 1.0}.get(pattern, 0.3)
        return Surface(pattern, cell, self.colours(), gloss, self.random.uniform(0.1, 0.25))


def make_courtyard_solids(seed: int = 0) -> list[StaticSolid]:
    """Between 100 and 130 solids; the sky around all of them is the first.

    Args:
        seed: of positions, sizes, colours and textures.
    """
    build = _Builder(seed)
    _surroundings(build)
    _walls(build)
    _colonnade(build)
    _round_table(build)
    taken = [(0.0, 0.0, CLEAR)]
    _side_tables(build, taken)
    _scattered(build, taken)
    return build.solids


def _surroundings(build: _Builder) -> None:
    """Sky, grass, paving, hills and towers."""
    random = build.random
    blue = ((0.78, 0.86, 0.93), (0.3, 0.5, 0.8), (0.97, 0.96, 0.94))
    build.add(
        ELLIPSOID, (SKY, SKY, SKY), (0, 0, -2), Surface(CLOUDS, 26.0, (blue[1], blue[0], blue[2]), 0, 0.02)
    )
    grass = Surface(MARBLE, 3.0, ((0.36, 0.45, 0.2), (0.5, 0.52, 0.27), (0.2, 0.27, 0.12)), 0, 0.4)
    build.add(BOX, (90, 90, 0.5), (0, 0, -0.56), grass)
    paving = Surface(STONES, 0.42, ((0.58, 0.53, 0.47), (0.74, 0.7, 0.64), (0.22, 0.2, 0.19)), 0.06, 0.28)
    build.add(BOX, (RADIUS, RADIUS, 0.25), (0, 0, -0.25), paving)
    tiles = Surface(TILES, 0.3, (PALE[0], build.colours(0.5)[0], (0.3, 0.28, 0.27)), 0.15, 0.2)
    build.add(CYLINDER, (3.4, 3.4, 0.02), (0, 0, 0.02), tiles)
    for k in range(6):
        angle, away = 2 * math.pi * (k + random.uniform(0, 0.8)) / 6, random.uniform(42, 62)
        size = (random.uniform(14, 24), random.uniform(10, 16), random.uniform(6, 14))
        green = ((0.33, 0.42, 0.26), (0.45, 0.5, 0.33), (0.25, 0.33, 0.28))
        hill = Surface(MARBLE, 6.0, green, 0, 0.3)
        build.add(ELLIPSOID, size, (away * math.cos(angle), away * math.sin(angle), -2), hill, angle)
    for k in range(5):
        angle, away = 2 * math.pi * (k + random.uniform(0.2, 0.8)) / 5, random.uniform(21, 34)
        at, high = (away * math.cos(angle), away * math.sin(angle)), random.uniform(4, 8)
        look = Surface(WINDOWS, 1.1, ((0.25, 0.3, 0.36), (0.6, 0.68, 0.75), build.colours(0.35)[0]), 0.3, 0.2)
        size = (random.uniform(1.5, 3), random.uniform(1.5, 3), high)
        if k % 2:
            look = Surface(BRICKS, 0.9, (*build.colours(0.45)[:2], PALE[2]), 0.05, 0.3)
            size = (size[0], size[0], high)
        build.add(CYLINDER if k % 2 else BOX, size, (*at, high - 0.1), look, random.uniform(0, 3))


def _walls(build: _Builder) -> None:
    """Four walls, two with a gate, with windows, doors and posters on them."""
    random = build.random
    for side in range(4):
        turn, high = 0.5 * math.pi * side, random.uniform(1.7, 2.6)
        pattern = (BRICKS, STONES, BRICKS, PLAIN)[side]
        colours = build.colours(0.2 if pattern == PLAIN else 0.42)
        look = Surface(pattern, random.uniform(0.45, 0.7), colours, 0.05, (0.3, 0.22)[side % 2])
        gate = 1.8 if side % 2 else 0.0
        halves = (0.0,) if not gate else (-0.5, 0.5)
        for share in halves:
            half = RADIUS if not gate else 0.5 * (RADIUS - gate)
            shift = 0.0 if not gate else math.copysign(gate + half, share)
            build.add(BOX, (half, 0.3, high), _on_wall(turn, shift, high, 0.3), look, turn)
        for k, shift in enumerate((-10.5, -5, 5, 10.5)):
            _hang(build, turn, shift + random.uniform(-0.4, 0.4), (k + side) % 3)


def _on_wall(turn: float, shift: float, rise: float, out: float) -> Triple:
    """World coordinates at a wall: ``shift`` along it, ``rise`` above the ground, ``out`` beyond its inner face."""
    along, away = (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))
    return (
        shift * along[0] + (RADIUS + out) * away[0],
        shift * along[1] + (RADIUS + out) * away[1],
        rise,
    )


def _hang(build: _Builder, turn: float, shift: float, kind: int) -> None:
    """A window, a poster or a door on a wall."""
    random = build.random
    if kind == 0:
        frame = (0.9, 0.88, 0.82) if random.uniform() < 0.5 else (0.25, 0.33, 0.3)
        look = Surface(WINDOWS, 0.5, ((0.15, 0.19, 0.25), (0.68, 0.77, 0.84), frame), 0.35, 0.08)
        build.add(BOX, (1.0, 0.12, 0.75), _on_wall(turn, shift, 1.9, -0.05), look, turn)
        build.add(BOX, (1.2, 0.22, 0.06), _on_wall(turn, shift, 1.08, -0.1), Surface(MARBLE, 0.5, PALE), turn)
    elif kind == 1:
        ink = (0.12, 0.11, 0.14)
        look = Surface(
            PRINT, random.uniform(0.09, 0.14), ((0.93, 0.9, 0.82), build.colours(0.8)[0], ink), 0.08, 0.06
        )
        build.add(BOX, (0.85, 0.03, 1.15), _on_wall(turn, shift, 1.75, -0.02), look, turn)
    else:
        look = Surface(PLANKS, 0.16, (*build.colours(0.55)[:2], WOOD[2]), 0.12, 0.35)
        build.add(BOX, (0.75, 0.03, 1.3), _on_wall(turn, shift, 1.3, 0), Surface(MARBLE, 0.5, PALE), turn)
        build.add(BOX, (0.6, 0.06, 1.15), _on_wall(turn, shift, 1.15, -0.03), look, turn)


def _colonnade(build: _Builder) -> None:
    """A ring of columns with bases that carries a round beam."""
    stone = Surface(MARBLE, 1.1, PALE, 0.18, 0.2)
    fluted = Surface(STRIPES, 0.16, (PALE[0], (0.8, 0.74, 0.66), (0.72, 0.66, 0.58)), 0.15, 0.2)
    count = 10
    for k in range(count):
        angle = 2 * math.pi * (k + 0.25) / count
        x, y = COLONNADE * math.cos(angle), COLONNADE * math.sin(angle)
        build.add(CYLINDER, (0.34, 0.34, 1.9), (x, y, 1.9), fluted if k % 2 else stone)
        build.add(BOX, (0.5, 0.5, 0.16), (x, y, 0.16), stone, angle)
    build.add(TORUS, (COLONNADE, COLONNADE, 0.32), (0, 0, 4.05), Surface(BRICKS, 0.5, PALE, 0.1, 0.25))


def _round_table(build: _Builder) -> None:
    """The table in the middle with a still life on it."""
    random = build.random
    build.add(CYLINDER, (0.22, 0.22, 0.44), (0, 0, 0.44), Surface(MARBLE, 0.4, PALE, 0.2, 0.3))
    build.add(CYLINDER, (1.5, 1.5, 0.05), (0, 0, TABLE - 0.05), Surface(PLANKS, 0.14, WOOD, 0.2, 0.25))
    things = [
        (ELLIPSOID, (0.34, 0.34, 0.34), 0.34),
        (TORUS, (0.27, 0.27, 0.1), 0.1),
        (BOX, (0.3, 0.2, 0.26), 0.26),
        (CYLINDER, (0.15, 0.15, 0.32), 0.32),
        (ELLIPSOID, (0.2, 0.2, 0.34), 0.34),
        (BOX, (0.17, 0.17, 0.5), 0.5),
        (CYLINDER, (0.26, 0.26, 0.1), 0.1),
    ]
    for k, (shape, size, rise) in enumerate(things):
        angle = 2 * math.pi * (k + random.uniform(-0.15, 0.15)) / len(things)
        away = random.uniform(0.85, 1.05)
        at = (away * math.cos(angle), away * math.sin(angle), TABLE + rise)
        look = build.look(0.4)
        if shape == BOX:
            look = Surface(
                PRINT, 0.035, ((0.9, 0.86, 0.76), build.colours(0.8)[0], (0.1, 0.1, 0.14)), 0.15, 0.06
            )
        build.add(shape, size, at, look, random.uniform(0, 6))
    build.add(
        CYLINDER, (0.2, 0.2, 0.3), (0, 0, TABLE + 0.3), Surface(TILES, 0.07, build.colours(0.7), 0.35, 0.1)
    )
    build.add(
        ELLIPSOID,
        (0.42, 0.42, 0.36),
        (0, 0, TABLE + 0.9),
        Surface(STONES, 0.09, build.colours(0.7), 0.1, 0.5),
    )


def _side_tables(build: _Builder, taken: list[tuple[float, float, float]]) -> None:
    """Three tables beyond the loops, with things on them."""
    random = build.random
    for k in range(3):
        angle = 2 * math.pi * (k + 0.3) / 3
        x, y = 8.9 * math.cos(angle), 8.9 * math.sin(angle)
        taken.append((x, y, 1.3))
        build.add(BOX, (1.0, 0.6, 0.05), (x, y, TABLE - 0.05), Surface(PLANKS, 0.12, WOOD, 0.15, 0.25), angle)
        for end in (-0.75, 0.75):
            leg = (x + end * math.cos(angle), y + end * math.sin(angle), 0.45)
            build.add(BOX, (0.06, 0.5, 0.45), leg, Surface(PLANKS, 0.1, WOOD, 0.05, 0.25), angle)
        for end in (-0.6, 0.0, 0.6):
            r = random.uniform(0.14, 0.26)
            at = (x + end * math.cos(angle), y + end * math.sin(angle))
            _stand(build, r, (*at, TABLE))


def _scattered(build: _Builder, taken: list[tuple[float, float, float]]) -> None:
    """Crates, barrels, balls, eggs and rings on the ground between the loops and the walls."""
    random = build.random
    for _ in range(20):
        r = 0.35 * 2.4 ** random.uniform()
        for _ in range(40):
            x, y = random.uniform(-RADIUS + 1.2, RADIUS - 1.2, 2)
            if all(math.hypot(x - a, y - b) > r + s for a, b, s in taken) and (
                abs(math.hypot(x, y) - COLONNADE) > r + 0.55
            ):
                break
        else:
            continue
        taken.append((x, y, r))
        top = _stand(build, r, (x, y, 0.0))
        if top and random.uniform() < 0.6:
            _stand(build, 0.6 * r, (x, y, top))


def _stand(build: _Builder, r: float, at: Triple) -> float:
    """Adds a random solid of radius ``r`` standing at ``at``; returns the height of its top if it is flat, else 0."""
    random = build.random
    kind, tall = int(random.integers(5)), random.uniform(0.7, 1.3)
    x, y, z = at
    turn = random.uniform(0, 6)
    if kind == 0:
        build.add(ELLIPSOID, (r, r, r), (x, y, z + r), build.look(r), turn, random.uniform(0, 3))
        return 0.0
    if kind == 1:
        build.add(ELLIPSOID, (0.8 * r, r, tall * r), (x, y, z + tall * r), build.look(r), turn)
        return 0.0
    if kind == 2:
        build.add(
            TORUS, (0.7 * r, 0.7 * r, 0.28 * r), (x, y, z + 0.98 * r), build.look(r), turn, 0.5 * math.pi
        )
        return 0.0
    half = (0.7 * r, 0.7 * r, tall * r) if kind == 3 else (0.8 * r, 0.8 * r, tall * r)
    look = build.look(r)
    if kind == 3 and random.uniform() < 0.4:
        look = Surface(
            PRINT, 0.13 * r, ((0.85, 0.72, 0.5), build.colours(0.8)[0], (0.2, 0.13, 0.1)), 0.05, 0.15
        )
    build.add(BOX if kind == 3 else CYLINDER, half, (x, y, z + half[2]), look, turn)
    return z + 2 * half[2]


def _turned(turn: float, tilt: float) -> np.ndarray | None:
    """Rotation by a tilt around x, then a turn around z, [3, 3]; None: neither."""
    if not turn and not tilt:
        return None
    c, s, a, b = math.cos(turn), math.sin(turn), math.cos(tilt), math.sin(tilt)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, a, -b], [0, b, a]])
