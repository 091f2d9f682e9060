"""Given poses refined by bundle adjustment over matched features, brought back onto the given ones by a similarity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key, load_arrays
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.launch import run_task
from luxel.scenes.captures.poses.triangulate import PosedImage, prepared
from luxel.scenes.geometry import estimate_centre, invert_rigid

VERSION = 1  # increased when a change of this file invalidates cached poses
TOLERANCES = (24.0, 12.0, 4.0, 4.0)  # pixels: reprojection error of points, round by round
MIN_POINTS = 200


def refined_poses(
    root: Path,
    posed: Sequence[PosedImage],
    *,
    cache_dir: str | Path | None = None,
    on_progress: Progress,
) -> tuple[np.ndarray, str]:
    """World-to-camera matrices that agree with matched features, and what changed, a clause; cached.

    Points are triangulated and all poses adjusted in turn, with ever smaller tolerances; lenses stay. The poses are
    then moved together, by the similarity that brings their centres nearest to the given ones. They stay as they are
    where the reprojection error does not fall.

    Args:
        root: the capture's folder.
        posed: cameras and readers of all images.
        cache_dir: see `luxel.scenes.captures.caching.capture_cache.CaptureCache`.
        on_progress: called with (stage, fraction done in [0, 1]).

    Returns:
        float64 [V, 4, 4], and the clause.

    Raises:
        CaptureError: pycolmap is missing, or the images do not match with these poses.
    """
    given = np.stack([camera.world_to_cam.double().numpy() for camera, _ in posed])
    parts: list[object] = ["refined poses", VERSION, features.FEATURES, given.tobytes()]
    for camera, reader in posed:
        parts += [reader.path.name, reader.path.stat().st_size, reader.use, camera.width, camera.height]
        parts += [camera.intrinsics.numpy().tobytes()]
    name = f"poses-{content_key(parts)}.npz"

    def read(folder: Path) -> tuple[np.ndarray, float, float]:
        stored = load_arrays(folder / name)
        poses, (before, after) = stored["poses"], stored["errors"]
        if poses.shape != given.shape or poses.dtype != given.dtype or not np.isfinite(poses).all():
            raise ValueError(f"{name} does not hold the poses of these cameras")
        return poses, float(before), float(after)

    def make(folder: Path) -> None:
        poses, errors = _refine(posed, given, on_progress)
        np.savez(folder / name, poses=poses, errors=errors)

    poses, before, after = CaptureCache(root, cache_dir).result("", read, make, names=[name])
    if not after < before:  # phrased so that NaN fails
        return (
            given,
            f"the given poses are retained: refinement does not lower their error of {before:.2f} pixels",
        )
    centres = np.stack([invert_rigid(pose)[:3, 3] for pose in given])
    moved = np.linalg.norm(np.stack([invert_rigid(pose)[:3, 3] for pose in poses]) - centres, axis=1)
    extent = np.median(np.linalg.norm(centres - _centre(given), axis=1))
    turned = [_angle(a[:3, :3] @ b[:3, :3].T) for a, b in zip(poses, given, strict=True)]
    angle = np.degrees(np.median(turned))
    return poses, (
        f"the given poses were refined: reprojection error {before:.2f} to {after:.2f} pixels, cameras moved by "
        f"{100 * np.median(moved) / extent:.2f} % of the extent and {angle:.2f} degrees (medians)"
    )


def _refine(
    posed: Sequence[PosedImage], given: np.ndarray, on_progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    """Refined poses, and the mean reprojection error before and after, pixels, [2]."""
    with prepared(posed) as (work, inputs):
        result = run_task(
            "refine_poses",
            work,
            on_progress,
            **inputs,
            tolerances=TOLERANCES,
            min_points=MIN_POINTS,
            world_to_cam=given,
        )
    return _aligned(result["poses"], given), result["errors"]


def _aligned(poses: np.ndarray, given: np.ndarray) -> np.ndarray:
    """World-to-camera matrices moved together, so that centres are nearest to given ones (Umeyama 1991)."""
    moved, fixed = (np.stack([invert_rigid(pose)[:3, 3] for pose in matrices]) for matrices in (poses, given))
    scale, turn, shift = similarity(moved, fixed)
    out = poses.copy()
    for row, pose in enumerate(poses):
        out[row, :3, :3] = pose[:3, :3] @ turn.T
        out[row, :3, 3] = -out[row, :3, :3] @ (scale * turn @ moved[row] + shift)
    return out


def similarity(moved: np.ndarray, fixed: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Scale s, rotation R and translation t with s R x + t nearest to the fixed points (Umeyama 1991, eq. 40-42).

    Args:
        moved, fixed: corresponding points, [V, 3].
    """
    a, b = moved - moved.mean(0), fixed - fixed.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    sign = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    turn = u @ sign @ vt
    scale = float((s * np.diag(sign)).sum() / max(float((a**2).sum()), 1e-30))
    return scale, turn, fixed.mean(0) - scale * turn @ moved.mean(0)


def _centre(world_to_cam: np.ndarray) -> np.ndarray:
    return estimate_centre(np.stack([invert_rigid(pose) for pose in world_to_cam]), np.zeros((0, 3)))


def _angle(rotation: np.ndarray) -> float:
    return float(np.arccos(np.clip((np.trace(rotation) - 1) / 2, -1, 1)))
