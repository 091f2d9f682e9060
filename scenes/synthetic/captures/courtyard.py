"""A courtyard of textured solids, thirty units wide, with hills and a sky around it, and a capture of it on foot.

Most of the place lies beyond the loops on which the cameras walk, as in captures of rooms and gardens.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.native import best_device
from luxel.scenes.synthetic.captures.courtyard_solids import RADIUS, make_courtyard_solids
from luxel.scenes.synthetic.captures.static_capture import write_static_capture
from luxel.scenes.synthetic.rays.ray_caster import StaticScene

FOV_X = math.radians(65)
LOOPS = ((0.36, 1.5), (0.3, 2.5))  # radius as a fraction of `RADIUS`, height in units


def courtyard_scene(
    seed: int = 0, *, device: torch.device | str | None = None, shadow_side: int = 4096
) -> StaticScene:
    """The courtyard: z up, its ground at z = 0, its middle at the origin, walls at a distance of `RADIUS`.

    Args:
        seed: of positions, sizes, colours and textures.
        device: to render on; None: a GPU where there is one.
        shadow_side: resolution of the shadows' depth map.
    """
    chosen = torch.device(device or best_device())
    return StaticScene(make_courtyard_solids(seed), seed, chosen, shadow_side=shadow_side)


def courtyard_cameras(views: int, *, width: int, height: int, seed: int = 0) -> list[Camera]:
    """Cameras on two loops of different heights, in the order of the walk.

    Half of them look inward, past the middle, half outward or along the walk. Among every eighth
    camera, which `luxel.scenes.open` holds out, there are both kinds.

    Args:
        views: number of cameras.
        width, height: of the images, pixels.
        seed: of small deviations.
    """
    random = np.random.default_rng([seed, 12])
    fov_y = 2 * math.atan(math.tan(0.5 * FOV_X) * height / width)
    first = (views + 1) // 2
    cameras = []
    for index in range(views):
        loop, step, steps = (0, index, first) if index < first else (1, index - first, views - first)
        angle = 2 * math.pi * (step + 0.5 * loop + random.uniform(-0.2, 0.2)) / steps
        radius, rise = LOOPS[loop]
        radius *= RADIUS * (1 + 0.12 * math.sin(3 * angle + seed) + random.uniform(-0.04, 0.04))
        eye = np.array([radius * math.cos(angle), radius * math.sin(angle), rise + random.uniform(-0.2, 0.2)])
        inward = (index + index // 8) % 2 == 0
        turn = random.uniform(-0.35, 0.35) + (
            math.pi if inward else random.choice([-1, 1]) * random.uniform(0, 1)
        )
        pitch = random.uniform(-0.22, 0.08) - (0.12 * loop if inward else 0)
        toward = (math.cos(angle + turn), math.sin(angle + turn), math.tan(pitch))
        up = (*random.uniform(-0.03, 0.03, 2), 1.0)
        look = {"fov_y": fov_y, "width": width, "height": height}
        cameras.append(Camera.look_at(eye.tolist(), (eye + toward).tolist(), up, **look))
    return cameras


def write_courtyard(
    out: str | Path,
    *,
    views: int = 160,
    width: int = 1000,
    height: int = 666,
    seed: int = 0,
    unit: float = 1.0,
    points: int = 60_000,
    noise: float = 0.002,
    device: torch.device | str | None = None,
) -> Path:
    """Writes a capture of the courtyard that `luxel.scenes.open` reads: images/, transforms.json and points3D.ply.

    Poses are exact; the points are first hits of random rays of the cameras with noise, in the colours seen there.

    Args:
        out: folder, created if it does not exist.
        views: number of images.
        width, height: of the images, pixels.
        seed: of the place, the cameras and the points.
        unit: by which poses and points are scaled; the images do not depend on it.
        points: number of points.
        noise: standard deviation of the points' noise, as a fraction of `RADIUS`.
        device: to render on; None: a GPU where there is one.

    Returns:
        The folder.

    Raises:
        ValueError: views or points below 1, or a unit that is not above 0.
    """
    if views < 1 or points < 1 or not unit > 0:
        raise ValueError(
            f"views and points must be at least 1 and unit above 0, got {views}, {points} and {unit}"
        )
    scene = courtyard_scene(seed, device=device, shadow_side=min(4096, 4 * max(width, height)))
    cameras = courtyard_cameras(views, width=width, height=height, seed=seed)
    spread = noise * RADIUS
    return write_static_capture(out, scene, cameras, points=points, noise=spread, seed=seed, unit=unit)
