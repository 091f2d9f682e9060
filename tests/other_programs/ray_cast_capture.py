"""A small scene drawn by casting rays in numpy, and its captures as COLMAP models and transforms.json, without luxel.

A ball of radius 0.6 stands on a chequered ground at z = -0.6 below a sky; z is up. Cameras stand in a ring around it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WIDTH, HEIGHT, FOCAL = 48, 36, 44.0
RADIUS, GROUND = 0.6, -0.6
OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])
COLMAP_NUMBERS = {"SIMPLE_PINHOLE": 0, "PINHOLE": 1, "SIMPLE_RADIAL": 2, "OPENCV": 4}


def camera_at(eye: Sequence[float], target: Sequence[float] = (0.0, 0.0, 0.0)) -> np.ndarray:
    """A camera that looks at a point, cam_to_world with OpenCV axes, [4, 4]; z of the world is up."""
    pose = np.eye(4)
    forward = np.subtract(target, eye) / np.linalg.norm(np.subtract(target, eye))
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    pose[:3, 3] = eye
    return pose


def ring(count: int = 8, radius: float = 3.0) -> list[np.ndarray]:
    """Cameras around the scene that look at its middle."""
    angles = 2 * np.pi * np.arange(count) / count
    return [camera_at((radius * np.cos(a), radius * np.sin(a), 1.2 + 0.3 * np.sin(3 * a))) for a in angles]


def pinhole_rays(width: int = WIDTH, height: int = HEIGHT, focal: float = FOCAL) -> np.ndarray:
    """Directions of the pixels in the axes of the camera, z = 1, [H, W, 3]; the principal point is the middle."""
    x = (np.arange(width) + 0.5 - 0.5 * width) / focal
    y = (np.arange(height) + 0.5 - 0.5 * height) / focal
    return np.stack([*np.meshgrid(x, y), np.ones((height, width))], -1)


def cast(
    pose: np.ndarray, rays: np.ndarray, shift: Sequence[float] = (0, 0, 0)
) -> tuple[np.ndarray, np.ndarray]:
    """Colours of rays, uint8 [H, W, 3], and whether they meet the ball, bool [H, W].

    Args:
        pose: cam_to_world.
        rays: directions in the axes of the camera.
        shift: the position of the scene in the world.
    """
    eye = pose[:3, 3] - np.asarray(shift, float)
    d = rays @ pose[:3, :3].T
    d = d / np.linalg.norm(d, axis=-1, keepdims=True)
    colour = np.stack([0.45 + 0.2 * d[..., 0], 0.6 + 0.2 * d[..., 1], 0.75 + 0.2 * d[..., 2]], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (GROUND - eye[2]) / d[..., 2]
        p = eye + t[..., None] * d
    ground = (t > 0) & (np.abs(p[..., :2]).max(-1) < 4)
    p = np.where(ground[..., None], p, 0.0)
    chequer = np.floor(2 * p[..., 0]) + np.floor(2 * p[..., 1])
    shades = np.stack(
        [0.25 + 0.5 * (chequer % 2), 0.3 + 0.1 * np.sin(5 * p[..., 0]), 0.7 - 0.4 * (chequer % 2)], -1
    )
    colour = np.where(ground[..., None], shades, colour)
    b = (d * eye).sum(-1)
    root = b * b - (eye @ eye - RADIUS**2)
    ball = (root > 0) & (-b > 0)
    normal = (eye + (-b - np.sqrt(np.maximum(root, 0)))[..., None] * d) / RADIUS
    surface = np.stack(
        [0.5 + 0.5 * normal[..., 0], 0.5 + 0.5 * normal[..., 1], 0.5 + 0.4 * np.sin(8 * normal[..., 2])], -1
    )
    colour = np.where(ball[..., None], surface, colour)
    return (np.clip(colour, 0, 1) * 255 + 0.5).astype(np.uint8), ball


def surface_points(count: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of the ball and the ground, float64 [2 count, 3], and colours, uint8."""
    random = np.random.default_rng(seed)
    ball = random.normal(size=(count, 3))
    ball *= RADIUS / np.linalg.norm(ball, axis=1, keepdims=True)
    ground = np.c_[random.uniform(-2, 2, (count, 2)), np.full(count, GROUND)]
    return np.concatenate([ball, ground]), random.integers(0, 256, (2 * count, 3)).astype(np.uint8)


def write_images(
    folder: Path, poses: Sequence[np.ndarray], name: Callable[[int], str] = "{:04d}.png".format
) -> list[str]:
    """Images of the scene at the poses; their names relative to the folder."""
    names = [name(row) for row in range(len(poses))]
    for file, pose in zip(names, poses, strict=True):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(cast(pose, pinhole_rays())[0]).save(folder / file, quality=95)
    return names


def quaternion(rotation: np.ndarray) -> np.ndarray:
    """w x y z of a rotation, by the eigenvector of its symmetric 4x4 matrix (Bar-Itzhack 2000)."""
    r = rotation
    q = np.array(
        [
            [r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[2, 0] + r[0, 2], r[2, 1] - r[1, 2]],
            [0, r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]],
            [0, 0, r[2, 2] - r[0, 0] - r[1, 1], r[1, 0] - r[0, 1]],
            [0, 0, 0, r[0, 0] + r[1, 1] + r[2, 2]],
        ]
    )
    vector = np.linalg.eigh(q + np.triu(q, 1).T)[1][:, -1]
    return vector[[3, 0, 1, 2]]


