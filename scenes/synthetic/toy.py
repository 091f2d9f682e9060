"""A small synthetic scene of Gaussians, and a capture of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.render.primitives.gaussians import SH_C0, Gaussians
from luxel.scenes.files.ply import save_points
from luxel.scenes.geometry import OPENGL_TO_OPENCV
from luxel.scenes.paths import orbit

Render = Callable[[Gaussians, Camera], np.ndarray]


def torus_knot(count: int = 600, *, p: int = 2, q: int = 3, sh_degree: int = 1, seed: int = 0) -> Gaussians:
    """Gaussians along a (p, q) torus knot, coloured by their position along it, within about 1.6 of the origin.

    Args:
        count: N.
        p, q: windings around the axis and through the hole; coprime.
        sh_degree: 0 to 3; coefficients above degree 0 are small random numbers.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    angle = 2 * math.pi * np.arange(count) / max(count, 1)
    ring = 1.0 + 0.4 * np.cos(q * angle)
    centre = np.stack([ring * np.cos(p * angle), ring * np.sin(p * angle), 0.4 * np.sin(q * angle)], axis=-1)
    means = centre + 0.05 * random.standard_normal((count, 3))
    hue = angle[:, None] + 2 * math.pi * np.arange(3)[None] / 3
    colour = 0.5 + 0.4 * np.cos(hue)
    values = {
        "means": means,
        "quats": random.standard_normal((count, 4)),
        "log_scales": np.log(random.uniform(0.03, 0.08, (count, 3))),
        "opacity_logits": random.uniform(1.0, 3.0, count),
        "sh_dc": (colour - 0.5) / SH_C0,
        "sh_rest": 0.05 * random.standard_normal((count, (sh_degree + 1) ** 2 - 1, 3)),
    }
    return Gaussians(**{name: torch.tensor(value, dtype=torch.float32) for name, value in values.items()})


def ring_cameras(
    count: int = 16, *, radius: float = 4.0, elevation: float = 0.4, width: int = 64, height: int = 48
) -> list[Camera]:
    """Cameras on a ring around the origin, alternately a little higher and lower."""
    turns = [
        orbit((0, 0, 0), radius, elevation=elevation + s, frames=count, width=width, height=height)
        for s in (-0.2, 0.2)
    ]
    return [turns[index % 2][index] for index in range(count)]


def as_bytes(image: np.ndarray) -> np.ndarray:
    """Colours in [0, 1] as uint8, rounded; arrays of uint8 are returned as they are."""
    given = np.asarray(image)
    if given.dtype == np.uint8:
        return given
    return (np.clip(np.nan_to_num(given), 0, 1) * 255 + 0.5).astype(np.uint8)


def write_toy_capture(
    folder: str | Path,
    render: Render,
    *,
    gaussians: Gaussians | None = None,
    cameras: list[Camera] | None = None,
    noise: float = 0.02,
    seed: int = 0,
) -> Path:
    """Writes a capture of a synthetic scene: images/, transforms.json and points3D.ply.

    Args:
        folder: created if it does not exist.
        render: called with Gaussians and a camera; returns the image [H, W, 3], or with straight alpha [H, W, 4], as
            uint8 or in [0, 1].
        gaussians: the scene; None: a torus knot.
        cameras: single cameras; None: a ring of 16.
        noise: standard deviation of the written points around the true centres, world units.
        seed: of the random numbers.

    Returns:
        The folder.
    """
    folder = Path(folder)
    scene = gaussians if gaussians is not None else torus_knot()
    (folder / "images").mkdir(parents=True, exist_ok=True)
    frames = []
    for index, camera in enumerate(cameras if cameras is not None else ring_cameras()):
        name = f"images/{index:04d}.png"
        Image.fromarray(as_bytes(render(scene, camera))).save(folder / name)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        pose = camera.cam_to_world.double().numpy() @ OPENGL_TO_OPENCV
        lens = {"w": camera.width, "h": camera.height, "fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy}
        frames.append({"file_path": name, **lens, "transform_matrix": pose.tolist()})
    random = np.random.default_rng(seed)
    means = scene.means.detach().cpu().numpy()
    xyz = (means + noise * random.standard_normal(means.shape)).astype(np.float32)
    rgb = as_bytes(0.5 + SH_C0 * scene.sh_dc.detach().cpu().numpy())
    save_points(folder / "points3D.ply", Points(xyz, rgb))
    document = {"camera_model": "PINHOLE", "ply_file_path": "points3D.ply", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(document))
    return folder
