"""Poses of the images of a folder by structure from motion: of panoramas by their views, of others as they are."""

from __future__ import annotations

from pathlib import Path

from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.contents import CaptureContents, image_files
from luxel.scenes.captures.panoramas.recognition import OPTION, have_shape, seem_panoramas
from luxel.scenes.errors import CaptureError

TAKEN = (
    "The images, twice as wide as high, were taken for equirectangular panoramas because their left and right borders "
    "continue each other; if they are none: --panorama.projection perspective."
)
MAYBE = f"If the images, twice as wide as high, are panoramas of 360 degrees: {OPTION}."


def estimated(path: Path, folder: Path, options: ReadOptions, *, panoramas: bool) -> CaptureContents:
    """Poses, intrinsics and points of the images of a folder.

    Args:
        path: the capture, for results in the cache.
        folder: of the images.
        options: of reading; where ``panorama.projection`` is "auto", images without metadata may be recognised.
        panoramas: whether they are known to be.

    Raises:
        CaptureError: too few images could be placed.
    """
    from luxel.scenes.captures.panoramas.poses import estimate_panorama_poses
    from luxel.scenes.captures.poses.sfm import estimate_poses

    files, notes = image_files(folder), list[str]()
    unknown = not panoramas and options.panorama.projection == "auto"
    seeming = unknown and seem_panoramas(files, notes)
    try:
        if panoramas or seeming:
            contents = estimate_panorama_poses(path, folder, options)
        else:
            contents = estimate_poses(
                path,
                folder,
                cache_dir=options.cache_dir,
                use_masks=options.masks != "none",
                cut_object=options.cut_object,
                on_progress=options.on_progress,
            )
    except CaptureError as error:
        if not (unknown and have_shape(files)):
            raise
        raise CaptureError(error.problem, f"{error.remedy} {TAKEN if seeming else MAYBE}") from error
    contents.warnings[:0] = notes
    return contents
