"""Generated captures with exact poses, on which structure from motion is measured.

Five that can be solved (a ring around objects, a turntable before a fixed backdrop, a look at a wall from the front, a
room from within, the frames of a film) and two that cannot (a camera that turns on the spot, and walls without detail).
"""

from __future__ import annotations

import colorsys
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.scenes.synthetic.captures.static_capture import frame_entry
from luxel.scenes.synthetic.rays.ray_caster import StaticScene, StaticSolid, Triple
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import (
    BRICKS,
    MARBLE,
    PLAIN,
    PLANKS,
    PRINT,
    STONES,
    TILES,
    Surface,
)
from luxel.scenes.synthetic.toy import as_bytes

FOV_X = math.radians(58)
TURNTABLE_FOV_X = math.radians(40)  # the object fills about half of the image
SAMPLES = 1  # square root of the rays per pixel: textures are band-limited, only outlines have steps
QUALITY = 92  # of the JPEG files
PATTERNS = (BRICKS, TILES, PLANKS, STONES, PRINT, MARBLE)


@dataclass(frozen=True)
class PoseView:
    """One image: its camera, and the solids at that moment.

    Args:
        camera: in the frame of what stands still, or of the object on a turntable.
        visible_from: the camera in the frame of the solids.
        solids: what is there.
    """

    camera: Camera
    visible_from: Camera
    solids: tuple[StaticSolid, ...]


def write_pose_capture(
    out: str | Path,
    kind: str,
    *,
    views: int | None = None,
    width: int | None = None,
    height: int | None = None,
    seed: int = 0,
) -> Path:
    """Writes a capture that `luxel.scenes.open` reads: images/ and transforms.json with exact poses.

    Args:
        out: folder, created if it does not exist.
        kind: one of POSE_CAPTURES.
        views: number of images; None: that of SIZES.
        width, height: of the images, pixels; None: those of SIZES.
        seed: of solids, textures and small deviations of the cameras.

    Returns:
        The folder.

    Raises:
        ValueError: an unknown kind, or fewer than 3 views.
    """
    typical = SIZES.get(kind, SIZE)
    views, width, height = (
        given or usual for given, usual in zip((views, width, height), typical, strict=True)
    )
    if kind not in POSE_CAPTURES or views < 3:
        raise ValueError(
            f"kind must be one of {', '.join(POSE_CAPTURES)} with views >= 3, got {kind}, {views}"
        )
    folder = Path(out)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    frames = []
    for index, view in enumerate(POSE_CAPTURES[kind](views, width, height, seed)):
        scene = StaticScene(view.solids, seed, torch.device("cpu"), shadow_radius=8.0, shadow_side=512)
        image = as_bytes(scene.render(view.visible_from, samples=SAMPLES).rgb.numpy())
        name = f"images/{index:04d}.jpg"
        Image.fromarray(image).save(folder / name, quality=QUALITY, subsampling=0)
        frames.append(frame_entry(name, view.camera))
    document = {"camera_model": "PINHOLE", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(document, indent=1))
    return folder


def ring(views: int, width: int, height: int, seed: int) -> list[PoseView]:
    """A walk around objects on a tiled floor."""
    random = np.random.default_rng([seed, 41])
    solids = (_floor(random, STONES), *_objects(random, 14, 1.3))
    cameras = []
    for angle in np.linspace(0, 2 * math.pi, views, endpoint=False):
        eye = (
            3.4 * math.cos(angle) + random.uniform(-0.1, 0.1),
            3.4 * math.sin(angle) + random.uniform(-0.1, 0.1),
            1.5 + 0.3 * math.sin(3 * angle) + random.uniform(-0.05, 0.05),
        )
        cameras.append(_look(eye, (0, 0, 0.4), width, height))
    return _still(cameras, solids)


def turntable(views: int, width: int, height: int, seed: int) -> list[PoseView]:
    """An object that turns on a plain plate before a backdrop with detail, which stands still as the camera does.

    Real ones have 72 to 84 images, 4 to 5 degrees apart, of an object that fills half of them, see SIZES.
    """
    random = np.random.default_rng([seed, 42])
    backdrop = StaticSolid(BOX, (6.0, 0.1, 4.0), (0, 3.2, 1.0), _look_of(random, STONES, 0.35))
    table = StaticSolid(BOX, (3.0, 3.0, 0.05), (0, 0, -0.1), _plain((0.55, 0.55, 0.57)))
    plate = StaticSolid(CYLINDER, (1.1, 1.1, 0.05), (0, 0, -0.05), _plain((0.85, 0.85, 0.83)))
    thing = _monument(random)
    still = _look((0, -3.1, 1.35), (0, 0, 0.5), width, height, TURNTABLE_FOV_X)
    out = []
    for angle in np.linspace(0, 2 * math.pi, views, endpoint=False):
        turn = _about_z(angle)
        moved = tuple(
            replace(s, centre=tuple((turn @ s.centre).tolist()), rotation=turn @ s.axes) for s in thing
        )
        to_thing = np.eye(4)
        to_thing[:3, :3] = turn.T
        pose = to_thing @ still.cam_to_world.double().numpy()
        camera = replace(still, world_to_cam=torch.tensor(np.linalg.inv(pose), dtype=torch.float32))
        out.append(PoseView(camera, still, (backdrop, table, plate, *moved)))
    return out


