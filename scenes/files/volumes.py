"""Reading of volumes on grids from numpy files."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.reading import check_file, open_file, reading

SUFFIXES = (".npy", ".npz")
DEFLATE_RATIO = {
    zipfile.ZIP_STORED: 1,
    zipfile.ZIP_DEFLATED: 1032,
}  # most bytes that a compressed byte stands for
DEFLATE_SLACK = 1 << 12


def read_volume(path: str | Path) -> np.ndarray:
    """Reads a grid of densities [Z, Y, X], or of density and albedo [Z, Y, X, 4].

    Args:
        path: .npy, or .npz with a single array or one named ``density``.

    Returns:
        float32, values as in the file.

    Raises:
        CaptureError: the file is missing or damaged, or has no array of numbers of such a shape.
    """
    path = Path(path)
    size = check_file(path)
    if path.suffix.lower() not in SUFFIXES:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is not a volume format that luxel reads (.npy, .npz).",
            "Give a .npy or .npz file (numpy.save writes one), or cloud for the synthetic cloud.",
        )
    with reading(path, "a numpy file", "Save the grid again, with numpy.save."), open_file(path) as file:
        if path.suffix.lower() == ".npz" or file.read(4) == b"PK\3\4":
            return _archived(path, file)
        file.seek(0)
        return _array(path, file, size)


def _archived(path: Path, file: BinaryIO) -> np.ndarray:
    """The array of an .npz file."""
    with zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if len(members) != 1 and "density" not in members:
            raise CaptureError(
                f"{path}: holds {len(members)} arrays ({', '.join(list(members)[:8])[:200]}).",
                "Keep one, or name the volume density.",
            )
        info = members["density"] if "density" in members else next(iter(members.values()))
        possible = info.compress_size * DEFLATE_RATIO.get(info.compress_type, 0) + DEFLATE_SLACK
        if info.file_size > possible:
            raise CaptureError(
                f"{path}: {info.filename[:80]} is said to have {info.file_size} bytes, and {info.compress_size} bytes "
                "cannot hold so many.",
                "Save the grid again, with numpy.savez_compressed.",
            )
        with archive.open(info) as member:
            return _array(path, member, info.file_size)


def read_array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the order is Fortran's, and type of a numpy file, whose values follow."""
    major, _ = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    return header(file)


def _array(path: Path, file: IO[bytes], size: int) -> np.ndarray:
    """The volume of a numpy file of ``size`` bytes, whose header is checked before memory is allocated."""
    shape, fortran, dtype = read_array_header(file)
    if dtype.kind not in "fiub" or dtype.hasobject:
        raise CaptureError(
            f"{path}: the array has values of {str(dtype)[:80]}, not numbers.", "Save densities as floats."
        )
    if len(shape) not in (3, 4) or min(shape) < 1 or (len(shape) == 4 and shape[3] != 4):
        raise CaptureError(
            f"{path}: a volume must be [Z, Y, X] or [Z, Y, X, 4], got {str(list(shape))[:120]}.",
            "The four channels of the last axis are density, red, green, blue.",
        )
    expected = math.prod(map(int, shape)) * dtype.itemsize
    if expected > size - file.tell():
        raise CaptureError(
            f"{path}: cut short: the header announces {expected} bytes of values ({str(list(shape))[:120]}), and "
            f"{size - file.tell()} follow.",
            "Copy or save the grid again.",
        )
    data = file.read(expected)
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(array, dtype=np.float32, order="C")
