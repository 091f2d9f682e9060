"""What a capture format reads from its files: images with intrinsics and poses, points, and a split."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.scenes.captures.entries import is_file
from luxel.scenes.captures.exposure_data import Exposure
from luxel.scenes.captures.images.companions import companions
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.path_lookup import actual_path, is_absolute, relative_of_absolute
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.exr.channels import SUFFIX as EXR_SUFFIX
from luxel.scenes.files.images.heif import SUFFIXES as HEIF_SUFFIXES
from luxel.scenes.unused import Unused

JPEG_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif")
IMAGE_SUFFIXES = (".png", *JPEG_SUFFIXES, ".webp", ".tif", ".tiff", ".bmp", *HEIF_SUFFIXES, EXR_SUFFIX)


@dataclass
class SourceImage:
    """An image file of a capture with its intrinsics and pose; its pixels are not decoded yet.

    Args:
        name: path within the capture, unique; folders that all images share are cut off later.
        path: the image file.
        lens: intrinsics of the stored image, in pixels, with distortion.
        world_to_cam: rigid transform to OpenCV camera axes, float64 [4, 4].
        time: timestamp, seconds or [0, 1]; 0 for static captures.
        mask: the mask file, where the capture names one.
        oriented: whether the lens is that of the image after its EXIF orientation is applied.
        group: images of one group are trained on or held out together: the views of a panorama, the frames of a
            camera. Empty: the image is alone.
        exposure: from its EXIF data.
        depth: the file of its depth map, where the capture names one.
        depth_scale: capture units of a value of it; None: 0.001 of integers, 1 of floats.
        frame_interval: seconds between frames of the film that it is of; None: unknown.
    """

    name: str
    path: Path
    lens: Lens
    world_to_cam: np.ndarray
    time: float = 0.0
    mask: Path | None = None
    oriented: bool = False
    group: str = ""
    exposure: Exposure | None = None
    depth: Path | None = None
    depth_scale: float | None = None
    frame_interval: float | None = None


@dataclass
class CaptureContents:
    """What a capture format reads.

    Args:
        format: name of the format for display ("COLMAP model", ...).
        images: every posed image, in any order.
        test_names: names of the images of the capture's own test split; None: it defines none.
        unused_names: names of images in neither split.
        points: the point cloud; None: there is none, see `luxel.scenes.captures.initial_points.choice`.
        up: the world's up direction where the format defines it, [3].
        rule: origin of the split in words, where ``test_names`` is given.
        warnings: sentences for the user.
        reprojection_error: mean distance of the points of structure from motion from where they were observed, pixels;
            None: not known.
        name: of the capture; empty: that of its folder.
        pose_report: how sure estimated poses are, a clause; empty: the poses were given.
        triangulated_names: names of the images from which points are found where there are none; None: of all
            but those of the test split.
        used_files: files and folders of the capture that were read, besides images, their masks and depth maps.
        unused: what the capture holds that is not used, found by its format.
        left_out: images that are not used but count where every Nth view is held out.
    """

    format: str
    images: list[SourceImage]
    test_names: set[str] | None = None
    unused_names: set[str] = field(default_factory=set)
    points: Points | None = None
    up: np.ndarray | None = None
    rule: str = ""
    warnings: list[str] = field(default_factory=list)
    name: str = ""
    reprojection_error: float | None = None
    pose_report: str = ""
    triangulated_names: set[str] | None = None
    used_files: set[Path] = field(default_factory=set)
    unused: list[Unused] = field(default_factory=list)
    left_out: list[SourceImage] = field(default_factory=list)


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key of natural order: runs of digits compare as numbers, "view 9" before "view 10"."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p), p) if p.isdecimal() and len(p) < 40 else (1, 0, p) for p in parts)


def inside_capture(folder: Path, given: object, where: str) -> Path:
    """The path ``given`` in a capture's file, resolved against ``folder``.

    An absolute path is that of the file in the capture, also where it was written on another machine: the longest end
    of it that there is in the capture. Names match in any Unicode form, see `luxel.scenes.captures.path_lookup`.

    Raises:
        CaptureError: ``given`` is not a string, is the absolute path of nothing in the folder, or leaves it through
            ``..``; the message begins with ``where``.
    """
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise CaptureError(
            f"{where}: invalid path {given!r}.", "Write the path of a file in the capture, as a string."
        )
    if is_absolute(given):
        relative = relative_of_absolute(folder, given, IMAGE_SUFFIXES)
    else:
        relative = given if (folder / given).exists() else given.replace("\\", "/")
    normal = ".." if relative is None else os.path.normpath(relative)
    if normal == ".." or normal.startswith(("../", "..\\")):
        raise CaptureError(
            f"{where}: the path {given!r} is outside the capture folder {folder}.",
            "Put the file into the folder and write its path relative to it.",
        )
    return actual_path(folder, normal.replace("\\", "/") if os.sep == "\\" else normal)


def image_files(folder: Path) -> list[Path]:
    """Image files directly in a folder, in natural order.

    OpenEXR files only where there are no others, alongside which they are depth and other passes. Files that accompany
    others, such as NAME_masked.jpg, are left out, see `companions`.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if is_image_name(entry.name) and is_file(entry)]
    others = [name for name in names if not name.lower().endswith(EXR_SUFFIX)]
    left_out = companions(folder, others or names)
    return [folder / name for name in sorted(others or names, key=natural_key) if name not in left_out]


def is_image_name(name: str) -> bool:
    """Whether a file is an image by its suffix, and not hidden."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES and not name.startswith(".")


def shorten_names(sources: list[SourceImage]) -> dict[str, str]:
    """Maps each image's name to the name without the folders that all images share."""
    parents = [PurePosixPath(source.name).parent.parts for source in sources]
    shared = 0
    while all(len(p) > shared and p[shared] == parents[0][shared] for p in parents):
        shared += 1
    return {p.name: "/".join(PurePosixPath(p.name).parts[shared:]) for p in sources}