def write_colmap(
    folder: Path,
    names: Sequence[str],
    poses: Sequence[np.ndarray],
    *,
    points: tuple[np.ndarray, np.ndarray] | None = None,
    cameras: Mapping[int, tuple[str, int, int, Sequence[float]]] | None = None,
    camera_of: Callable[[int], int] = lambda row: 1,
    binary: bool = False,
) -> Path:
    """A COLMAP model, text or binary, of images at poses (cam_to_world, OpenCV axes); one pinhole unless given."""
    cameras = cameras or {1: ("PINHOLE", WIDTH, HEIGHT, (FOCAL, FOCAL, 0.5 * WIDTH, 0.5 * HEIGHT))}
    xyz, rgb = surface_points() if points is None else points
    inverses = [np.linalg.inv(pose) for pose in poses]
    rows = [(*quaternion(inverse[:3, :3]), *inverse[:3, 3]) for inverse in inverses]
    folder.mkdir(parents=True, exist_ok=True)
    if binary:
        packed = struct.pack("<Q", len(cameras))
        for key, (model, width, height, values) in cameras.items():
            packed += struct.pack(f"<iiQQ{len(values)}d", key, COLMAP_NUMBERS[model], width, height, *values)
        (folder / "cameras.bin").write_bytes(packed)
        packed = struct.pack("<Q", len(rows))
        for row, values in enumerate(rows):
            packed += struct.pack("<i7di", row + 1, *values, camera_of(row)) + names[row].encode() + b"\0"
            packed += struct.pack("<Q", 0)
        (folder / "images.bin").write_bytes(packed)
        packed = struct.pack("<Q", len(xyz))
        for row, (p, c) in enumerate(zip(xyz, rgb, strict=True)):
            packed += struct.pack("<Q3d3BdQ", row + 1, *p, *c.tolist(), 0.5, 0)
        (folder / "points3D.bin").write_bytes(packed)
        return folder
    lines = [
        f"{k} {m} {w} {h} {' '.join(repr(float(v)) for v in values)}"
        for k, (m, w, h, values) in cameras.items()
    ]
    (folder / "cameras.txt").write_text("\n".join(["# cameras", *lines, ""]))
    lines = []
    for row, values in enumerate(rows):
        lines += [f"{row + 1} {' '.join(repr(float(v)) for v in values)} {camera_of(row)} {names[row]}", ""]
    (folder / "images.txt").write_text("\n".join(["# images", *lines, ""]))
    lines = [
        f"{row + 1} {' '.join(map(repr, p.tolist()))} {' '.join(map(str, c.tolist()))} 0.5"
        for row, (p, c) in enumerate(zip(xyz, rgb, strict=True))
    ]
    (folder / "points3D.txt").write_text("\n".join(["# points", *lines, ""]))
    return folder


def transforms(names: Sequence[str], poses: Sequence[np.ndarray], **keys: Any) -> dict[str, Any]:
    """A transforms.json of images at poses (cam_to_world, OpenCV axes); ``keys`` are added to the document."""
    frames = [
        {"file_path": name, "transform_matrix": (pose @ OPENGL).tolist()}
        for name, pose in zip(names, poses, strict=True)
    ]
    lens = {"fl_x": FOCAL, "fl_y": FOCAL, "cx": 0.5 * WIDTH, "cy": 0.5 * HEIGHT, "w": WIDTH, "h": HEIGHT}
    return {"camera_model": "PINHOLE", **lens, **keys, "frames": frames}


def write_ply_points(path: Path, points: tuple[np.ndarray, np.ndarray] | None = None) -> Path:
    """A point cloud in text PLY."""
    xyz, rgb = surface_points() if points is None else points
    header = ["ply", "format ascii 1.0", f"element vertex {len(xyz)}"]
    header += [f"property double {axis}" for axis in "xyz"]
    header += [f"property uchar {channel}" for channel in ("red", "green", "blue")] + ["end_header"]
    rows = [
        f"{' '.join(map(repr, p.tolist()))} {' '.join(map(str, c.tolist()))}"
        for p, c in zip(xyz, rgb, strict=True)
    ]
    path.write_text("\n".join([*header, *rows, ""]))
    return path


def colmap_capture(folder: Path, count: int = 8, **options: Any) -> Path:
    """images/ and sparse/0 of a ring of cameras; ``options`` are those of `write_colmap`."""
    poses = ring(count)
    write_colmap(folder / "sparse" / "0", write_images(folder / "images", poses), poses, **options)
    return folder


def transforms_capture(folder: Path, count: int = 8, **keys: Any) -> Path:
    """images/, points3D.ply and transforms.json of a ring of cameras; ``keys`` are added to the document."""
    poses = ring(count)
    names = [f"images/{name}" for name in write_images(folder / "images", poses)]
    write_ply_points(folder / "points3D.ply")
    (folder / "transforms.json").write_text(json.dumps(transforms(names, poses, **keys)))
    return folder
