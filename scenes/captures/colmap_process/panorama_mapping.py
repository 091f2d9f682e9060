"""The task of placing panoramas: small views of each form a rigid rig with one centre, whose pose is estimated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.pairs import pairs_in_order
from luxel.scenes.errors import CaptureError

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress

MIN_PANORAMAS = 3
VIEWS, SIZE = 6, 1024  # of the rig: views, most pixels of a side
FEATURES = 2048  # maximum per view
ADVICE = "Take panoramas a step or two apart, in good light, and more of them where the site is narrow."


def map_panoramas(
    folder: Path,
    on_progress: Progress,
    *,
    capture: str,
    count: int,
    side: int,
    focal: float,
    directions: np.ndarray,
) -> dict[str, np.ndarray]:
    """Rows of the panoramas that were placed, their poses, points, and the mean reprojection error in pixels.

    Args:
        folder: with the folders ``images`` and ``masks``, in them a folder for each view of the rig, in that a file for
            each panorama, named by its row.
        on_progress: called with (stage, fraction done in [0, 1]).
        capture: the path that messages name.
        count: of panoramas.
        side, focal: width and height of a view, and its focal length, pixels.
        directions: rotations from the axes of each view to those of the panorama, [VIEWS, 3, 3].

    Raises:
        CaptureError: pycolmap is missing, or no two panoramas fit together.
    """
    pycolmap = features.import_pycolmap()
    pycolmap.set_random_seed(features.SEED)
    images, masks, database = folder / "images", folder / "masks", folder / "database.db"
    rows = [f"{row:06d}" for row in range(count)]
    with features.quiet(pycolmap):
        for slot in range(VIEWS):
            _extract(pycolmap, database, images, [f"{slot}/{row}.png" for row in rows], masks, (side, focal))
            on_progress("finding features", (slot + 1) / VIEWS)
        _make_rig(pycolmap, database, directions)
        pairs = [
            (f"{a}/{rows[first]}.png", f"{b}/{rows[second]}.png")
            for first, second in pairs_in_order(len(rows))
            for a in range(VIEWS)
            for b in range(VIEWS)
        ]
        features.match(pycolmap, database, pairs, lambda share: on_progress("matching panoramas", share))
        best = _map(pycolmap, database, images, folder, count, on_progress)
        if best is None:
            raise CaptureError(
                f"{capture}: structure from motion has no initial pair among {count} panoramas.", ADVICE
            )
        return _result(best)


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


def _make_rig(pycolmap: Any, database: Path, directions: np.ndarray) -> None:
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