def forward(views: int, width: int, height: int, seed: int) -> list[PoseView]:
    """Objects before a wall, photographed from a grid of places in front of them."""
    random = np.random.default_rng([seed, 43])
    wall = StaticSolid(BOX, (7.0, 0.1, 4.0), (0, 2.6, 1.0), _look_of(random, BRICKS, 0.3))
    solids = (_floor(random, PLANKS), wall, *_objects(random, 14, 1.8))
    columns = math.ceil(math.sqrt(views * 1.5))
    rows = math.ceil(views / columns)
    cameras = []
    for index in range(views):
        row, column = divmod(index, columns)
        across = 2 * column / max(columns - 1, 1) - 1
        up = row / max(rows - 1, 1)
        eye = (1.6 * across, -3.2 + random.uniform(-0.15, 0.15), 0.5 + 1.3 * up + random.uniform(-0.05, 0.05))
        cameras.append(_look(eye, (0.35 * across, 1.0, 0.6), width, height))
    return _still(cameras, solids)


def room(views: int, width: int, height: int, seed: int) -> list[PoseView]:
    """A room with furniture, photographed on a loop within it, to the opposite side."""
    solids, random = _room(seed, textured=True)
    cameras = []
    for angle in np.linspace(0, 2 * math.pi, views, endpoint=False):
        eye = (1.9 * math.cos(angle), 1.5 * math.sin(angle), 1.3 + random.uniform(-0.2, 0.2))
        to = (-1.6 * math.cos(angle + 0.35), -1.4 * math.sin(angle + 0.35), 0.7)
        cameras.append(_look(eye, to, width, height))
    return _still(cameras, solids)


def film(views: int, width: int, height: int, seed: int) -> list[PoseView]:
    """Frames of a walk through a row of objects, each near to the one before."""
    random = np.random.default_rng([seed, 45])
    wall = StaticSolid(BOX, (9.0, 0.1, 4.0), (0, 2.8, 1.0), _look_of(random, TILES, 0.4))
    solids = (_floor(random, STONES), wall, *_objects(random, 18, 2.6))
    cameras = []
    for s in np.linspace(-1, 1, views):
        eye = (2.6 * s, -3.0 + 0.5 * math.cos(2 * s), 1.2 + 0.15 * math.sin(5 * s))
        cameras.append(_look(eye, (1.2 * s + 0.2 * math.sin(3 * s), 0.8, 0.5), width, height))
    return _still(cameras, solids)


def spot(views: int, width: int, height: int, seed: int) -> list[PoseView]:
    """A room observed by a camera that only turns: without parallax there are no positions to find."""
    solids, _ = _room(seed, textured=True)
    cameras = []
    for index, angle in enumerate(np.linspace(0, 2 * math.pi, views, endpoint=False)):
        to = (0.3 + math.cos(angle), 0.2 + math.sin(angle), 1.3 - 0.15 * (index % 3))
        cameras.append(_look((0.3, 0.2, 1.3), to, width, height))
    return _still(cameras, solids)


def blank(views: int, width: int, height: int, seed: int) -> list[PoseView]:
    """A room of plain walls: without detail there is nothing to match."""
    solids, _ = _room(seed, textured=False)
    cameras = []
    for angle in np.linspace(0, 2 * math.pi, views, endpoint=False):
        eye = (1.5 * math.cos(angle), 1.5 * math.sin(angle), 1.3)
        cameras.append(_look(eye, (3 * math.cos(angle), 3 * math.sin(angle), 1.2), width, height))
    return _still(cameras, solids)


POSE_CAPTURES: dict[str, Callable[[int, int, int, int], list[PoseView]]] = {
    "ring": ring,
    "turntable": turntable,
    "forward": forward,
    "room": room,
    "film": film,
    "spot": spot,
    "blank": blank,
}
SIZE = (28, 480, 360)  # images, width, height
SIZES = {"turntable": (72, 1152, 864)}  # where it is another
SOLVABLE = ("ring", "turntable", "forward", "room", "film")


def _still(cameras: list[Camera], solids: tuple[StaticSolid, ...]) -> list[PoseView]:
    return [PoseView(camera, camera, solids) for camera in cameras]


def _look(eye: Triple, to: Triple, width: int, height: int, fov_x: float = FOV_X) -> Camera:
    fov_y = 2 * math.atan(math.tan(0.5 * fov_x) * height / width)
    return Camera.look_at(list(eye), list(to), (0.0, 0.0, 1.0), fov_y=fov_y, width=width, height=height)


