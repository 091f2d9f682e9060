"""A generated film of a walk whose frames are read row by row while the camera moves, with exact poses and points."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.scenes.files.ply import save_points
from luxel.scenes.synthetic.captures.pose_captures import POSE_CAPTURES
from luxel.scenes.synthetic.captures.static_capture import frame_entry
from luxel.scenes.synthetic.rays.ray_caster import StaticScene
from luxel.scenes.synthetic.toy import as_bytes

FPS = 30.0
SWING = math.radians(1.2)  # amplitude of the shaking of the hand, about the vertical and the horizontal axis
BEATS = 2.3, 3.1  # frames of a radian of it


def read_rows(
    render: Callable[[Camera], np.ndarray], pose: Callable[[float], torch.Tensor], camera: Camera, rows: int
) -> np.ndarray:
    """A frame whose blocks of rows are imaged one after another, from top to bottom.

    Args:
        render: gives the image [h, W, 3] of a camera.
        pose: world_to_cam [4, 4] at a time of the readout in [-1/2, 1/2].
        camera: size and intrinsics of the frame.
        rows: of a block; each is imaged at the time of its middle.

    Returns:
        [H, W, 3].
    """
    strips = []
    for first in range(0, camera.height, rows):
        height = min(rows, camera.height - first)
        intrinsics = camera.intrinsics.clone()
        intrinsics[3] -= first
        tau = (first + 0.5 * height) / camera.height - 0.5
        strips.append(render(replace(camera, world_to_cam=pose(tau), intrinsics=intrinsics, height=height)))
    return np.concatenate(strips)


def write_film_capture(
    out: str | Path,
    *,
    readout: float = 0.7,
    views: int = 40,
    width: int = 480,
    height: int = 360,
    rows: int = 4,
    seed: int = 0,
    points: int = 20_000,
) -> Path:
    """Writes a capture that `luxel.scenes.open` reads: images/, transforms.json with exact poses, and points3D.ply.

    Poses are those of the middle of the readout. Frames have times, one every 1/30 s.

    Args:
        out: folder, created if it does not exist.
        readout: share of the interval between frames during which rows are read; 0: a global shutter.
        views: number of frames.
        width, height: of the frames, pixels.
        rows: that are read at a time.
        seed: of the solids and points.
        points: number of points.

    Returns:
        The folder.

    Raises:
        ValueError: fewer than 3 views, rows or points below 1, or a readout outside of [0, 1].
    """
    if views < 3 or rows < 1 or points < 1 or not 0 <= readout <= 1:
        raise ValueError(
            "views must be at least 3, rows and points 1, readout in [0, 1], "
            f"got {views}, {rows}, {points}, {readout}"
        )
    folder, random = Path(out), np.random.default_rng([seed, 52])
    (folder / "images").mkdir(parents=True, exist_ok=True)
    posed = POSE_CAPTURES["film"](views, width, height, seed)
    scene = StaticScene(posed[0].solids, seed, torch.device("cpu"), shadow_radius=8.0, shadow_side=512)
    centres = [view.camera for view in posed]

    def at(time: float) -> torch.Tensor:
        """world_to_cam at a time in frames."""
        return _shaken(_between(centres, time), time)

    def image_of(camera: Camera) -> np.ndarray:
        return scene.render(camera, samples=1).rgb.numpy()

    frames, clouds = [], []
    for index, view in enumerate(centres):
        camera = replace(view, world_to_cam=at(index))
        block = rows if readout > 0 else height
        image = read_rows(image_of, lambda tau, i=index: at(i + readout * tau), camera, block)
        name = f"images/{index:04d}.png"
        Image.fromarray(as_bytes(image)).save(folder / name)
        cloud = scene.render(camera, samples=1)
        clouds.append(
            _points(camera, cloud.depth.numpy(), cloud.rgb.numpy(), math.ceil(points / views), random)
        )
        frames.append(frame_entry(name, camera) | {"time": index / FPS})
    xyz, rgb = (np.concatenate(parts)[:points] for parts in zip(*clouds, strict=True))
    save_points(folder / "points3D.ply", Points(xyz.astype(np.float32), rgb))
    document = {"camera_model": "PINHOLE", "ply_file_path": "points3D.ply", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(document, indent=1))
    return folder


def _between(cameras: list[Camera], time: float) -> torch.Tensor:
    """The pose between those of two frames, along the constant velocity from one to the other."""
    from luxel.render.geometry.shutter import pose_at, velocity_between

    first = min(max(0, math.floor(time)), len(cameras) - 2)
    start, end = cameras[first].world_to_cam, cameras[first + 1].world_to_cam
    return pose_at(start, velocity_between(start, end), time - first)


def _shaken(world_to_cam: torch.Tensor, time: float) -> torch.Tensor:
    """A pose turned by the hand that holds the camera."""
    pan, tilt = (SWING * math.sin(time / beat) for beat in BEATS)
    about_y = torch.tensor([[math.cos(pan), 0, math.sin(pan)], [0, 1, 0], [-math.sin(pan), 0, math.cos(pan)]])
    about_x = torch.tensor(
        [[1, 0, 0], [0, math.cos(tilt), -math.sin(tilt)], [0, math.sin(tilt), math.cos(tilt)]]
    )
    turn = torch.eye(4)
    turn[:3, :3] = about_x @ about_y
    return turn @ world_to_cam


def _points(
    camera: Camera, depth: np.ndarray, shown: np.ndarray, count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """World points [count, 3] of random pixels that show a surface, and their colours uint8 [count, 3]."""
    rows, columns = np.nonzero(np.isfinite(depth) & (depth > 0))
    chosen = random.integers(0, len(rows), count)
    row, column = rows[chosen], columns[chosen]
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    ray = np.stack([(column + 0.5 - cx) / fx, (row + 0.5 - cy) / fy, np.ones(count)])
    pose = camera.cam_to_world.double().numpy()
    return (pose[:3, :3] @ (ray * depth[row, column])).T + pose[:3, 3], as_bytes(shown[row, column])
