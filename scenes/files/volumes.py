"""Volumes on grids, as numpy keeps them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from luxel.scenes.errors import CaptureError

SUFFIXES = (".npy", ".npz")


def read_volume(path: str | Path) -> np.ndarray:
    """A grid of densities [Z, Y, X], or of density and albedo [Z, Y, X, 4].

    Args:
        path: .npy, or .npz with one array or one that is called ``density``.

    Returns:
        float32; values are as they are in the file.

    Raises:
        CaptureError: it is missing, damaged, no array of numbers, or of another shape.
    """
    path = Path(path)
    if not path.is_file():
        raise CaptureError(f"{path}: there is no such file.", "Give a .npy or .npz file, or the word cloud.")
    if path.suffix.lower() not in SUFFIXES:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is no volume that luxel reads.",
            "Save the grid with numpy.save as .npy.",
        )
    try:
        held = np.load(path, allow_pickle=False)
        if isinstance(held, np.lib.npyio.NpzFile):
            with held:
                names = held.files
                if len(names) != 1 and "density" not in names:
                    raise CaptureError(
                        f"{path}: holds {len(names)} arrays ({', '.join(names[:8])}).",
                        "Keep one, or call the volume density.",
                    )
                held = held["density" if "density" in names else names[0]]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, CaptureError):
            raise
        raise CaptureError(f"{path}: cannot be read by numpy ({error}).", "Save the grid again.") from error
    if held.dtype.kind not in "fiub":
        raise CaptureError(f"{path}: holds {held.dtype}, not numbers.", "Save densities as floats.")
    if held.ndim not in (3, 4) or 0 in held.shape or (held.ndim == 4 and held.shape[3] != 4):
        raise CaptureError(
            f"{path}: a volume must be [Z, Y, X] or [Z, Y, X, 4], got {list(held.shape)}.",
            "The last axis of four is density, red, green, blue.",
        )
    return np.ascontiguousarray(held, dtype=np.float32)
