"""A box-shaped room with textured walls, seen by panoramas and by pinhole cameras with exact poses."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

HALF = np.array([3.0, 1.5, 2.5])  # of the room, around the origin; y is down
XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description '
    b'xmlns:GPano="http://ns.google.com/photos/1.0/panorama/" GPano:ProjectionType="equirectangular"/></x:xmpmeta>'
)


@cache
def walls(seed: int = 0, side: int = 512) -> np.ndarray:
    """Textures of the six walls with blobs of many sizes, float32 [6, side, side, 3]."""
    random = np.random.default_rng(seed)
    out = np.zeros((6, side, side, 3), np.float32)
    for wall in range(6):
        for cells in (4, 8, 16, 32, 64):
            noise = random.normal(size=(cells, cells, 3)).astype(np.float32)
            out[wall] += cv2.resize(noise, (side, side), interpolation=cv2.INTER_CUBIC)
        low, high = out[wall].min(), out[wall].max()
        out[wall] = (out[wall] - low) / (high - low) * 255
    return out


def reach(origin: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """How many lengths of a direction a wall is away along each axis, [..., 3]; the least one is hit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(
            directions > 0, (HALF - origin) / directions, (-HALF - origin) / np.minimum(directions, -1e-12)
        )


def colours(origin: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """What rays from a place in the room see, uint8 [..., 3]."""
    far = reach(origin, directions)
    axis = far.argmin(-1)
    near = np.take_along_axis(far, axis[..., None], -1)
    at = (origin + near * directions) / HALF  # within [-1, 1]
    wall = 2 * axis + (np.take_along_axis(directions, axis[..., None], -1)[..., 0] > 0)
    texture = walls()
    first = np.where(axis == 0, at[..., 1], at[..., 0])
    second = np.where(axis == 2, at[..., 1], at[..., 2])
    side = texture.shape[1]
    out = np.zeros((*axis.shape, 3), np.float32)
    for number in range(6):
        column = ((first + 1) * 0.5 * side - 0.5).astype(np.float32)
        row = ((second + 1) * 0.5 * side - 0.5).astype(np.float32)
        seen = cv2.remap(texture[number], column, row, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        out = np.where((wall == number)[..., None], seen, out)
    return np.clip(out + 0.5, 0, 255).astype(np.uint8)


def panorama_rays(width: int) -> np.ndarray:
    """Directions of the pixels of a panorama, [width / 2, width, 3]."""
    lon = 2 * np.pi * ((np.arange(width) + 0.5) / width - 0.5)
    lat = np.pi * (0.5 - (np.arange(width // 2) + 0.5) / (width // 2))
    lon, lat = np.meshgrid(lon, lat)
    return np.stack([np.cos(lat) * np.sin(lon), -np.sin(lat), np.cos(lat) * np.cos(lon)], axis=-1)


def panorama(cam_to_world: np.ndarray, width: int) -> np.ndarray:
    """A panorama from a pose, uint8 [width / 2, width, 3]; each pixel is the mean of four rays."""
    fine = colours(cam_to_world[:3, 3], panorama_rays(2 * width) @ cam_to_world[:3, :3].T)
    return cv2.resize(fine, (width, width // 2), interpolation=cv2.INTER_AREA)


def poses(count: int, seed: int = 1) -> list[np.ndarray]:
    """Camera to world of panoramas along a bent path at half height, turned around the vertical axis at random."""
    random = np.random.default_rng(seed)
    out = []
    for index in range(count):
        angle, turn = 2 * np.pi * index / count, random.uniform(-np.pi, np.pi)
        pose = np.eye(4)
        pose[:3, :3] = cv2.Rodrigues(np.array([0.0, turn, 0.0]))[0]
        pose[:3, :3] = pose[:3, :3] @ cv2.Rodrigues(random.normal(0, 0.03, 3))[0]
        pose[:3, 3] = [1.2 * np.cos(angle), 0.25 * np.sin(3 * angle), 0.9 * np.sin(angle)]
        out.append(pose)
    return out


def write_panoramas(folder: Path, count: int, width: int, *, marked: bool = True) -> list[np.ndarray]:
    """Writes panoramas as JPEG files with metadata; returns their poses, camera to world."""
    folder.mkdir(parents=True, exist_ok=True)
    placed = poses(count)
    for index, pose in enumerate(placed):
        options = {"xmp": XMP} if marked else {}
        image = Image.fromarray(panorama(pose, width))
        image.save(folder / f"pano{index:02d}.jpg", quality=95, subsampling=0, **options)
    return placed
