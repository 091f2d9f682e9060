"""Models out of matches: incremental mapping (Schoenberger and Frahm 2016) and global mapping (Pan et al. 2024)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luxel.scenes.captures.colmap_process import features

if TYPE_CHECKING:
    from luxel.scenes.captures.capture_format import Progress

MIN_MODEL = 3  # images


def map_incrementally(
    pycolmap: Any,
    database: Path,
    images: Path,
    out: Path,
    count: int,
    on_progress: Progress,
    *,
    loose: bool = False,
    start: Any | None = None,
) -> Any | None:
    """The largest model of incremental mapping; None: there is no pair to begin with.

    Args:
        pycolmap: the module.
        database, images: COLMAP's database and the folder of the images.
        out: a folder for the models, emptied before.
        count: number of all images.
        on_progress: called with (stage, fraction done in [0, 1]).
        loose: thresholds for images with little overlap.
        start: a model to go on with, which stays as it is.
    """
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = features.SEED
    options.mapper.random_seed = features.SEED
    options.triangulation.random_seed = features.SEED
    options.min_model_size = min(10, max(MIN_MODEL, count // 3))
    options.num_threads = os.cpu_count() or 1
    if loose:
        options.mapper.init_min_tri_angle = 4.0
        options.mapper.init_min_num_inliers = 40
        options.mapper.abs_pose_min_num_inliers = 15
    placed = [0]

    def advance() -> None:
        placed[0] += 1
        on_progress("placing images", min(1.0, placed[0] / count))

    _emptied(out)
    given = ""
    if start is not None:
        options.multiple_models = False
        given = str(out / "start")
        _emptied(out / "start")
        start.write_binary(given)
    models = pycolmap.incremental_mapping(
        str(database), str(images), str(out), options, given, next_image_callback=advance
    )
    return _largest(models)


def map_globally(
    pycolmap: Any, database: Path, images: Path, out: Path, on_progress: Progress, cameras: Sequence[Any] = ()
) -> Any | None:
    """The largest model of global mapping; None: there is none.

    Args:
        pycolmap: the module.
        database, images: COLMAP's database, which stays as it is, and the folder of the images.
        out: a folder for the models, emptied before.
        on_progress: called with (stage, fraction done in [0, 1]).
        cameras: lenses that are known from another model; the others are estimated from the pairs.
    """
    on_progress("placing images together", 0.0)
    _emptied(out)
    copied = out / "database.db"
    copy_database(database, copied)
    with pycolmap.Database.open(str(copied)) as opened:
        for camera in cameras:
            camera.has_prior_focal_length = True
            opened.update_camera(camera)
        known = all(camera.has_prior_focal_length for camera in opened.read_all_cameras())
    options = pycolmap.GlobalPipelineOptions()
    options.random_seed = features.SEED
    options.num_threads = os.cpu_count() or 1
    options.mapper.random_seed = features.SEED
    options.mapper.rotation_averaging.random_seed = features.SEED
    options.mapper.global_positioning.random_seed = features.SEED
    options.mapper.retriangulation.random_seed = features.SEED
    try:
        if not known:
            calibration = pycolmap.ViewGraphCalibrationOptions()
            calibration.random_seed = features.SEED
            pycolmap.calibrate_view_graph(str(copied), calibration)
        models = pycolmap.global_mapping(str(copied), str(images), str(out), options)
    except (RuntimeError, ValueError):  # COLMAP's checks of a graph without usable pairs
        return None
    finally:
        copied.unlink(missing_ok=True)
    return _largest(models)


def stored_models(pycolmap: Any, out: Path) -> list[Any]:
    """All models that a mapping has written into its folder."""
    return [pycolmap.Reconstruction(str(path)) for path in sorted(out.iterdir()) if path.is_dir()]


def without_pairs(pycolmap: Any, database: Path, target: Path, pairs: Sequence[tuple[int, int]]) -> None:
    """Copies a database without the verified matches of some pairs of image ids."""
    target.unlink(missing_ok=True)
    copy_database(database, target)
    with pycolmap.Database.open(str(target)) as opened:
        for first, second in pairs:
            opened.delete_two_view_geometry(int(first), int(second))


def verify(pycolmap: Any, database: Path, least: int | None = None) -> None:
    """Verifies all pairs of a database geometrically.

    Args:
        least: matches that must agree with the geometry of a pair; None: as many as COLMAP demands.
    """
    options = pycolmap.TwoViewGeometryOptions()
    if least is not None:
        options.min_num_inliers = least
    options.ransac.random_seed = features.SEED
    pycolmap.geometric_verification(str(database), two_view_geometry_options=options)


def copy_database(database: Path, target: Path) -> None:
    """Copies a database with what is still in its write-ahead log."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(target)) as copied:
        source.backup(copied)


def _largest(models: dict[int, Any]) -> Any | None:
    best = max(models.values(), key=lambda model: model.num_reg_images(), default=None)
    return best if best is not None and best.num_reg_images() >= MIN_MODEL else None


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
