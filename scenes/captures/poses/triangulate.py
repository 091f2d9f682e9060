"""Initial points of captures with poses but without points: triangulated, or random points in the cameras' views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from luxel.render.geometry.camera import Camera, Pixels, Points
from luxel.render.storage.journal import scratch_folder
from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key, user_cache
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.launch import run_task
from luxel.scenes.captures.colmap_process.pairs import pairs_by_pose
from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.captures.images.images import ImageReader, for_each
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import load_points, save_points
from luxel.scenes.geometry import estimate_centre

VERSION = 2
SAME_CAMERAS = 1e-5  # most difference of a number of two cameras that are the same, relative to the largest
MIN_TRIANGULATED = 500  # with fewer points, random ones are added
RANDOM_POINTS = 50_000
CARVING_VIEWS = 32
CARVED_AT_ONCE = 1 << 16  # points
T = TypeVar("T")
PosedImage = tuple[Camera, ImageReader]


def starting_points(
    root: Path,
    contents: CaptureContents,
    posed: Sequence[PosedImage],
    *,
    cache_dir: str | Path | None = None,
    on_progress: Progress,
) -> Points:
    """Points from known poses: triangulated by pycolmap and cached, or random with a warning.

    Args:
        root: the capture's folder.
        contents: gets a warning where random points are used.
        posed: cameras and readers of the images to use (not those of the data set's test split).
        cache_dir: see `luxel.scenes.captures.caching.capture_cache.CaptureCache`.
        on_progress: called with (stage, fraction done in [0, 1]).
    """
    parts: list[object] = ["points", VERSION, features.FEATURES]
    for camera, reader in posed:
        parts += [reader.path.name, reader.path.stat().st_size, reader.use, camera.width, camera.height]
    name = f"points-{content_key(parts)}"
    names = (f"{name}.ply", f"{name}.cameras.npy")

    def read(folder: Path) -> Points:
        _require_cameras(folder / names[1], posed)
        return load_points(folder / names[0])

    def make(folder: Path) -> None:
        points = _within_masks(triangulate(posed, on_progress), posed)
        if not len(points.xyz):
            raise CaptureError(
                "No points could be triangulated from the given poses.",
                "Check that the poses are those of these images, or leave them out to estimate them.",
            )
        save_points(folder / names[0], points)
        np.save(folder / names[1], _numbers(posed))

    try:
        points = CaptureCache(root, cache_dir).result("", read, make, names=names)
        if len(points.xyz) >= MIN_TRIANGULATED:
            return points
        reason = f"Only {len(points.xyz)} points could be triangulated."
    except CaptureError as error:
        points, reason = None, error.problem
    on_progress("sampling random points", 0.0)
    extra = scatter(posed)
    contents.warnings.append(
        f"{reason} Training starts from {len(extra.xyz)} random points in the cameras' views."
    )
    if points is None:
        return extra
    return Points(np.concatenate([points.xyz, extra.xyz]), np.concatenate([points.rgb, extra.rgb]))


def _numbers(posed: Sequence[PosedImage]) -> np.ndarray:
    """Pose and intrinsics of each camera, [N, 20]."""
    rows = [np.append(camera.world_to_cam.ravel(), camera.intrinsics) for camera, _ in posed]
    return np.array(rows).reshape(-1, 20)


def _require_cameras(file: Path, posed: Sequence[PosedImage]) -> None:
    """Raises an exception unless a file has these cameras, as far as processors compute alike: their bits differ."""
    known, expected = np.load(file, allow_pickle=False), _numbers(posed)
    if known.shape != expected.shape or not bool(
        (np.abs(known - expected) <= SAME_CAMERAS * np.abs(expected).max(axis=0)).all()
    ):
        raise ValueError(f"{file} has other cameras")


def triangulate(posed: Sequence[PosedImage], on_progress: Progress) -> Points:
    """Points triangulated by COLMAP from matched features, with fixed poses.

    Args:
        posed: cameras and readers; features outside the masks are dropped.
        on_progress: called with (stage, fraction done in [0, 1]).

    Raises:
        CaptureError: pycolmap is missing or fails.
    """
    poses = np.stack([camera.world_to_cam.double().numpy() for camera, _ in posed])
    with prepared(posed) as (work, inputs):
        result = run_task("triangulate", work, on_progress, **inputs, world_to_cam=poses)
    keep = np.isfinite(result["xyz"]).all(axis=1)
    return Points(result["xyz"][keep], result["rgb"][keep])


@contextmanager
def prepared(posed: Sequence[PosedImage]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder with images and masks that is removed on exit, and the arguments of
    `luxel.scenes.captures.colmap_process.triangulation.matched`: pairs are neighbours by pose.

    Args:
        posed: cameras and readers.

    Raises:
        CaptureError: pycolmap is missing, or an image cannot be read.
    """
    features.require_pycolmap()
    names = [f"{index:05d}.png" for index in range(len(posed))]
    lenses: dict[tuple, list[str]] = {}
    for name, (camera, _) in zip(names, posed, strict=True):
        lenses.setdefault((camera.width, camera.height, *camera.intrinsics.tolist()), []).append(name)
    poses = np.stack([camera.cam_to_world.numpy().astype(np.float64) for camera, _ in posed])
    with scratch_folder(user_cache()) as work:
        images, masks = work / "images", work / "masks"
        images.mkdir()
        masks.mkdir()
        for_each(lambda i: _write_image(posed[i][1](), names[i], images, masks), len(posed))
        yield (
            work,
            {
                "names": names,
                "lenses": [(lens[2:], group) for lens, group in lenses.items()],
                "pairs": pairs_by_pose(names, poses),
            },
        )


def _write_image(pixels: Pixels, name: str, images: Path, masks: Path) -> None:
    rgb = pixels.rgb
    if pixels.alpha is not None:
        share = pixels.alpha[..., None].astype(np.float32) / 255
        rgb = (rgb * share + 255 * (1 - share) + 0.5).astype(np.uint8)
    Image.fromarray(rgb).save(images / name, compress_level=1)
    keep = pixels.alpha if pixels.alpha is not None else pixels.weight
    if keep is not None:
        Image.fromarray(keep).save(masks / f"{name}.png", compress_level=1)


def scatter(posed: Sequence[PosedImage], count: int = RANDOM_POINTS, seed: int = 0) -> Points:
    """Random points on rays of random pixels, with the pixel's colour, that several cameras see.

    Of cut-outs, points that project outside the object in any view are dropped. Of other captures, depths are uniform
    in inverse depth, around the distance of the scene's centre.

    Args:
        posed: cameras and readers.
        count: approximate number of points.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    poses = np.stack([camera.cam_to_world.numpy().astype(np.float64) for camera, _ in posed])
    centre = estimate_centre(poses, np.zeros((0, 3)))
    chosen = np.unique(np.linspace(0, len(posed) - 1, CARVING_VIEWS).astype(int))
    looked = [(posed[i][0], posed[i][1]()) for i in chosen]
    cutout = all(pixels.alpha is not None for _, pixels in looked)
    xyz, rgb = [], []
    per_view = max(64, (24 if cutout else 3) * count // len(looked))
    for (camera, pixels), pose in zip(looked, poses[chosen], strict=True):
        allowed = pixels.alpha if pixels.alpha is not None else pixels.weight
        rows, columns = np.nonzero(allowed >= 128) if allowed is not None else (None, None)
        if rows is None or columns is None:
            rows, columns = (
                random.integers(0, camera.height, per_view),
                random.integers(0, camera.width, per_view),
            )
        elif len(rows):
            pick = random.integers(0, len(rows), per_view)
            rows, columns = rows[pick], columns[pick]
        else:
            continue
        distance = max(float(np.linalg.norm(centre - pose[:3, 3])), 1e-6)
        if cutout:
            depth = distance * random.uniform(0.4, 1.6, len(rows))
        else:
            depth = distance / random.uniform(0.2, 3.0, len(rows))
        fx, fy, cx, cy = camera.intrinsics.double().numpy()
        local = np.stack([(columns + 0.5 - cx) / fx, (rows + 0.5 - cy) / fy, np.ones(len(rows))], -1)
        xyz.append((local * depth[:, None]) @ pose[:3, :3].T + pose[:3, 3])
        rgb.append(pixels.rgb[rows, columns])
    if not xyz:
        return Points(centre[None].astype(np.float32), np.full((1, 3), 128, np.uint8))
    points, colours = np.concatenate(xyz), np.concatenate(rgb)
    # Points that few cameras see are hardly tested by carving; most cameras see most of an object.
    keep = _visible(points, looked, carve=cutout, least=(len(looked) + 1) // 2 if cutout else 2)
    if keep.sum() >= 100:
        points, colours = points[keep], colours[keep]
    pick = random.permutation(len(points))[:count]
    return Points(points[pick].astype(np.float32), np.ascontiguousarray(colours[pick]))


def _within_masks(points: Points, posed: Sequence[PosedImage]) -> Points:
    """Removes points outside the masks of a cut-out; other captures keep all points."""
    chosen = np.unique(np.linspace(0, len(posed) - 1, CARVING_VIEWS).astype(int))
    looked = [(posed[i][0], posed[i][1]()) for i in chosen]
    if not all(pixels.alpha is not None for _, pixels in looked):
        return points
    keep = _visible(points.xyz.astype(np.float64), looked, carve=True, least=2)
    return Points(points.xyz[keep], points.rgb[keep])


def _visible(
    points: np.ndarray, looked: list[tuple[Camera, Pixels]], *, carve: bool, least: int
) -> np.ndarray:
    """Which points project into at least ``least`` images and, with ``carve``, into the mask of each of these."""
    cameras = [
        (c.width, c.height, c.world_to_cam.double().numpy()[:3], c.intrinsics.double().tolist(), pixels.alpha)
        for c, pixels in _far_apart(looked)
    ]
    retained = [np.zeros(0, bool)]
    for start in range(0, len(points), CARVED_AT_ONCE):  # arrays that stay in the processor's cache
        axes = np.ascontiguousarray(points[start : start + CARVED_AT_ONCE].T)
        times, inside = np.zeros(axes.shape[1], int), np.ones(axes.shape[1], bool)
        live = np.arange(axes.shape[1])  # those that no mask has carved away yet: most are after a few views
        for width, height, pose, (fx, fy, cx, cy), alpha in cameras:
            x, y, z = axes[:, live]
            # Written out: of so narrow matrices BLAS makes work for all its threads, which takes longer.
            across, down, depth = (r[0] * x + r[1] * y + r[2] * z + r[3] for r in pose)
            near = np.maximum(depth, 1e-9)
            column, row = across / near * fx + cx, down / near * fy + cy
            visible = (depth > 1e-6) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
            times[live] += visible
            if carve and alpha is not None:
                where = np.nonzero(visible)[0]
                outside = alpha[row[where].astype(int), column[where].astype(int)] < 64
                inside[live[where[outside]]] = False
                live = live[inside[live]]
        retained.append(inside & (times >= min(least, len(looked))))
    return np.concatenate(retained)


def _far_apart(looked: list[T]) -> list[T]:
    """The same in another order: neighbours, which hide much the same, far from each other."""
    number = len(looked)
    stride = next((n for n in range(round(0.382 * number), number) if math.gcd(n, number) == 1), 1)
    return [looked[i * stride % number] for i in range(number)]