def _about_z(angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _colours(random: np.random.Generator) -> tuple[Triple, Triple, Triple]:
    hue = random.uniform()
    first = colorsys.hsv_to_rgb(hue, random.uniform(0.3, 0.7), random.uniform(0.6, 0.9))
    second = colorsys.hsv_to_rgb((hue + 0.1) % 1, 0.4, random.uniform(0.5, 0.95))
    return first, second, colorsys.hsv_to_rgb((hue + 0.5) % 1, 0.5, 0.2)


def _look_of(random: np.random.Generator, pattern: int, cell: float) -> Surface:
    return Surface(pattern, cell, _colours(random), gloss=0.08, grain=0.45)


def _plain(colour: Triple) -> Surface:
    return Surface(PLAIN, 1.0, (colour, colour, colour), gloss=0.0, grain=0.0)


def _floor(random: np.random.Generator, pattern: int) -> StaticSolid:
    return StaticSolid(BOX, (8.0, 8.0, 0.1), (0, 0, -0.1), _look_of(random, pattern, 0.3))


def _objects(random: np.random.Generator, count: int, spread: float) -> tuple[StaticSolid, ...]:
    """Solids of all shapes that stand on the floor."""
    out = []
    for index in range(count):
        shape = (BOX, CYLINDER, ELLIPSOID, TORUS)[index % 4]
        a = random.uniform(0.14, 0.34)
        size = {TORUS: (a, a, 0.4 * a), CYLINDER: (0.7 * a, 0.7 * a, 1.5 * a)}.get(
            shape, (a, 0.8 * a, 1.2 * a)
        )
        x, y = random.uniform(-spread, spread), random.uniform(-1.2, 1.2)
        look = _look_of(random, PATTERNS[int(random.integers(len(PATTERNS)))], random.uniform(0.06, 0.14))
        out.append(StaticSolid(shape, size, (x, y, size[2]), look, _about_z(random.uniform(0, 2 * math.pi))))
    return tuple(out)


def _monument(random: np.random.Generator) -> tuple[StaticSolid, ...]:
    """One object of several solids in the same colours that differs from all sides."""
    parts = (
        (BOX, (0.52, 0.44, 0.16), (0, 0, 0.16), PRINT),
        (CYLINDER, (0.36, 0.36, 0.3), (0.06, 0.04, 0.6), BRICKS),
        (ELLIPSOID, (0.3, 0.3, 0.32), (-0.24, -0.14, 0.6), MARBLE),
        (TORUS, (0.26, 0.26, 0.11), (0.06, 0.04, 0.98), STONES),
        (BOX, (0.14, 0.18, 0.34), (-0.3, 0.22, 0.62), TILES),
        (ELLIPSOID, (0.2, 0.24, 0.22), (0.3, -0.24, 0.5), STONES),
    )
    colours = _colours(random)
    return tuple(
        StaticSolid(shape, size, centre, Surface(pattern, 0.09, colours, 0.08, 0.5), _about_z(0.4 * index))
        for index, (shape, size, centre, pattern) in enumerate(parts)
    )


def _room(seed: int, *, textured: bool) -> tuple[tuple[StaticSolid, ...], np.random.Generator]:
    """Four walls, floor, ceiling and furniture along the walls; plain and empty without ``textured``."""
    random = np.random.default_rng([seed, 44])
    sides: tuple[tuple[Triple, Triple], ...] = (
        ((3.2, 2.8, 0.1), (0, 0, -0.1)),
        ((3.2, 2.8, 0.1), (0, 0, 2.7)),
        ((0.1, 2.8, 1.5), (3.1, 0, 1.3)),
        ((0.1, 2.8, 1.5), (-3.1, 0, 1.3)),
        ((3.2, 0.1, 1.5), (0, 2.7, 1.3)),
        ((3.2, 0.1, 1.5), (0, -2.7, 1.3)),
    )
    if not textured:
        return tuple(StaticSolid(BOX, size, at, _plain((0.7, 0.7, 0.68))) for size, at in sides), random
    patterns = (PLANKS, TILES, BRICKS, STONES, PRINT, MARBLE)
    walls = [
        StaticSolid(BOX, size, at, _look_of(random, pattern, 0.25))
        for (size, at), pattern in zip(sides, patterns, strict=True)
    ]
    for index in range(14):
        angle = 2 * math.pi * (index + random.uniform(-0.2, 0.2)) / 14
        size = (random.uniform(0.15, 0.35), random.uniform(0.15, 0.35), random.uniform(0.2, 0.6))
        at = (2.6 * math.cos(angle), 2.2 * math.sin(angle), size[2])
        look = _look_of(random, PATTERNS[index % len(PATTERNS)], 0.12)
        walls.append(StaticSolid(BOX if index % 3 else ELLIPSOID, size, at, look, _about_z(angle)))
    return tuple(walls), random
