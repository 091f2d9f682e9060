"""`open`: detects the format of a capture, reads and checks it, and returns posed views, points and a split."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from luxel.render.geometry.camera import Points, View
from luxel.render.storage.reading import is_lack_of_memory
from luxel.scenes.captures.capture_format import Progress, ReadOptions, ignore_progress
from luxel.scenes.captures.contents import CaptureContents, SourceImage, natural_key, shorten_names
from luxel.scenes.captures.depth.depth_maps import (
    DEPTH_VALUES,
    DepthReader,
    depth_readers,
    find_depths,
    points_from_depth,
)
from luxel.scenes.captures.exposure_data import relative_stops
from luxel.scenes.captures.far_cameras import find_far, leave_out_far
from luxel.scenes.captures.images.counted_pixels import without_counted_pixels
from luxel.scenes.captures.images.images import (
    ImageReader,
    check_images,
    fits_in_memory,
    for_each,
    set_image_circles,
    target_lens,
    target_size,
    undistorted_reader,
)
from luxel.scenes.captures.images.mask_files import mask_folders
from luxel.scenes.captures.images.masks import are_cutouts, find_masks, have_transparency, mask_of
from luxel.scenes.captures.initial_points.origins import OF_CAPTURE, OF_DEPTH, POINT_USES, RANDOM
from luxel.scenes.captures.lenses.stored_lenses import distorted_camera, lens_row
from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.scenes.captures.panoramas.cutting import cut_panoramas
from luxel.scenes.captures.poses.pose_axes import check_points_in_view
from luxel.scenes.captures.registry import detect_format
from luxel.scenes.captures.shift import shift_contents, shift_of
from luxel.scenes.captures.times import begin_at_zero
from luxel.scenes.captures.unused_files import unused_files
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.pixel_limit import set_max_megapixels
from luxel.scenes.files.reading import reading
from luxel.scenes.geometry import estimate_centre, estimate_up, invert_rigid
from luxel.scenes.large_coordinates import shift_in_words
from luxel.scenes.unused import Unused, in_order, unused_lines

MASK_USES = ("auto", "cutout", "ignore", "none")
POSE_USES = ("keep", "refine")
LENS_USES = ("undistort", "keep")
FAR_CAMERA_USES = ("leave out", "keep")
MIN_VIEWS = 3
NEAR_SHARE = 0.0025  # of the extent: what is nearer to a camera is not rendered
MIN_VIEWS_TO_HOLD_OUT = 4


@dataclass
class Capture:
    """A data set that is ready for training, in its own units, and in its own coordinates less ``shift``.

    Args:
        path: the path that was opened.
        name: the folder's name, for display and file names.
        format: name of the capture format.
        train, test: training views and held-out views, each in natural order of their names.
        points: point cloud from which primitives are initialised.
        points_from: origin of the points, one of the constants of `luxel.scenes.captures.initial_points.origins`.
        swept: positions that a plane sweep for initial points found, also where they were too few, [P, 3]; None: there
            was no sweep.
        holdout: the rule by which ``test`` was chosen, in words.
        cutout: whether views have alpha (coverage): an object without background.
        background: colour on which views are composited, RGB in [0, 1], white for cut-outs; None: no preference.
        warnings: sentences for the user.
        up: estimated up direction of the world, unit vector [3]; None: unknown.
        centre: the point that the cameras look at, world coordinates, [3].
        extent: median distance of the cameras from the centre, world units.
        reprojection_error, pose_report: see `luxel.scenes.captures.contents.CaptureContents`.
        exposures: by name of the view, how many stops its image was exposed more than the median of all,
            by EXIF; only views whose images state it.
        depths: by name of the view, what reads its depth map; only views that have one.
        unused: what the capture holds that is not used, most harmful first; ``warnings`` has the first of them.
        shift: what was subtracted from its coordinates, float64 [3]: 0 but for large ones, such as UTM and ECEF, see
            `luxel.scenes.large_coordinates.choose_shift`. All that the capture gives is shifted: the coordinates of the
            files are these plus ``shift``, in float64.
    """

    path: Path
    name: str
    format: str
    train: list[View]
    test: list[View]
    points: Points
    holdout: str
    cutout: bool = False
    background: tuple[float, float, float] | None = None
    warnings: list[str] = field(default_factory=list)
    up: np.ndarray | None = None
    centre: np.ndarray = field(default_factory=lambda: np.zeros(3))
    extent: float = 1.0
    reprojection_error: float | None = None
    pose_report: str = ""
    exposures: dict[str, float] = field(default_factory=dict)
    depths: dict[str, DepthReader] = field(default_factory=dict)
    unused: list[Unused] = field(default_factory=list)
    shift: np.ndarray = field(default_factory=lambda: np.zeros(3))
    points_from: str = OF_CAPTURE
    swept: np.ndarray | None = None

    @property
    def surface_points(self) -> np.ndarray:
        """Positions of the points that lie on surfaces, [P, 3]: none of random ones."""
        return self.points.xyz[: 0 if self.points_from == RANDOM else None]

    @property
    def views(self) -> list[View]:
        """Training and held-out views in natural order of their names."""
        return sorted([*self.train, *self.test], key=lambda view: natural_key(view.name))


def open(
    path: str | Path,
    *,
    holdout_every: int = 8,
    max_size: int | None = None,
    max_megapixels: float | None = None,
    masks: str = "auto",
    cache_dir: str | Path | None = None,
    on_progress: Progress | None = None,
    frames: int | None = None,
    cut_object: bool = False,
    poses: str = "keep",
    panorama: PanoramaOptions | None = None,
    depth_values: str = "z",
    lens: str = "undistort",
    depth_channel: str | None = None,
    shift: Sequence[float] | np.ndarray | None = None,
    far_cameras: str = "leave out",
    points: str = "auto",
    device: torch.device | None = None,
) -> Capture:
    """Opens a capture of any registered format, among them images, videos, COLMAP models and transforms.json.

    Views are sorted by name ("9" before "10"). The views of the data set's own test split are held out; without one,
    every Nth view beginning with the first, where there are at least four views. The views of a panorama, and the
    frames of a camera, are held out together.

    Args:
        path: the capture's folder, its transforms.json, the folder of its COLMAP model, or a video.
        holdout_every: N: hold out every Nth view; 0: none. Ignored where the data set defines a split.
        max_size: maximum of the longer side of images, pixels; larger images are averaged down. None: no limit.
        max_megapixels: images with more pixels are refused before they are decoded; a JPEG file counts at the size to
            which it is decoded for ``max_size``. Holds for all later images of this process. None: as before, at first
            `luxel.scenes.files.pixel_limit.MAX_MEGAPIXELS`.
        masks: "cutout": train only the object inside the masks (or alpha channels); "ignore": pixels outside the masks
            are left out of loss and metrics; "none": masks are not read; "auto": "cutout" or "ignore", see
            ``masks.are_cutouts``.
        cache_dir: folder for results of structure from motion and triangulation. Default: ``.luxel`` in the capture,
            or ~/.cache/luxel where that is not writable.
        on_progress: called with (stage, fraction done in [0, 1]).
        frames: how many frames of a video are used at most; None: two a second, at least 60 and at most 300.
        cut_object: of images and videos whose poses are estimated, masks the object in the middle before, and
            cuts it out: for turntables, where the object moves and all else stays.
        poses: of captures that have poses, "keep": as they are; "refine": by bundle adjustment over matched features.
        panorama: how panoramas of 360 by 180 degrees are recognised and cut into views; None: the defaults.
        depth_values: what depth maps hold. "z": distances along the camera's z axis; "ray": from its centre; "inverse":
            inverse z, as networks estimate it.
        lens: of images with a fisheye or a distorted lens, "undistort": to pinhole cameras; "keep": as they are,
            with cameras that have the lens. Pixels beyond the limit of the lens, or outside of the image circle of a
            fisheye, then have weight 0, and depth maps are not used.
        shift: what is subtracted from the coordinates, [3]; None: it is chosen, see `Capture`.
        far_cameras: "leave out": images from which the scene covers less than 8 pixels, as their cameras lie far from
            all others; "keep": nothing is left out, and far cameras count for the extent.
        points: how initial points of captures with poses but without points and depth maps are found; "sweep": by a
            plane sweep over small images, "random": at random in the cameras' views, of cut-outs in the visual hull,
            "triangulate": by features and triangulation with pycolmap, in minutes and cached, "auto": random ones of
            cut-outs, and a plane sweep of others. Where points are too few, random ones are added.
        device: of the plane sweep; None: `luxel.render.native.best_device`.

    Raises:
        CaptureError: the capture cannot be used; the message names the file and the remedy.
    """
    if masks not in MASK_USES:
        raise CaptureError(f"masks={masks!r} is invalid.", f"Choose one of {', '.join(MASK_USES)}.")
    if max_size is not None and max_size < 1:
        raise CaptureError(f"max_size={max_size} is invalid.", "Give a positive number of pixels.")
    if poses not in POSE_USES:
        raise CaptureError(f"poses={poses!r} is invalid.", f"Choose one of {', '.join(POSE_USES)}.")
    if depth_values not in DEPTH_VALUES:
        raise CaptureError(
            f"depth_values={depth_values!r} is invalid.", f"Choose one of {', '.join(DEPTH_VALUES)}."
        )
    if lens not in LENS_USES:
        raise CaptureError(f"lens={lens!r} is invalid.", f"Choose one of {', '.join(LENS_USES)}.")
    if far_cameras not in FAR_CAMERA_USES:
        raise CaptureError(
            f"far_cameras={far_cameras!r} is invalid.", f"Choose one of {', '.join(FAR_CAMERA_USES)}."
        )
    if points not in POINT_USES:
        raise CaptureError(f"points={points!r} is invalid.", f"Choose one of {', '.join(POINT_USES)}.")
    mask_use = "cutout" if cut_object and masks == "auto" else masks
    set_max_megapixels(max_megapixels)
    progress = on_progress or ignore_progress
    path = Path(path)
    with reading(path, "a path", "Write out the path of your home folder."):
        path = path.expanduser()
    contents = read_contents(
        path,
        ReadOptions(mask_use, cache_dir, progress, frames, cut_object, panorama or PanoramaOptions()),
    )
    contents.images.sort(key=lambda source: natural_key(source.name))
    begin_at_zero(contents.images, contents.warnings)
    if far_cameras == "leave out" and len(contents.images) > MIN_VIEWS:
        leave_out_far(contents)
    subtracted = np.zeros(3) if shift is None else np.array(shift, float)
    if shift is None and contents.images:
        subtracted = shift_of(contents)
    shift_contents(contents, subtracted)
    if subtracted.any():
        contents.warnings.append(shift_in_words(subtracted))
    if len(contents.images) < MIN_VIEWS:
        raise CaptureError(
            f"{path}: {len(contents.images)} posed views are too few, at least {MIN_VIEWS} are needed.",
            "Take more photographs.",
        )
    check_points_in_view(path, contents)
    root = path if path.is_dir() else path.parent
    use = _mask_use(root, contents, mask_use)
    readers = _readers(contents, use, max_size, progress, retain_lens=lens == "keep")
    empty = without_counted_pixels(root, contents, readers)
    if lens == "keep" and not any(source.lens.distorted for source in contents.images):
        contents.warnings.append("The images have no lens distortion, so lens='keep' has no effect.")
    straight = {name: undistorted_reader(reader) for name, reader in readers.items()}
    if contents.pose_report:
        if poses == "refine":
            contents.warnings.append("The poses were estimated just now, so poses='refine' has no effect.")
    else:
        if cut_object:
            contents.warnings.append(
                "The capture has poses, so the object in the middle is not masked for them."
            )
        if poses == "refine":
            _refine(root, contents, straight, max_size, cache_dir, progress)
    cam_to_world = np.stack([invert_rigid(source.world_to_cam) for source in contents.images])
    find_depths(root, contents.images)
    depths = depth_readers(contents.images, max_size, depth_values, depth_channel)
    source, swept = OF_CAPTURE, None
    if contents.points is not None and points != "auto":
        contents.warnings.append(f"The capture has points, so points={points!r} has no effect.")
    if contents.points is None:
        from luxel.scenes.captures.initial_points.choice import initial_points

        held, usable = contents.test_names or (), contents.triangulated_names
        known = [s for s in contents.images if s.name not in held and (usable is None or s.name in usable)]
        views = [view_of(source, straight[source.name], source.name, max_size) for source in known]
        metric = {} if depth_values == "inverse" else depths
        contents.points, source = points_from_depth(views, metric, contents.warnings), OF_DEPTH
        if contents.points is None:
            posed = [(view.camera, straight[view.name]) for view in views]
            contents.points, source, swept = initial_points(
                root,
                posed,
                contents.warnings,
                use=points,
                cache_dir=cache_dir,
                device=device,
                on_progress=progress,
            )
    train, test, rule = _split(contents, holdout_every, readers, max_size, empty)
    if depths and any(readers[name].lens_retained for name in depths):
        contents.warnings.append("Depth maps are not used with lens='keep': they are of undistorted images.")
    names = shorten_names([*contents.images, *contents.left_out])
    far = np.zeros(len(cam_to_world), bool)
    if far_cameras == "leave out":
        far = find_far(cam_to_world, contents.points.xyz).far
    near_poses = cam_to_world[~far]
    centre = estimate_centre(near_poses, contents.points.xyz)
    extent = float(np.median(np.linalg.norm(near_poses[:, :3, 3] - centre, axis=1))) or 1.0
    exposures = _exposures(contents, names)
    distant = {names[source.name] for source, is_far in zip(contents.images, far, strict=True) if is_far}
    train, test = (
        [_finished(view, NEAR_SHARE * extent, exposures, distant) for view in views]
        for views in (train, test)
    )
    unused = in_order([*contents.unused, *unused_files(path, contents)])
    return Capture(
        path=path,
        name=contents.name or root.resolve().name or "capture",
        format=contents.format,
        train=train,
        test=test,
        points=contents.points,
        holdout=rule,
        cutout=use == "cutout",
        background=(1.0, 1.0, 1.0) if use == "cutout" else None,
        warnings=[*contents.warnings, *unused_lines(unused, "luxel inspect --json")],
        up=contents.up if contents.up is not None else estimate_up(near_poses),
        centre=centre,
        extent=extent,
        reprojection_error=contents.reprojection_error,
        pose_report=contents.pose_report,
        exposures=exposures,
        depths={names[name]: reader for name, reader in depths.items() if not readers[name].lens_retained},
        unused=unused,
        shift=subtracted,
        points_from=source,
        swept=swept,
    )


def _refine(
    root: Path,
    contents: CaptureContents,
    readers: dict[str, ImageReader],
    max_size: int | None,
    cache_dir: str | Path | None,
    progress: Progress,
) -> None:
    """Replaces the poses of all images by refined ones."""
    from luxel.scenes.captures.poses.pose_refinement import refined_poses

    sources = contents.images
    posed = [(view_of(s, readers[s.name], s.name, max_size).camera, readers[s.name]) for s in sources]
    poses, contents.pose_report = refined_poses(root, posed, cache_dir=cache_dir, on_progress=progress)
    for source, pose in zip(sources, poses, strict=True):
        source.world_to_cam = pose


def _exposures(contents: CaptureContents, names: dict[str, str]) -> dict[str, float]:
    return relative_stops({names[s.name]: s.exposure for s in contents.images if s.exposure is not None})


def _finished(view: View, near: float, exposures: Mapping[str, float], distant: set[str]) -> View:
    """A view that shows nothing nearer than ``near``, world units, with its exposure in stops; ``distant`` has the
    names of views far from the others."""
    camera, stops = replace(view.camera, near=near), exposures.get(view.name)
    return replace(view, camera=camera, stops=stops, distant=view.name in distant)


def read_contents(path: Path, options: ReadOptions) -> CaptureContents:
    """Detects the format of a capture and reads its files; estimates poses where there are only images.

    Raises:
        CaptureError: the path does not exist, is of no known format, or a file is missing or invalid.
    """
    with reading(path, "a capture", "Copy or export the capture again."):
        path.stat()
        contents = detect_format(path).read(path, options)
        cut_panoramas(path, contents, options)
        return contents


def _mask_use(root: Path, contents: CaptureContents, masks: str) -> str:
    """How alpha channels and masks of the capture are used: "cutout", "ignore" or "none"."""
    sources = contents.images
    if masks == "none":
        contents.used_files |= {source.mask for source in sources if source.mask is not None}
        contents.used_files |= set(mask_folders(root, [source.path for source in sources]))
        for source in sources:
            source.mask = None
        return "none"
    find_masks(root, sources)
    missing = [source.name for source in sources if source.mask is None]
    if len(missing) < len(sources):
        use = masks if masks != "auto" else "cutout" if are_cutouts(sources) else "ignore"
        if missing and use == "cutout":
            raise CaptureError(
                f"{sources[0].path.parent}: {len(missing)} of {len(sources)} images have no mask "
                f"(the first is {missing[0]}).",
                "Add the masks, or open the capture with masks='ignore' or masks='none'.",
            )
        if missing:
            contents.warnings.append(
                f"{len(missing)} of {len(sources)} images have no mask; all of their pixels count."
            )
        return use
    if have_transparency(sources):
        return "cutout" if masks == "auto" else masks
    if masks != "auto":
        contents.warnings.append(f"There are no masks, so masks={masks!r} has no effect.")
    return "none"


def _readers(
    contents: CaptureContents, use: str, max_size: int | None, progress: Progress, *, retain_lens: bool
) -> dict[str, ImageReader]:
    """A reader for each image by name; images are decoded to keep them in memory, or checked where they do not fit."""
    readers = {}
    for source in contents.images:
        width, height = target_size(source.lens, max_size)
        mask = mask_of(source)
        readers[source.name] = ImageReader(
            source.path, source.lens, width, height, source.oriented, mask, use, retain_lens
        )
    ordered = list(readers.values())
    for reader in ordered:  # raises for invalid lenses before any image is decoded
        if reader.lens_retained:
            lens_row(reader.lens, str(reader.path))
        else:
            target_lens(reader.lens, max_size, str(reader.path))
    set_image_circles(ordered)
    if fits_in_memory(ordered) and _cached(ordered, progress):
        return readers
    for reader in ordered:
        reader.keep, reader.cached = False, None
    stage = "checking images (they do not fit into memory)"
    check_images([reader.path for reader in ordered], lambda fraction: progress(stage, fraction))
    return readers


def _cached(readers: Sequence[ImageReader], progress: Progress) -> bool:
    """Decodes all images and keeps them; False: memory ran out meanwhile."""
    try:
        for_each(
            lambda index: readers[index](),
            len(readers),
            lambda fraction: progress("reading images", fraction),
        )
    except Exception as error:
        if not is_lack_of_memory(error):
            raise
        return False
    return True


def view_of(source: SourceImage, reader: ImageReader, name: str, max_size: int | None = None) -> View:
    """The view of an image with the camera of what the reader gives."""
    where = str(source.path)
    lens = target_lens(source.lens, max_size, where, keep=reader.lens_retained)
    camera = distorted_camera(lens, source.world_to_cam, where, reader.circle)
    return View(name, camera, reader, source.time, source.path, frame_interval=source.frame_interval)


def _ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..."""
    endings = {1: "st", 2: "nd", 3: "rd"} if number % 100 not in (11, 12, 13) else {}
    return f"{number}{endings.get(number % 10, 'th')}"


