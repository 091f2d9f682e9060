"""Two synthetic scenes of solids: a dynamic one and a static one."""

from __future__ import annotations

import math

import numpy as np

from luxel.scenes.synthetic.solids.motions import (
    Bounce,
    Breathe,
    Motion,
    Orbit,
    Slowed,
    Spin,
    Still,
    Swing,
    Visit,
)
from luxel.scenes.synthetic.solids.solid_scene import Solid, SolidScene, Texture
from luxel.scenes.synthetic.solids.solids import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    RoundedBox,
    Shape,
    Torus,
    sphere,
)

FLOOR = -0.55  # height of the platform's upper side
PLATFORM = Cylinder(1.15, 0.06)


def dynamic_scene(seed: int = 0, pace: float = 1.0) -> SolidScene:
    """Nine solids within 1.3 of the origin, z up, with different motions at times from 0 to 1.

    On a static platform: a bouncing ball that is flattened on the floor, a tumbling box and torus, a swinging capsule,
    an egg that circles the others, a rounded box that is present from 0.25 to 0.8, a pulsating pebble, a turning slab.

    Args:
        seed: of the textures, colours, phases, and positions.
        pace: speed of all motions, in (0, 1]. With 1 a solid turns once or more, with 1/3 by a third: 150 monocular
            views then observe each of its sides more often.

    Raises:
        ValueError: the pace is outside (0, 1].
    """
    if not 0 < pace <= 1:
        raise ValueError(f"pace must be in (0, 1], got {pace}")
    random = np.random.default_rng([seed, 0])
    turn = random.uniform(0, 2 * math.pi)
    slots = iter(turn + 2 * math.pi * random.permutation(6) / 6)
    phases = iter(random.uniform(0, 2 * math.pi, 8))

    def at(radius: float, height: float) -> tuple[float, float, float]:
        angle = next(slots)
        return radius * math.cos(angle), radius * math.sin(angle), height

    tilted = (0.5, 0.2, 1.0)
    pivot = at(0.68, 0.62)
    across = (-pivot[1], pivot[0], 0.0)  # horizontal axis of the swing
    parts: list[tuple[str, Shape, Motion]] = [
        ("platform", PLATFORM, Still((0, 0, FLOOR - PLATFORM.half))),
        ("ball", sphere(0.2), Bounce(at(0.68, FLOOR), 0.2, 0.55, 3.0, phase=0.2, spins=0.5)),
        ("box", Box((0.19, 0.15, 0.12)), Spin(at(0.68, -0.2), tilted, 1.0, phase=next(phases))),
        ("torus", Torus(0.22, 0.08), Spin((0, 0, 0.12), (1, 0.4, 0.3), 1.0, tilt=1.0, phase=next(phases))),
        ("capsule", Capsule(0.08, 0.13), Swing(pivot, 0.8, across, 0.3, 2.0, next(phases))),
        ("egg", Ellipsoid((0.12, 0.12, 0.2)), Orbit((0, 0, 0.62), 0.85, 1.0, (1, 1, 0), 2.0, next(phases))),
        ("visitor", RoundedBox((0.17, 0.17, 0.17), 0.06), Visit(at(0.68, -0.3), 0.25, 0.8, 0.12, turns=1.5)),
        ("pebble", Ellipsoid((0.2, 0.2, 0.2)), Breathe(at(0.7, -0.25), (0.3, 0.3, 0.3), 1.5, 0.5)),
        ("slab", RoundedBox((0.07, 0.17, 0.25), 0.04), Spin(at(0.68, -0.24), (0, 0, 1), 1.25)),
    ]
    if pace != 1:
        parts = [(name, shape, Slowed(motion, pace)) for name, shape, motion in parts]
    return _textured(parts, seed)


def static_scene(seed: int = 0, count: int = 10) -> SolidScene:
    """A platform with ``count`` static solids that do not intersect.

    Args:
        seed: of shapes, sizes, positions, textures and colours.
        count: number of solids, 0 to 16.

    Raises:
        ValueError: the count is outside 0 to 16.
    """
    if not 0 <= count <= 16:
        raise ValueError(f"count must be from 0 to 16, got {count}")
    random = np.random.default_rng([seed, 4])
    parts: list[tuple[str, Shape, Motion]] = [("platform", PLATFORM, Still((0, 0, FLOOR - PLATFORM.half)))]
    size, taken = 1.0, np.zeros((0, 3))
    while len(parts) <= count:
        r = size * random.uniform(0.13, 0.24)  # radius of its upright bounding cylinder
        name, shape, rise = _standing(int(random.integers(6)), r, random.uniform(0.8, 2.0))
        for _ in range(60):
            away, angle = (PLATFORM.radius - r) * math.sqrt(random.uniform()), random.uniform(0, 2 * math.pi)
            position = np.array([away * math.cos(angle), away * math.sin(angle), r])
            if (np.hypot(*(taken[:, :2] - position[:2]).T) > taken[:, 2] + r + 0.02).all():
                taken = np.vstack([taken, position])
                still = Still((position[0], position[1], FLOOR + rise), angle=random.uniform(0, 2 * math.pi))
                parts.append((f"{name} {len(parts)}", shape, still))
                break
        else:
            size *= 0.9
    return _textured(parts, seed)


def _standing(kind: int, r: float, tall: float) -> tuple[str, Shape, float]:
    """Name and shape of a solid in an upright cylinder of radius r, about 2 r tall high; height of its centre."""
    h = r * tall
    if kind == 0:
        return "ball", sphere(r), r
    if kind == 1:
        return "egg", Ellipsoid((r, 0.8 * r, h)), h
    if kind == 2:
        return "box", Box((0.8 * r, 0.6 * r, h)), h
    if kind == 3:
        return "torus", Torus(0.7 * r, 0.3 * r), 0.3 * r
    if kind == 4:
        return "capsule", Capsule(0.7 * r, h), h + 0.7 * r
    return "rounded box", RoundedBox((0.7 * r, 0.7 * r, h), 0.2 * r), h


def _textured(parts: list[tuple[str, Shape, Motion]], seed: int) -> SolidScene:
    """The scene with textures of evenly spaced hues in random order, and a pale platform."""
    random = np.random.default_rng([seed, 5])
    hues = random.permutation(len(parts)) / len(parts) + random.uniform()
    solids = []
    for index, (name, shape, motion) in enumerate(parts):
        ground = name == "platform"
        coarsest, finest, vivid = (0.8, 0.1, 0.35) if ground else (1.4 * shape.bound, 0.25 * shape.bound, 1.0)
        texture = Texture(1000 * seed + index, float(hues[index]), coarsest, finest, vivid)
        solids.append(Solid(name, shape, texture, motion, gloss=0.0 if ground else 0.15))
    return SolidScene(solids)
