"""Structure from motion: camera poses, lens and points from nothing but photographs, through pycolmap."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from luxel.scenes.captures import features
from luxel.scenes.captures.colmap import read_colmap
from luxel.scenes.captures.features import Progress, import_pycolmap
from luxel.scenes.captures.images import ORIENTATION_TAG, ImageHeader, decode, for_each, read_header
from luxel.scenes.captures.lens import Lens
from luxel.scenes.captures.masks import find_masks, read_mask
from luxel.scenes.captures.photo import Listing, Photo, image_files
from luxel.scenes.errors import CaptureError

VERSION = 1  # raised when a change of this file makes cached results stale
FEWEST = 3
SHARE_NEEDED = 0.5
WAYS_OUT = (
    "Photographs must overlap by two thirds with their neighbours, be sharp, and show the scene from moving, "
    "not turning, places. Add photographs between these and the others, or remove them."
)


def read_photographs(
    path: Path,
    folder: Path,
    *,
    cache_dir: str | Path | None = None,
    use_masks: bool = True,
    on_progress: Progress,
) -> Listing:
    """Poses, lens and points of a folder of photographs; computed once and cached.

    The result depends on the file names and sizes, the masks and the options. Of several models that do not
    connect, the largest is taken.

    Args:
        path: the capture's folder (where ``masks`` may be).
        folder: the folder of the photographs.
        cache_dir: see ``features.cache_folder``.
        use_masks: whether features outside of masks are dropped.
        on_progress: told (what, share done in 0..1).

    Raises:
        CaptureError: fewer than 3 photographs, or fewer than half of them (or 3) could be placed.
    """
    files = image_files(folder)
    if len(files) < FEWEST:
        raise CaptureError(
            f"{folder}: {len(files)} photographs are too few, at least {FEWEST} are needed.", "Take more."
        )
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(files[i])), len(files))
    photos = []
    for index, file in enumerate(files):
        width, height = headers[index].size(True)
        lens = Lens(width, height, 1.0, 1.0, 0.5 * width, 0.5 * height)
        photos.append(Photo(file.name, file, lens, None, oriented=True))  # type: ignore[arg-type]
    if use_masks:
        find_masks(path, photos)
    sizes = [(p.name, p.path.stat().st_size, p.mask.stat().st_size if p.mask else 0) for p in photos]
    key = features.content_key(
        ["sfm", VERSION, features.FEATURES, features.FEATURE_IMAGE_SIZE, features.EXHAUSTIVE_UP_TO, *sizes]
    )
    cache = features.cache_folder(path, cache_dir)
    model = cache / f"sfm-{key}"
    if not (model / "images.bin").is_file():
        _reconstruct(photos, [headers[i] for i in range(len(files))], cache, model, on_progress)
    listing = read_colmap(folder, images=folder, model=model, oriented=True)
    listing.kind = "photographs (structure from motion)"
    _judge(folder, files, listing)
    return listing


def _judge(folder: Path, files: Sequence[Path], listing: Listing) -> None:
    """Refuses a model of few photographs, warns of those that are missing from it."""
    placed = {photo.name for photo in listing.photos}
    missing = [file.name for file in files if file.name not in placed]
    if not missing:
        return
    shown = ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
    problem = f"{folder}: {len(placed)} of {len(files)} photographs could be placed; not these: {shown}."
    if len(placed) < max(FEWEST, SHARE_NEEDED * len(files)):
        raise CaptureError(problem, WAYS_OUT)
    listing.warnings.append(f"{problem} {WAYS_OUT}")


def _reconstruct(
    photos: list[Photo], headers: list[ImageHeader], cache: Path, model: Path, on_progress: Progress
) -> None:
    """Runs features, matching and mapping, and leaves a binary COLMAP model in ``model``."""
    pycolmap = import_pycolmap()
    pycolmap.set_random_seed(features.SEED)
    with features.scratch_folder(cache) as work, features.quiet(pycolmap):
        images, masks = work / "images", work / "masks"
        images.mkdir()
        masks.mkdir()
        # COLMAP's list of pairs is split at blanks, so files get plain names while it works.
        names = [f"{i:06d}{photo.path.suffix.lower()}" for i, photo in enumerate(photos)]
        for_each(lambda i: _prepare(photos[i], headers[i], images / names[i], masks), len(photos))
        database = work / "database.db"
        one_size = len({(photo.lens.width, photo.lens.height) for photo in photos}) == 1
        # Four coefficients hold on to something only where one lens took many photographs.
        lens_model = "OPENCV" if one_size and len(photos) >= 15 else "SIMPLE_RADIAL"
        mode = pycolmap.CameraMode.SINGLE if one_size else pycolmap.CameraMode.AUTO
        features.extract(
            pycolmap,
            database,
            images,
            names,
            masks=masks if any(masks.iterdir()) else None,
            mode=mode,
            model=lens_model,
            on_progress=lambda share: on_progress("finding features", share),
        )
        pairs = features.pairs_by_order(names)
        features.match(pycolmap, database, pairs, lambda share: on_progress("matching photographs", share))
        best = _map(pycolmap, database, images, work, len(photos), on_progress)
        if best is None:
            raise CaptureError(
                f"{photos[0].path.parent}: structure from motion found no two photographs to begin with "
                f"among {len(photos)} ({photos[0].name} ... {photos[-1].name}).",
                WAYS_OUT,
            )
        if one_size and best.num_reg_images() >= 15:
            best = _with_principal_point(pycolmap, best)
        for image in best.images.values():
            image.name = photos[names.index(image.name)].name
        finished = work / "finished"
        finished.mkdir()
        best.write_binary(str(finished))
        shutil.rmtree(model, ignore_errors=True)
        finished.replace(model)


def _prepare(photo: Photo, header: ImageHeader, target: Path, masks: Path) -> None:
    """Puts an upright, opaque photograph at ``target`` and its mask where COLMAP looks for it."""
    if header.orientation == 1 and not header.has_alpha:
        decode(photo.path)  # a photograph that is cut short is named now, not silently left out
        try:
            target.symlink_to(photo.path.resolve())
        except OSError:
            shutil.copyfile(photo.path, target)
    else:
        pixels = decode(photo.path, oriented=True)
        image = Image.fromarray(pixels[..., :3])
        with Image.open(photo.path) as original:
            exif = original.getexif()  # it tells COLMAP the focal length
        exif[ORIENTATION_TAG] = 1
        jpeg = target.suffix.lower() in (".jpg", ".jpeg")
        options: dict[str, Any] = {"quality": 97, "subsampling": 0} if jpeg else {}
        image.save(target, exif=exif.tobytes(), **options)
        if pixels.shape[-1] == 4 and photo.mask is None:
            Image.fromarray(pixels[..., 3]).save(masks / f"{target.name}.png", compress_level=1)
    if photo.mask is not None:
        mask = read_mask(photo.mask, photo.lens.width, photo.lens.height)
        Image.fromarray(mask).save(masks / f"{target.name}.png", compress_level=1)


def _map(
    pycolmap: Any, database: Path, images: Path, work: Path, count: int, on_progress: Progress
) -> Any | None:
    """The largest model that incremental mapping makes, with looser rules when the usual ones find none."""
    best = None
    for attempt, loose in enumerate((False, True)):
        options = pycolmap.IncrementalPipelineOptions()
        options.random_seed = features.SEED
        options.mapper.random_seed = features.SEED
        options.triangulation.random_seed = features.SEED
        options.min_model_size = min(10, max(FEWEST, count // 3))
        options.num_threads = os.cpu_count() or 1
        if loose:
            options.mapper.init_min_tri_angle = 4.0
            options.mapper.init_min_num_inliers = 40
            options.mapper.abs_pose_min_num_inliers = 15
        placed = [0]

        def advance(placed: list[int] = placed) -> None:
            placed[0] += 1
            on_progress("placing photographs", min(1.0, placed[0] / count))

        out = work / f"models-{attempt}"
        out.mkdir()
        models = pycolmap.incremental_mapping(
            str(database), str(images), str(out), options, next_image_callback=advance
        )
        found = max(models.values(), key=lambda m: m.num_reg_images(), default=None)
        if found is not None and (best is None or found.num_reg_images() > best.num_reg_images()):
            best = found
        if best is not None and best.num_reg_images() >= SHARE_NEEDED * count:
            break
    return best


def _with_principal_point(pycolmap: Any, model: Any) -> Any:
    """The model adjusted once more with the principal point free, if that stays near the centre."""
    trial = pycolmap.Reconstruction(model)
    options = pycolmap.BundleAdjustmentOptions()
    options.refine_principal_point = True
    options.print_summary = False
    config = pycolmap.BundleAdjustmentConfig()
    for image in trial.reg_image_ids():
        config.add_image(image)
    config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    # Not pycolmap.bundle_adjustment: that one logs to the terminal, whatever the log level.
    pycolmap.create_default_bundle_adjuster(options, config, trial).solve()
    trial.update_point_3d_errors()
    for key, camera in trial.cameras.items():
        before = model.cameras[key]
        off = [abs(camera.params[2] / camera.width - 0.5), abs(camera.params[3] / camera.height - 0.5)]
        if not (max(off) < 0.06 and 0.9 < camera.params[0] / before.params[0] < 1.1):
            return model
    return trial
