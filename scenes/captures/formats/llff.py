"""poses_bounds.npy of LLFF (Mildenhall et al. 2019), as forward-facing data sets have it.

A row of the file is an image in the order of the sorted names in images/: the matrix [R | t | (height, width, focal
length)], 3x5, row by row, camera to world with axes down, right and backward; then the least and greatest depth.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from luxel.scenes.captures.capture_format import CaptureFormat, ReadOptions
from luxel.scenes.captures.contents import CaptureContents, SourceImage, image_files
from luxel.scenes.captures.images.images import ImageHeader, for_each, read_header
from luxel.scenes.captures.lenses.lens import Lens, fit_to_file
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.files.volumes import read_array_header
from luxel.scenes.geometry import invert_rigid, rigid_from_matrix

FILE, IMAGES = "poses_bounds.npy", "images"
COLUMNS = 17
DOWN_RIGHT_BACKWARD = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]])  # to right, down, forward
REMEDY = "Copy the file again, or make it again with LLFF's imgs2poses."


def llff_mismatch(path: Path) -> str | None:
    """None for a folder with poses_bounds.npy, and for that file; otherwise the reason."""
    if path.is_file():
        return None if path.name == FILE else f"its name is not {FILE}"
    return None if (path / FILE).is_file() else f"there is no {FILE}"


def read_llff(path: Path, options: ReadOptions) -> CaptureContents:
    """The images of images/ with the poses and the focal lengths of poses_bounds.npy.

    Args:
        path: the capture's folder, or the file.
        options: not used.

    Raises:
        CaptureError: a file is missing or invalid, or there are more or fewer images than poses.
    """
    folder = path if path.is_dir() else path.parent
    file, images = folder / FILE, folder / IMAGES
    with reading(file, "a numpy file of poses", REMEDY):
        table = read_table(file, read_bytes(file))
    if not images.is_dir():
        raise CaptureError(f"{images}: there is no such folder.", f"Put the images into {images}.")
    files = sorted(image_files(images), key=lambda entry: entry.name)
    if len(files) != len(table):
        raise CaptureError(
            f"{file}: there are {len(table)} poses, but {len(files)} images in {images}.",
            "Leave exactly the images there that the poses were made of.",
        )
    headers: dict[int, ImageHeader] = {}
    for_each(lambda i: headers.__setitem__(i, read_header(files[i])), len(files))
    sources = [place(file, image, headers[row], table[row]) for row, image in enumerate(files)]
    return CaptureContents("LLFF", sources, used_files={file})


def read_table(file: Path, data: bytes) -> np.ndarray:
    """The rows of the bytes of a file, float64 [N, 17].

    Raises:
        CaptureError: it holds something else, or is cut short.
    """
    stream = io.BytesIO(data)
    shape, fortran, dtype = read_array_header(stream)
    rest = data[stream.tell() :]
    if dtype.kind != "f" or len(shape) != 2 or shape[1] != COLUMNS or shape[0] < 1:
        raise CaptureError(
            f"{file}: must hold floats [N, {COLUMNS}], got {str(dtype)[:40]} {str(list(shape))[:80]}.", REMEDY
        )
    if shape[0] * COLUMNS * dtype.itemsize > len(rest):
        raise CaptureError(f"{file}: cut short: {len(rest)} bytes do not hold {shape[0]} poses.", REMEDY)
    values = np.frombuffer(rest, dtype, shape[0] * COLUMNS)
    return values.reshape(shape, order="F" if fortran else "C").astype(np.float64)


def place(file: Path, image: Path, header: ImageHeader, row: np.ndarray) -> SourceImage:
    """An image, or the first frame of a camera, with its pose and lens.

    Args:
        file: poses_bounds.npy.
        image: the image, film or folder in the folder of the file.
        header: of the image or frame.
        row: of the file, [17].

    Raises:
        CaptureError: the row is no camera, or that of an image of another aspect ratio.
    """
    where = f"{file}: {image.name}"
    matrix = row[:15].reshape(3, 5)
    height, width, focal = matrix[:, 4].tolist()
    if not (1 <= width <= 1e6 and 1 <= height <= 1e6 and 1e-3 * width < focal < 1e3 * width):
        raise CaptureError(
            f"{where}: {width:g}x{height:g} pixels with a focal length of {focal:g} are no camera.", REMEDY
        )
    wide, tall = round(width), round(height)
    lens = Lens(wide, tall, focal, focal, 0.5 * wide, 0.5 * tall)
    pose = rigid_from_matrix(np.c_[matrix[:, :3] @ DOWN_RIGHT_BACKWARD, matrix[:, 3]].tolist(), where)
    upright = header.size(True)
    oriented = header.orientation != 1 and (upright[0] > upright[1]) == (wide > tall)
    lens = fit_to_file(lens, header.size(oriented), where)
    name = image.relative_to(file.parent).as_posix()
    return SourceImage(name, image, lens, invert_rigid(pose), oriented=oriented, exposure=header.exposure)


LLFF = CaptureFormat("LLFF", llff_mismatch, read_llff)
