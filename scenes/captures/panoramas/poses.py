"""Structure from motion of panoramas: small views of each form a rigid rig with one centre, whose pose is estimated."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from luxel.render.camera import Points
from luxel.scenes.captures import features
from luxel.scenes.captures.capture_format import Progress, ReadOptions
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.images import ImageHeader, decode, for_each, read_header
from luxel.scenes.captures.lens import Lens
from luxel.scenes.captures.masks import find_masks, read_mask
from luxel.scenes.captures.panoramas.cutting import above, small_view, view_size
from luxel.scenes.captures.panoramas.layout import turns
from luxel.scenes.captures.poses.pairs import pairs_in_order
from luxel.scenes.errors import CaptureError

VERSION = 1  # increased when a change of this file invalidates cached results
MIN_PANORAMAS = 3
MIN_PLACED_FRACTION = 0.5
VIEWS, FOV, SIZE = 6, 90.0, 1024  # of the rig: views, degrees, most pixels of a side
FEATURES = 2048  # maximum per view
ADVICE = "Take panoramas a step or two apart, in good light, and more of them where the place is narrow."


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
    key = features.content_key(["panoramas", VERSION, options.panorama.nadir, *sizes])
    cache = features.cache_folder(path, options.cache_dir)
    kept = cache / f"panoramas-{key}.npz"
    result = _load(kept)
    if result is None:
        result = _reconstruct(sources, options.panorama.nadir, cache, options.on_progress)
        with features.scratch_folder(cache) as work:
            np.savez(work / "kept.npz", allow_pickle=False, **result)
            (work / "kept.npz").replace(kept)
    poses = dict(zip(result["rows"].tolist(), result["world_to_cam"], strict=True))
    for row, source in enumerate(sources):
        source.world_to_cam = poses.get(row)  # type: ignore[assignment]
    missing = [source.name for row, source in enumerate(sources) if row not in poses]
    contents = CaptureContents(
        "panoramas (structure from motion)",
        [source for row, source in enumerate(sources) if row in poses],
        points=Points(result["xyz"], result["rgb"]),
        reprojection_error=float(result["error"]) if np.isfinite(result["error"]) else None,
    )
    if missing:
        shown = ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
        problem = f"{folder}: {len(poses)} of {len(files)} panoramas could be placed; not these: {shown}."
        if len(poses) < max(MIN_PANORAMAS, MIN_PLACED_FRACTION * len(files)):
            raise CaptureError(problem, ADVICE)
        contents.warnings.append(f"{problem} {ADVICE}")
    return contents


def _load(kept: Path) -> dict[str, np.ndarray] | None:
    """A cached result; None: there is none, or it cannot be read."""
    try:
        with np.load(kept, allow_pickle=False) as stored:
            return {name: stored[name] for name in ("rows", "world_to_cam", "xyz", "rgb", "error")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _reconstruct(
    sources: Sequence[SourceImage], nadir: float, cache: Path, on_progress: Progress
) -> dict[str, np.ndarray]:
    """Rows of the panoramas that were placed, their poses, points, and the mean reprojection error in pixels."""
    pycolmap = features.import_pycolmap()
    pycolmap.set_random_seed(features.SEED)
    directions = turns(VIEWS, 0.0)
    with features.scratch_folder(cache) as work, features.quiet(pycolmap):
        images, masks, database = work / "images", work / "masks", work / "database.db"
        names = [[f"{slot}/{row:06d}.png" for row in range(len(sources))] for slot in range(VIEWS)]
        for slot in range(VIEWS):
            (images / str(slot)).mkdir(parents=True)
            (masks / str(slot)).mkdir(parents=True)
        sizes = {}
        for row, source in enumerate(sources):
            sizes[row] = _write_views(source, nadir, directions, [images / n[row] for n in names], masks)
            on_progress("cutting panoramas", (row + 1) / len(sources))
        if len(set(sizes.values())) > 1:
            raise CaptureError(
                f"{sources[0].path.parent}: the panoramas have different sizes.",
                "Keep panoramas of one camera and one size in a folder.",
            )
        for slot in range(VIEWS):
            _extract(pycolmap, database, images, names[slot], masks, sizes[0])
            on_progress("finding features", (slot + 1) / VIEWS)
        _make_rig(pycolmap, database, directions)
        rows = [f"{row:06d}" for row in range(len(sources))]
        pairs = [
            (f"{a}/{rows[first]}.png", f"{b}/{rows[second]}.png")
            for first, second in pairs_in_order(len(rows))
            for a in range(VIEWS)
            for b in range(VIEWS)
        ]
        features.match(pycolmap, database, pairs, lambda share: on_progress("matching panoramas", share))
        best = _map(pycolmap, database, images, work, len(sources), on_progress)
        if best is None:
            raise CaptureError(
                f"{sources[0].path.parent}: structure from motion has no initial pair among {len(sources)} panoramas.",
                ADVICE,
            )
        return _result(best)


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
        kept = above(turn, focal, side, nadir)
        if keep is not None:
            cut = small_view(keep, turn, side, focal)
            kept = cut if kept is None else np.minimum(cut, kept)
        if kept is not None:
            Image.fromarray(kept).save(masks / target.parent.name / f"{target.name}.png", compress_level=1)
    return side, focal


def _extract(
    pycolmap: Any, database: Path, images: Path, names: Sequence[str], masks: Path, size: tuple[int, float]
) -> None:
    """Extracts features of one view of all panoramas, which share a camera with known intrinsics."""
    side, focal = size
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = "SIMPLE_PINHOLE"
    reader.camera_params = f"{focal:.17g},{0.5 * side:.17g},{0.5 * side:.17g}"
    if any(masks.glob("*/*.png")):
        reader.mask_path = str(masks)
    options = pycolmap.FeatureExtractionOptions()
    options.max_image_size = SIZE
    options.sift.max_num_features = FEATURES
    mode = pycolmap.CameraMode.SINGLE
    pycolmap.extract_features(
        str(database), str(images), list(names), mode, reader_options=reader, extraction_options=options
    )


def _make_rig(pycolmap: Any, database: Path, directions: Sequence[np.ndarray]) -> None:
    """Joins the views of each panorama to a frame of a rig, whose axes are those of the panorama."""
    cameras = []
    for slot, turn in enumerate(directions):
        camera = pycolmap.RigConfigCamera()
        camera.image_prefix = f"{slot}/"
        camera.ref_sensor = slot == 0
        if slot:
            camera.cam_from_rig = pycolmap.Rigid3d(np.c_[turn.T, np.zeros(3)])
        cameras.append(camera)
    rig = pycolmap.RigConfig()
    rig.cameras = cameras
    with pycolmap.Database.open(str(database)) as opened:
        pycolmap.apply_rig_config([rig], opened)


def _map(
    pycolmap: Any, database: Path, images: Path, work: Path, count: int, on_progress: Progress
) -> Any | None:
    """The largest model of incremental mapping with fixed intrinsics and a fixed rig; None: there is none."""
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = features.SEED
    options.mapper.random_seed = features.SEED
    options.triangulation.random_seed = features.SEED
    options.ba_refine_focal_length = False
    options.ba_refine_principal_point = False
    options.ba_refine_extra_params = False
    options.ba_refine_sensor_from_rig = False
    options.min_model_size = MIN_PANORAMAS
    options.num_threads = os.cpu_count() or 1
    placed = [0]

    def advance() -> None:
        placed[0] += 1
        on_progress("placing panoramas", min(1.0, placed[0] / count))

    out = work / "models"
    out.mkdir()
    models = pycolmap.incremental_mapping(
        str(database), str(images), str(out), options, next_image_callback=advance
    )
    return max(models.values(), key=_frame_count, default=None)


def _frame_count(model: Any) -> int:
    return model.num_reg_frames()


def _result(model: Any) -> dict[str, np.ndarray]:
    rows, poses = [], []
    for number in model.reg_frame_ids():
        frame = model.frames[number]
        first = model.images[next(iter(frame.image_ids)).id]
        pose = np.eye(4)
        pose[:3] = frame.rig_from_world.matrix()
        rows.append(int(Path(first.name).stem))
        poses.append(pose)
    points = list(model.points3D.values())
    return {
        "rows": np.array(rows, np.int64),
        "world_to_cam": np.array(poses, np.float64).reshape(-1, 4, 4),
        "xyz": np.array([point.xyz for point in points], np.float32).reshape(-1, 3),
        "rgb": np.array([point.color for point in points], np.uint8).reshape(-1, 3),
        "error": np.array(model.compute_mean_reprojection_error()),
    }
