"""A capture of one random solid whose signed distance is known, seen from all around, with exact coverage.

The solid is a rounded block with tunnels through it, rings, struts and knobs; a seed chooses all of them, their
textures and the cameras. It is written in the Blender layout, with test views of its own and without points.
"""

from __future__ import annotations

import colorsys
import json
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.render.native import best_device
from luxel.scenes.captures.images.images import for_each
from luxel.scenes.geometry import OPENGL_TO_OPENCV
from luxel.scenes.synthetic.rays.distance_solid import DistanceSolid
from luxel.scenes.synthetic.rays.ray_caster import StaticSolid, Triple
from luxel.scenes.synthetic.rays.ray_shapes import BOX, CYLINDER, ELLIPSOID, TORUS
from luxel.scenes.synthetic.rays.ray_textures import (
    BRICKS,
    MARBLE,
    PLAIN,
    PRINT,
    STONES,
    STRIPES,
    TILES,
    Surface,
)
from luxel.scenes.synthetic.toy import as_bytes

RADIUS = 1.1  # of the ball that holds the solid
DISTANCE, FOV = 3.6, math.radians(36)  # of the cameras from the middle
SAMPLES = 2  # square root of the rays per pixel
ROUNDING = 0.025
PATTERNS = (BRICKS, TILES, STONES, STRIPES, MARBLE, PRINT, PLAIN)


def make_exact_solid(seed: int, *, device: torch.device | str = "cpu") -> DistanceSolid:
    """The solid of a seed, within `RADIUS` of the origin.

    Args:
        seed: of shapes, textures and colours.
        device: of its distances and images.
    """
    random = np.random.default_rng([seed, 81])
    hue = random.uniform()
    added: list[StaticSolid] = []

    def add(shape: int, size: Triple, centre: np.ndarray, axes: np.ndarray) -> None:
        nonlocal hue
        hue = (hue + 0.382 + 0.1 * random.uniform()) % 1
        added.append(StaticSolid(shape, size, _triple(centre), _look(random, hue), axes))

    half = random.uniform((0.36, 0.28, 0.2), (0.52, 0.42, 0.34))
    block = _turn(random)
    add(BOX, _triple(half), np.zeros(3), block)
    for _ in range(2):
        tube = random.uniform(0.03, 0.07)
        add(TORUS, (ring := random.uniform(0.55, 0.78), ring, tube), random.normal(0, 0.08, 3), _turn(random))
    for _ in range(3):
        axes = _turn(random)
        reach, radius = random.uniform(0.35, 0.45), random.uniform(0.015, 0.05)
        add(CYLINDER, (radius, radius, reach), axes[:, 2] * (0.98 - reach - ROUNDING), axes)
    for index in range(4):
        axes, size = _turn(random), random.uniform(0.07, 0.17)
        shape = (ELLIPSOID, BOX)[index % 2]
        add(shape, (size, size, size), axes[:, 2] * random.uniform(0.55, 0.72), axes)
    carved = []
    for axis in random.permutation(3)[:2]:
        radius = random.uniform(0.45, 0.7) * np.delete(half, axis).min()
        along = np.roll(block, 2 - axis, axis=1)  # its z is this axis of the block
        shift = block @ (random.uniform(-0.25, 0.25, 3) * half)
        carved.append(StaticSolid(CYLINDER, (radius, radius, 2.0), _triple(shift), added[0].surface, along))
    return DistanceSolid(added, carved, rounding=ROUNDING, radius=RADIUS, seed=seed, device=device)


def exact_solid_cameras(views: int, side: int, *, seed: int, held_out: bool = False) -> list[Camera]:
    """Cameras all around, evenly on a sphere (Fibonacci lattice) that a seed turns, looking at the middle.

    Args:
        views: number of cameras.
        side: width and height of the images, pixels.
        seed: of the turn.
        held_out: those of the test views, which lie between the others.
    """
    turn = _turn(np.random.default_rng([seed, 82, held_out]))
    cameras = []
    for index in range(views):
        z = 1 - (2 * index + 1) / views
        angle, flat = index * math.pi * (3 - math.sqrt(5)), math.sqrt(1 - z * z)
        eye = DISTANCE * turn @ (flat * math.cos(angle), flat * math.sin(angle), z)
        up = (0.0, 0.0, 1.0) if abs(eye[2]) < 0.99 * DISTANCE else (1.0, 0.0, 0.0)
        cameras.append(Camera.look_at(eye.tolist(), [0.0, 0.0, 0.0], up, fov_y=FOV, width=side, height=side))
    return cameras


def write_exact_solid(
    out: str | Path,
    *,
    seed: int,
    views: int = 100,
    held_out: int = 12,
    side: int = 800,
    device: torch.device | str | None = None,
) -> Path:
    """Writes a capture that `luxel.scenes.open` reads: train/ and test/ with alpha, and their transforms.

    Args:
        out: folder, created if it does not exist.
        seed: of the solid and the cameras.
        views, held_out: number of images to train on, and to test on.
        side: width and height of the images, pixels.
        device: to render on; None: a GPU where there is one.

    Returns:
        The folder.

    Raises:
        ValueError: views or held_out below 1.
    """
    if views < 1 or held_out < 1:
        raise ValueError(f"views and held_out must be at least 1, got {views} and {held_out}")
    folder = Path(out)
    solid = make_exact_solid(seed, device=device or best_device())
    for split, count in (("train", views), ("test", held_out)):
        (folder / split).mkdir(parents=True, exist_ok=True)
        cameras = exact_solid_cameras(count, side, seed=seed, held_out=split == "test")
        images = [as_bytes(image.cpu().numpy()) for image, _ in solid.images(cameras, samples=SAMPLES)]
        names = [f"{split}/r_{index}" for index in range(count)]

        def save(index: int, images: list[np.ndarray] = images, names: list[str] = names) -> None:
            Image.fromarray(images[index]).save(folder / f"{names[index]}.png", compress_level=1)

        for_each(save, count)
        frames = [
            {"file_path": f"./{name}", "transform_matrix": _blender_pose(camera)}
            for name, camera in zip(names, cameras, strict=True)
        ]
        document = {"camera_angle_x": FOV, "frames": frames}
        (folder / f"transforms_{split}.json").write_text(json.dumps(document, indent=1))
    return folder


def _blender_pose(camera: Camera) -> list[list[float]]:
    return (camera.cam_to_world.double().numpy() @ OPENGL_TO_OPENCV).tolist()


def _triple(values: np.ndarray) -> Triple:
    x, y, z = values.tolist()
    return x, y, z


def _turn(random: np.random.Generator) -> np.ndarray:
    """A uniformly random rotation, [3, 3]."""
    q, r = np.linalg.qr(random.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.sign(np.linalg.det(q))


def _look(random: np.random.Generator, hue: float) -> Surface:
    """A random surface."""
    colours = tuple(
        colorsys.hsv_to_rgb((hue + shift) % 1, random.uniform(0.25, 0.75), random.uniform(*level))
        for shift, level in ((0, (0.55, 0.9)), (0.08, (0.6, 0.95)), (0.5, (0.1, 0.3)))
    )
    pattern = int(random.choice(PATTERNS))
    cell = random.uniform(0.05, 0.11) * (3 if pattern in (MARBLE, PLAIN) else 1)
    return Surface(pattern, cell, colours, gloss=random.uniform(0, 0.25), grain=random.uniform(0.15, 0.5))
