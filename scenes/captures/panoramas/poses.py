"""Structure from motion of panoramas: small views of each form a rigid rig with one centre, whose pose is estimated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from luxel.render.geometry.camera import Points
from luxel.render.storage.journal import scratch_folder
from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key, load_arrays, user_cache
from luxel.scenes.captures.capture_format import Progress, ReadOptions
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.launch import run_task
from luxel.scenes.captures.colmap_process.panorama_mapping import ADVICE, MIN_PANORAMAS, SIZE, VIEWS
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.images.images import ImageHeader, decode, for_each, read_header
from luxel.scenes.captures.images.masks import find_masks, read_mask
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.panoramas.cutting import above, small_view, view_size
from luxel.scenes.captures.panoramas.layout import turns
from luxel.scenes.errors import CaptureError

VERSION = 1  # increased when a change of this file invalidates cached results
MIN_PLACED_FRACTION = 0.5
FOV = 90.0  # of the views of the rig, degrees


def estimate_panorama_poses(path: Path, folder: Path, options: ReadOptions) -> CaptureContents:
    """Poses of the panoramas of a folder, and points, computed once and cached.

    Args:
        path: the capture's folder, where ``masks`` may be.
        folder: of the panoramas.
        options: of reading.

    Returns:
        Images with equirectangular lenses, see `luxel.scenes.captures.panoramas.cutting`.

    Raises:
        CaptureError: fewer than 3 panoramas, or fewer than half of them (or 3) could be placed.
    """
    files = image_files(folder)
    if len(files) < MIN_PANORAMAS:
        raise CaptureError(
            f"{folder}: {len(files)} panoramas are too few, at least {MIN_PANORAMAS} are needed.", ADVICE
        )
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(files[i])), len(files))
    sources = [
        SourceImage(
            file.name,
            file,
            Lens.equirectangular(*headers[i].size(True), str(file)),
            np.eye(4),
            oriented=True,
            exposure=headers[i].exposure,
        )
        for i, file in enumerate(files)
    ]
    if options.masks != "none":
        find_masks(path, sources)
    sizes = [(s.name, s.path.stat().st_size, s.mask.stat().st_size if s.mask else 0) for s in sources]
    name = f"panoramas-{content_key(['panoramas', VERSION, options.panorama.nadir, *sizes])}.npz"

    def make(target: Path) -> None:
        result = _reconstruct(sources, options.panorama.nadir, options.on_progress)
        np.savez(target / name, allow_pickle=False, **result)

    cache = CaptureCache(path, options.cache_dir)
    result = cache.result("", lambda stored: _load(stored / name, len(sources)), make, names=[name])
    poses = dict(zip(result["rows"].tolist(), result["world_to_cam"], strict=True))
    for row, source in enumerate(sources):
        source.world_to_cam = poses.get(row)  # type: ignore[assignment]
    missing = [source.name for row, source in enumerate(sources) if row not in poses]
    contents = CaptureContents(
        "panoramas (structure from motion)",
        [source for row, source in enumerate(sources) if row in poses],
        points=Points(result["xyz"], result["rgb"]),
        reprojection_error=float(result["error"]) if np.isfinite(result["error"]) else None,
        used_files=set(files),
    )
    if missing:
        shown = ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
        problem = f"{folder}: {len(poses)} of {len(files)} panoramas could be placed; not these: {shown}."
        if len(poses) < max(MIN_PANORAMAS, MIN_PLACED_FRACTION * len(files)):
            raise CaptureError(problem, ADVICE)
        contents.warnings.append(f"{problem} {ADVICE}")
    return contents


def _load(file: Path, count: int) -> dict[str, np.ndarray]:
    """A cached result; raises ValueError or KeyError where it is not one of this number of panoramas."""
    stored = load_arrays(file)
    rows, poses, xyz, rgb = (stored[name] for name in ("rows", "world_to_cam", "xyz", "rgb"))
    if (
        rows.dtype != np.int64
        or poses.shape != (len(rows), 4, 4)
        or (xyz.shape, xyz.dtype, rgb.dtype) != ((len(xyz), 3), np.float32, np.uint8)
        or rgb.shape != xyz.shape
        or stored["error"].shape != ()
        or not np.isfinite(poses).all()
        or not np.isin(rows, np.arange(count)).all()
    ):
        raise ValueError(f"{file} does not hold the poses of these panoramas")
    return stored


def _reconstruct(
    sources: Sequence[SourceImage], nadir: float, on_progress: Progress
) -> dict[str, np.ndarray]:
    """Rows of the panoramas that were placed, their poses, points, and the mean reprojection error in pixels."""
    features.require_pycolmap()
    directions = turns(VIEWS, 0.0)
    with scratch_folder(user_cache()) as work:
        images, masks = work / "images", work / "masks"
        for slot in range(VIEWS):
            (images / str(slot)).mkdir(parents=True)
            (masks / str(slot)).mkdir(parents=True)
        sizes = {}
        for row, source in enumerate(sources):
            targets = [images / f"{slot}/{row:06d}.png" for slot in range(VIEWS)]
            sizes[row] = _write_views(source, nadir, directions, targets, masks)
            on_progress("cutting panoramas", (row + 1) / len(sources))
        if len(set(sizes.values())) > 1:
            raise CaptureError(
                f"{sources[0].path.parent}: the panoramas have different sizes.",
                "Keep panoramas of one camera and one size in a folder.",
            )
        side, focal = sizes[0]
        return run_task(
            "map_panoramas",
            work,
            on_progress,
            capture=str(sources[0].path.parent),
            count=len(sources),
            side=side,
            focal=focal,
            directions=np.stack(directions),
        )


def _write_views(
    source: SourceImage, nadir: float, directions: Sequence[np.ndarray], targets: Sequence[Path], masks: Path
) -> tuple[int, float]:
    """Writes the views of a panorama and their masks; returns their size and focal length in pixels."""
    stored = decode(source.path, oriented=source.oriented)
    keep = stored[..., 3] if stored.shape[-1] == 4 else None
    if source.mask is not None:
        keep = read_mask(source.mask, stored.shape[1], stored.shape[0])
    side, focal = view_size(stored.shape[1], FOV)
    if side > SIZE:
        side, focal = SIZE, 0.5 * SIZE / float(np.tan(np.radians(0.5 * FOV)))
    for turn, target in zip(directions, targets, strict=True):
        Image.fromarray(small_view(stored[..., :3], turn, side, focal)).save(target, compress_level=1)
        retained = above(turn, focal, side, nadir)
        if keep is not None:
            cut = small_view(keep, turn, side, focal)
            retained = cut if retained is None else np.minimum(cut, retained)
        if retained is not None:
            Image.fromarray(retained).save(
                masks / target.parent.name / f"{target.name}.png", compress_level=1
            )
    return side, focal
