"""Structure from motion: camera poses, lens and points of photographs, estimated by pycolmap."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from luxel.scenes.captures import features
from luxel.scenes.captures.capture_format import Progress
from luxel.scenes.captures.colmap import read_colmap
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.features import import_pycolmap
from luxel.scenes.captures.images import ORIENTATION_TAG, ImageHeader, decode, for_each, read_header
from luxel.scenes.captures.lens import Lens
from luxel.scenes.captures.masks import find_masks, read_mask
from luxel.scenes.errors import CaptureError

VERSION = 1  # increased when a change of this file invalidates cached results
MIN_PHOTOGRAPHS = 3
MIN_PLACED_FRACTION = 0.5
ADVICE = (
    "Photographs must be sharp, overlap by two thirds with their neighbours, and be taken from different places, not "
    "by turning on the spot. Add photographs between these and the others, or remove them."
)


def estimate_poses(
    path: Path,
    folder: Path,
    *,
    cache_dir: str | Path | None = None,
    use_masks: bool = True,
    on_progress: Progress,
) -> CaptureContents:
    """Poses, lens and points of a folder of photographs, computed once and cached.

    The cache key depends on the names and sizes of images and masks, and on the options. Where several disconnected
    models result, the largest is used.

    Args:
        path: the capture's folder, where ``masks`` may be.
        folder: the folder of the photographs.
        cache_dir: see ``features.cache_folder``.
        use_masks: whether features outside the masks are dropped.
        on_progress: called with (stage, fraction done in [0, 1]).

    Raises:
        CaptureError: fewer than 3 photographs, or fewer than half of them (or 3) could be placed.
    """
    files = image_files(folder)
    if len(files) < MIN_PHOTOGRAPHS:
        raise CaptureError(
            f"{folder}: {len(files)} photographs are too few, at least {MIN_PHOTOGRAPHS} are needed.",
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
    sizes = [(p.name, p.path.stat().st_size, p.mask.stat().st_size if p.mask else 0) for p in sources]
    key = features.content_key(
        ["sfm", VERSION, features.FEATURES, features.FEATURE_IMAGE_SIZE, features.EXHAUSTIVE_UP_TO, *sizes]
    )
    cache = features.cache_folder(path, cache_dir)
    model = cache / f"sfm-{key}"
    if not (model / "images.bin").is_file():
        _reconstruct(sources, [headers[i] for i in range(len(files))], cache, model, on_progress)
    contents = read_colmap(folder, images=folder, model=model, oriented=True)
    contents.format = "photographs (structure from motion)"
    _check_placed(folder, files, contents)
    return contents


def _check_placed(folder: Path, files: Sequence[Path], contents: CaptureContents) -> None:
    """Refuses a model in which too few photographs have a pose; warns of those that have none."""
    placed = {source.name for source in contents.images}
    missing = [file.name for file in files if file.name not in placed]
    if not missing:
        return
    shown = ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
    problem = f"{folder}: {len(placed)} of {len(files)} photographs could be placed; not these: {shown}."
    if len(placed) < max(MIN_PHOTOGRAPHS, MIN_PLACED_FRACTION * len(files)):
        raise CaptureError(problem, ADVICE)
    contents.warnings.append(f"{problem} {ADVICE}")


def _reconstruct(
    sources: list[SourceImage], headers: list[ImageHeader], cache: Path, model: Path, on_progress: Progress
) -> None:
    """Runs feature extraction, matching and mapping, and writes a binary COLMAP model to ``model``."""
    pycolmap = import_pycolmap()
    pycolmap.set_random_seed(features.SEED)
    with features.scratch_folder(cache) as work, features.quiet(pycolmap):
        images, masks = work / "images", work / "masks"
        images.mkdir()
        masks.mkdir()
        # COLMAP splits its list of pairs at blanks, so files have plain names here.
        names = [f"{i:06d}{source.path.suffix.lower()}" for i, source in enumerate(sources)]
        for_each(lambda i: _prepare(sources[i], headers[i], images / names[i], masks), len(sources))
        database = work / "database.db"
        one_size = len({(source.lens.width, source.lens.height) for source in sources}) == 1
        # Four distortion coefficients are well determined only by many photographs of one lens.
        lens_model = "OPENCV" if one_size and len(sources) >= 15 else "SIMPLE_RADIAL"
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
        best = _map(pycolmap, database, images, work, len(sources), on_progress)
        if best is None:
            raise CaptureError(
                f"{sources[0].path.parent}: structure from motion has no initial pair of photographs "
                f"among {len(sources)} ({sources[0].name} ... {sources[-1].name}).",
                ADVICE,
            )
        if one_size and best.num_reg_images() >= 15:
            best = _with_principal_point(pycolmap, best)
        for image in best.images.values():
            image.name = sources[names.index(image.name)].name
        finished = work / "finished"
        finished.mkdir()
        best.write_binary(str(finished))
        shutil.rmtree(model, ignore_errors=True)
        finished.replace(model)


def _prepare(source: SourceImage, header: ImageHeader, target: Path, masks: Path) -> None:
    """Writes an upright, opaque image to ``target``, and its mask under the name that COLMAP expects."""
    if header.orientation == 1 and not header.has_alpha:
        decode(source.path)  # raises for a truncated file, which COLMAP would silently leave out
        try:
            target.symlink_to(source.path.resolve())
        except OSError:
            shutil.copyfile(source.path, target)
    else:
        pixels = decode(source.path, oriented=True)
        image = Image.fromarray(pixels[..., :3])
        with Image.open(source.path) as original:
            exif = original.getexif()  # COLMAP reads the focal length from it
        exif[ORIENTATION_TAG] = 1
        jpeg = target.suffix.lower() in (".jpg", ".jpeg")
        options: dict[str, Any] = {"quality": 97, "subsampling": 0} if jpeg else {}
        image.save(target, exif=exif.tobytes(), **options)
        if pixels.shape[-1] == 4 and source.mask is None:
            Image.fromarray(pixels[..., 3]).save(masks / f"{target.name}.png", compress_level=1)
    if source.mask is not None:
        mask = read_mask(source.mask, source.lens.width, source.lens.height)
        Image.fromarray(mask).save(masks / f"{target.name}.png", compress_level=1)


def _map(
    pycolmap: Any, database: Path, images: Path, work: Path, count: int, on_progress: Progress
) -> Any | None:
    """The largest model of incremental mapping; repeated with looser thresholds where too few images are placed."""
    best = None
    for attempt, loose in enumerate((False, True)):
        options = pycolmap.IncrementalPipelineOptions()
        options.random_seed = features.SEED
        options.mapper.random_seed = features.SEED
        options.triangulation.random_seed = features.SEED
        options.min_model_size = min(10, max(MIN_PHOTOGRAPHS, count // 3))
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
        largest = max(models.values(), key=lambda m: m.num_reg_images(), default=None)
        if largest is not None and (best is None or largest.num_reg_images() > best.num_reg_images()):
            best = largest
        if best is not None and best.num_reg_images() >= MIN_PLACED_FRACTION * count:
            break
    return best


def _with_principal_point(pycolmap: Any, model: Any) -> Any:
    """Repeats bundle adjustment with a free principal point; keeps the result where it stays near the centre."""
    trial = pycolmap.Reconstruction(model)
    options = pycolmap.BundleAdjustmentOptions()
    options.refine_principal_point = True
    options.print_summary = False
    config = pycolmap.BundleAdjustmentConfig()
    for image in trial.reg_image_ids():
        config.add_image(image)
    config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    # pycolmap.bundle_adjustment logs to the terminal at every log level.
    pycolmap.create_default_bundle_adjuster(options, config, trial).solve()
    trial.update_point_3d_errors()
    for key, camera in trial.cameras.items():
        before = model.cameras[key]
        off = [abs(camera.params[2] / camera.width - 0.5), abs(camera.params[3] / camera.height - 0.5)]
        if not (max(off) < 0.06 and 0.9 < camera.params[0] / before.params[0] < 1.1):
            return model
    return trial
