"""Structure from motion: camera poses, lens and points of images, estimated by COLMAP in a process of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from luxel.render.storage.descriptors import open_regular
from luxel.scenes.captures.caching.capture_cache import CaptureCache, content_key
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.colmap_process.launch import run_task
from luxel.scenes.captures.colmap_process.pairs import EXHAUSTIVE_UP_TO
from luxel.scenes.captures.colmap_process.reconstruction import (
    ADVICE,
    FINISHED,
    MIN_PLACED_FRACTION,
    REPORT,
)
from luxel.scenes.captures.colmap_process.score import PoseReport
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.formats.colmap import read_colmap
from luxel.scenes.captures.images.images import ImageHeader, for_each, read_header
from luxel.scenes.captures.images.masks import find_masks
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.object_masks import mask_object
from luxel.scenes.captures.poses.workspace import Workspace, working_folder
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes

VERSION = 7  # increased when a change of what estimates poses invalidates cached results
MIN_SFM_IMAGES = 3
MODEL_FILES = (
    "cameras.bin",
    "images.bin",
    "points3D.bin",
    "rigs.bin",
    "frames.bin",
)  # rigs and frames may be missing


def estimate_poses(
    path: Path,
    folder: Path,
    *,
    cache_dir: str | Path | None = None,
    use_masks: bool = True,
    cut_object: bool = False,
    on_progress: Progress,
) -> CaptureContents:
    """Poses, lens and points of a folder of images, computed once and cached.

    Models are made by incremental and by global mapping; the one of the highest `ModelScore.value` is used. An
    interrupted run goes on with the features and matches that it has. The cache key depends on the names and sizes of
    images and masks, and on the options.

    Args:
        path: the capture's folder, where ``masks`` may be.
        folder: the folder of the images.
        cache_dir: see `luxel.scenes.captures.caching.capture_cache.CaptureCache`.
        use_masks: whether features outside the masks are dropped.
        cut_object: gives images without a mask that of the object in their middle, see `object_masks`.
        on_progress: called with (stage, fraction done in [0, 1]).

    Raises:
        CaptureError: fewer than 3 images; no object in their middle; no model; fewer than half of the images
            (or 3) have a pose; the camera only turned on the spot; or the poses contradict the matches.
    """
    files = image_files(folder)
    if len(files) < MIN_SFM_IMAGES:
        raise CaptureError(
            f"{folder}: {len(files)} images are too few, at least {MIN_SFM_IMAGES} are needed.",
            "Take more photographs.",
        )
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(files[i])), len(files))
    sources = []
    for index, file in enumerate(files):
        width, height = headers[index].size(True)
        lens = Lens(width, height, 1.0, 1.0, 0.5 * width, 0.5 * height)
        sources.append(SourceImage(file.name, file, lens, None, oriented=True))  # type: ignore[arg-type]
    if use_masks:
        find_masks(path, sources)
    cache = CaptureCache(path, cache_dir)
    if cut_object:
        mask_object(sources, cache, on_progress)
    sizes = [(p.name, p.path.stat().st_size, p.mask.stat().st_size if p.mask else 0) for p in sources]
    key = content_key(
        ["sfm", VERSION, features.FEATURES, features.FEATURE_IMAGE_SIZE, EXHAUSTIVE_UP_TO, *sizes]
    )

    def make(target: Path) -> None:
        times = [(p.path.stat().st_mtime_ns, p.mask.stat().st_mtime_ns if p.mask else 0) for p in sources]
        with working_folder(folder, content_key([key, *times])) as work:
            space = Workspace(work, sources, [headers[i] for i in range(len(files))])
            _reconstruct(space, folder, target, on_progress)
        _read(target, folder, files)  # poses that are refused are not stored

    contents = cache.result(f"sfm-{key}", lambda model: _read(model, folder, files), make)
    contents.used_files = set(files)
    if cut_object:
        masks = {source.name: source.mask for source in sources}
        for image in contents.images:
            image.mask = masks[image.name]
    return contents


def _read(model: Path, folder: Path, files: Sequence[Path]) -> CaptureContents:
    """A model with its report, and the images of it.

    Raises:
        CaptureError: it is damaged, is not of these images, or cannot be used.
    """
    report = PoseReport.of_json(json.loads(read_bytes(model / REPORT)))
    contents = read_colmap(folder, images=folder, model=model, oriented=True)
    contents.format = "photographs (structure from motion)"
    contents.pose_report = report.headline
    _check_placed(folder, files, contents, report)
    return contents


def _reconstruct(space: Workspace, folder: Path, target: Path, on_progress: Progress) -> None:
    """Runs feature extraction, matching and mapping, and writes a binary COLMAP model with a report to ``target``."""
    features.require_pycolmap()
    space.prepare()
    run_task(
        "reconstruct",
        space.folder,
        on_progress,
        capture=str(folder),
        names=space.names,
        stored_names=[source.name for source in space.sources],
        lenses=space.lenses(),
    )
    for name in (*MODEL_FILES, REPORT):
        finished = space.folder / FINISHED / name
        if finished.exists():
            with open_regular(finished, follow=False) as source, open(target / name, "xb") as copied:
                shutil.copyfileobj(source, copied)


def _check_placed(folder: Path, files: Sequence[Path], contents: CaptureContents, report: PoseReport) -> None:
    """Refuses a model that cannot be used; warns of images without a pose, and of doubtful poses."""
    placed = {source.name for source in contents.images}
    missing = [file.name for file in files if file.name not in placed]
    shown = ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
    problem = f"{folder}: {len(placed)} of {len(files)} images could be placed; not these: {shown}."
    if missing and len(placed) < max(MIN_SFM_IMAGES, MIN_PLACED_FRACTION * len(files)):
        raise CaptureError(problem, ADVICE)
    if report.refusal:
        raise CaptureError(f"{folder}: no poses could be estimated: {report.refusal}.", ADVICE)
    if missing:
        contents.warnings.append(f"{problem} {ADVICE}")
    if report.sure == "doubtful":
        contents.warnings.append(f"{folder}: {report.headline}. {ADVICE}")