def _split(
    contents: CaptureContents,
    every: int,
    readers: dict[str, ImageReader],
    max_size: int | None,
    left_out: Container[str] = (),
) -> tuple[list[View], list[View], str]:
    """Training and held-out views and the rule; images that are ``left_out`` count for the rule."""
    names = shorten_names([*contents.images, *contents.left_out])
    sources = [source for source in contents.images if source.name not in contents.unused_names]
    counted = sorted([*sources, *contents.left_out], key=lambda source: natural_key(source.name))
    groups = list(dict.fromkeys(source.group or source.name for source in counted))
    if contents.test_names is not None:
        held, rule = contents.test_names, contents.rule
    elif every < 1:
        held, rule = set(), "no views are held out (holdout_every is 0)"
    elif len(groups) < MIN_VIEWS_TO_HOLD_OUT:
        held, rule = set(), f"no views are held out: there are only {len(groups)}"
    elif len(groups) < len(counted):
        chosen = set(groups[::every])
        held = {source.name for source in sources if (source.group or source.name) in chosen}
        rule = f"every {_ordinal(every)} panorama or camera by name, with all of its views"
    else:
        held = {source.name for source in counted[::every]}
        rule = f"every {_ordinal(every)} view by name, beginning with the first"
    views = [
        (source.name in held, view_of(source, readers[source.name], names[source.name], max_size))
        for source in sources
        if source.name not in left_out
    ]
    train = [view for test, view in views if not test]
    test = [view for test, view in views if test]
    if len(train) < MIN_VIEWS - 1:
        raise CaptureError(
            f"Only {len(train)} views are left to train on, {len(test)} are held out.",
            "Hold out fewer (luxel train CAPTURE --holdout-every N), or correct the split of the data set.",
        )
    return train, test, rule
