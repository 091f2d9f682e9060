"""Writing of COLMAP models: cameras.bin, images.bin and points3D.bin, which COLMAP, 3DGS and nerfstudio read.

Source: the description of the output format in COLMAP's documentation.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath

import numpy as np

from luxel.render.geometry.camera import Points
from luxel.render.storage.folder import OutputFolder
from luxel.scenes.captures.contents import SourceImage, natural_key
from luxel.scenes.captures.formats.colmap import MODEL_NUMBERS
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.lenses.lens_models import OPENCV_K4
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import writable
from luxel.scenes.geometry import quaternion_from_rotation

NUMBERS = {name: number for number, (name, _) in enumerate(MODEL_NUMBERS)}
POINT = np.dtype(
    [("id", "<u8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("track", "<u8")], align=False
)


def save_colmap(
    folder: str | Path, images: Sequence[SourceImage], points: Points, *, force: bool = False
) -> list[Path]:
    """Writes a binary model: one camera a lens, images without 2D points, points without tracks.

    The three files get their names together; those of an earlier model that luxel wrote there are replaced.

    Args:
        folder: created if it does not exist.
        images: in any order; their names are relative to the folder of the images.
        points: P points.
        force: replace files of these names that luxel did not write, too.

    Returns:
        Paths of the files.

    Raises:
        CaptureError: a file cannot be written, or COLMAP has no camera model for a lens.
        ForeignFileError: a file of one of the names is not luxel's; nothing was changed.
    """
    images = sorted(images, key=lambda image: natural_key(image.name))
    cameras = {lens: number for number, lens in enumerate(dict.fromkeys(i.lens for i in images), start=1)}
    content = {
        "cameras.bin": _cameras(cameras),
        "images.bin": _images(images, cameras),
        "points3D.bin": _points(points),
    }
    with writable(Path(folder)), OutputFolder(Path(folder), force=force).batch() as batch:
        for name, data in content.items():
            with writable(Path(folder) / name):
                batch.write(name, data)
    return [Path(folder) / name for name in content]


def names_beside_images(images: Sequence[SourceImage], *, relative: bool = False) -> dict[str, str]:
    """The names of images in a model that lies beside the folder of the images, by their names in the capture.

    COLMAP, 3DGS and nerfstudio look for them below images/; names of a transforms.json are relative to the capture.

    Args:
        images: of a capture.
        relative: whether the names are relative to the folder of the images already, unless it is part of them all.

    Returns:
        Names with the suffixes of their files, without the folders up to images/; without one, without all folders that
        the images share.
    """
    folders = [PurePosixPath(image.name).parent.parts for image in images]
    same = takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False))
    shared = [level[0] for level in same]
    cut = shared.index("images") + 1 if "images" in shared else 0 if relative else len(shared)
    names = {}
    for image in images:
        name = PurePosixPath(*PurePosixPath(image.name).parts[cut:])
        if image.path.name == name.name + image.path.suffix:  # Blender writes them without
            name = name.with_name(image.path.name)
        names[image.name] = str(name)
    return names


def _cameras(cameras: dict[Lens, int]) -> bytes:
    parts = [struct.pack("<Q", len(cameras))]
    for lens, number in cameras.items():
        name, values = _parameters(lens)
        parts.append(struct.pack("<iiQQ", number, NUMBERS[name], lens.width, lens.height))
        parts.append(struct.pack(f"<{len(values)}d", *values))
    return b"".join(parts)


def _parameters(lens: Lens) -> tuple[str, list[float]]:
    """The name of the smallest model that has all coefficients of a lens, and its parameters."""
    shape = [lens.fx, lens.fy, lens.cx, lens.cy]
    if lens.model == OPENCV_K4:
        raise CaptureError(
            "COLMAP has no camera model with the coefficient k4 of nerfstudio's OPENCV, which the images have.",
            "Undistort the images beforehand, or calibrate them without k4.",
        )
    if lens.model:
        return lens.model, [*shape, *lens.distortion]
    if lens.fisheye:
        name, coefficients = "OPENCV_FISHEYE", 4
    elif not lens.distorted:
        name, coefficients = "PINHOLE", 0
    else:
        name, coefficients = ("OPENCV", 4) if len(lens.distortion) <= 4 else ("FULL_OPENCV", 8)
    given = lens.distortion[:coefficients]
    return name, [*shape, *given, *[0.0] * (coefficients - len(given))]


def _images(images: Sequence[SourceImage], cameras: dict[Lens, int]) -> bytes:
    parts = [struct.pack("<Q", len(images))]
    for number, image in enumerate(images, start=1):
        w, x, y, z = quaternion_from_rotation(image.world_to_cam[:3, :3]).tolist()
        shift = image.world_to_cam[:3, 3].tolist()
        parts.append(struct.pack("<i7di", number, w, x, y, z, *shift, cameras[image.lens]))
        parts.append(os.fsencode(image.name) + b"\0" + struct.pack("<Q", 0))
    return b"".join(parts)


def _points(points: Points) -> bytes:
    table = np.zeros(len(points.xyz), POINT)
    table["id"] = np.arange(1, len(table) + 1)
    table["xyz"], table["rgb"] = points.xyz, points.rgb
    return struct.pack("<Q", len(table)) + table.tobytes()
