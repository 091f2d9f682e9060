"""Reading of volumes on grids from numpy files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError

SUFFIXES = (".npy", ".npz")


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
    if not path.is_file():
        raise CaptureError(
            f"{path}: there is no such file.", "Give a .npy or .npz file, or cloud for the synthetic cloud."
        )
    if path.suffix.lower() not in SUFFIXES:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is not a volume format that luxel reads (.npy, .npz).",
            "Save the grid with numpy.save as .npy.",
        )
    try:
        array = np.load(path, allow_pickle=False)
        if isinstance(array, np.lib.npyio.NpzFile):
            with array:
                names = array.files
                if len(names) != 1 and "density" not in names:
                    raise CaptureError(
                        f"{path}: holds {len(names)} arrays ({', '.join(names[:8])}).",
                        "Keep one array, or give the one with the volume the name `density`.",
                    )
                array = array["density" if "density" in names else names[0]]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, CaptureError):
            raise
        raise CaptureError(
            f"{path}: numpy cannot read the file ({error}).", "Save the grid again."
        ) from error
    if array.dtype.kind not in "fiub":
        raise CaptureError(
            f"{path}: the array has values of {array.dtype}, not numbers.", "Save densities as floats."
        )
    if array.ndim not in (3, 4) or 0 in array.shape or (array.ndim == 4 and array.shape[3] != 4):
        raise CaptureError(
            f"{path}: a volume must be [Z, Y, X] or [Z, Y, X, 4], got {list(array.shape)}.",
            "The four channels of the last axis are density, red, green, blue.",
        )
    return np.ascontiguousarray(array, dtype=np.float32)
