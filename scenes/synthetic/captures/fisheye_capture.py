"""A generated room as a fisheye of about 180 degrees images it, with exact poses and lens."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.render.geometry.lens import K1, fisheye_lens, fisheye_rays
from luxel.scenes.files.ply import save_points
from luxel.scenes.geometry import OPENGL_TO_OPENCV
from luxel.scenes.synthetic.captures.pose_captures import POSE_CAPTURES
from luxel.scenes.synthetic.rays.ray_caster import StaticScene
from luxel.scenes.synthetic.toy import as_bytes

COEFFICIENTS = (-0.02, 0.004, -0.001, 0.0001)  # k1 to k4: d(90 degrees) = 1.53 focal lengths
HALF_ANGLE = 0.5 * math.pi  # of the image circle, radians
SAMPLES = 2  # square root of the rays per pixel of the fisheye
OVERLAP = 1.03  # of the sides of the cube that is photographed, so that their edges can be interpolated


def fisheye_camera(camera: Camera, side: int) -> Camera:
    """A fisheye in the pose of another camera; the image circle fills a square of ``side`` pixels."""
    lens = fisheye_lens(COEFFICIENTS, 1.15 * HALF_ANGLE)
    theta2 = HALF_ANGLE**2
    reach = HALF_ANGLE * (1 + sum(k * theta2 ** (i + 1) for i, k in enumerate(COEFFICIENTS)))
    focal, centre = 0.5 * side / reach, 0.5 * side
    intrinsics = torch.tensor([focal, focal, centre, centre])
    return Camera(camera.world_to_cam, intrinsics, side, side, lens=lens)


def write_fisheye_capture(
    out: str | Path, *, views: int = 28, side: int = 800, seed: int = 0, points: int = 20_000
) -> Path:
    """Writes a capture that `luxel.scenes.open` reads: images/, transforms.json (OPENCV_FISHEYE) and points3D.ply.

    Pixels outside of the image circle are black. Points are on the surfaces, in the colours seen there.

    Args:
        out: folder, created if it does not exist.
        views: number of images.
        side: of the square images, pixels.
        seed: of the room, the cameras and the points.
        points: number of points.

    Returns:
        The folder.

    Raises:
        ValueError: fewer than 3 views, a side below 8 or no points.
    """
    if views < 3 or side < 8 or points < 1:
        raise ValueError(f"views must be at least 3, side 8 and points 1, got {views}, {side}, {points}")
    folder, random = Path(out), np.random.default_rng([seed, 51])
    (folder / "images").mkdir(parents=True, exist_ok=True)
    frames, clouds = [], []
    posed = POSE_CAPTURES["room"](views, side, side, seed)
    scene = StaticScene(posed[0].solids, seed, torch.device("cpu"), shadow_radius=8.0, shadow_side=512)
    cameras = [fisheye_camera(view.camera, side) for view in posed]
    for index, camera in enumerate(cameras):
        image, cloud = _fisheye_view(scene, camera, math.ceil(points / views), random)
        clouds.append(cloud)
        name = f"images/{index:04d}.png"
        Image.fromarray(image).save(folder / name)
        pose = camera.cam_to_world.double().numpy() @ OPENGL_TO_OPENCV
        frames.append({"file_path": name, "transform_matrix": pose.tolist()})
    xyz, rgb = (np.concatenate(parts)[:points] for parts in zip(*clouds, strict=True))
    save_points(folder / "points3D.ply", Points(xyz.astype(np.float32), rgb))
    assert cameras[0].lens is not None
    fx, fy, cx, cy = cameras[0].intrinsics.tolist()
    lens = {"w": side, "h": side, "fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy}
    lens |= {f"k{i + 1}": float(cameras[0].lens[K1 + i]) for i in range(4)}
    document = {"camera_model": "OPENCV_FISHEYE", **lens, "ply_file_path": "points3D.ply", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(document, indent=1))
    return folder


def _fisheye_view(
    scene: StaticScene, camera: Camera, points: int, random: np.random.Generator
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The image uint8 [H, W, 3] of a fisheye, from the six sides of a cube, and points on the surfaces that it sees."""
    side = camera.width
    fine = camera.resized(SAMPLES * side, SAMPLES * side)
    assert fine.lens is not None
    fine = replace(fine, lens=fisheye_lens(fine.lens[K1 : K1 + 4].tolist(), HALF_ANGLE))
    rays = np.nan_to_num(fisheye_rays(fine))
    out = np.zeros((*rays.shape[:2], 3), np.float32)
    clouds = []
    for axis in range(3):
        for sign in (1, -1):
            facing = (np.abs(rays).argmax(-1) == axis) & (sign * rays[..., axis] > 0)
            if not facing.any():
                continue
            turn = _rotation_to(axis, sign)
            face = _side_of_cube(camera, turn, side)
            view = scene.render(face, samples=1)
            shown = view.rgb.numpy()
            x, y, z = np.moveaxis(rays[facing] @ turn.T, -1, 0)
            fx, fy, cx, cy = face.intrinsics.double().tolist()
            across, down = (
                (fx * x / z + cx - 0.5).astype(np.float32),
                (fy * y / z + cy - 0.5).astype(np.float32),
            )
            out[facing] = cv2.remap(shown, across[:, None], down[:, None], cv2.INTER_LINEAR)[:, 0]
            clouds.append(_points(face, view.depth.numpy(), shown, points, random))
    mean = out.reshape(side, SAMPLES, side, SAMPLES, 3).mean((1, 3))
    xyz, rgb = (np.concatenate(parts) for parts in zip(*clouds, strict=True))
    chosen = random.choice(len(xyz), points, replace=False)
    return as_bytes(mean), (xyz[chosen], rgb[chosen])


def _rotation_to(axis: int, sign: int) -> np.ndarray:
    """Camera axes to those of a camera that looks along an axis of it, [3, 3]."""
    forward = np.zeros(3)
    forward[axis] = sign
    down = np.array([0.0, 1.0, 0.0]) if axis != 1 else np.array([0.0, 0.0, 1.0])
    return np.stack([np.cross(down, forward), down, forward])


def _side_of_cube(camera: Camera, turn: np.ndarray, side: int) -> Camera:
    """A pinhole camera of 90 degrees and a little more instead of another one, turned."""
    matrix = torch.eye(4)
    matrix[:3, :3] = torch.tensor(turn, dtype=torch.float32)
    focal = 0.5 * side / OVERLAP
    intrinsics = torch.tensor([focal, focal, 0.5 * side, 0.5 * side])
    return Camera(matrix @ camera.world_to_cam, intrinsics, side, side)


def _points(
    camera: Camera, depth: np.ndarray, shown: np.ndarray, count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """World points [count, 3] of random pixels of a view, and their colours uint8 [count, 3]."""
    row, column = random.integers(0, depth.shape[0], count), random.integers(0, depth.shape[1], count)
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    ray = np.stack([(column + 0.5 - cx) / fx, (row + 0.5 - cy) / fy, np.ones(count)])
    pose = camera.cam_to_world.double().numpy()
    return (pose[:3, :3] @ (ray * depth[row, column])).T + pose[:3, 3], as_bytes(shown[row, column])
