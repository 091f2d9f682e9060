"""PLY files of convexes: the K points of each as vertex properties."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from luxel.render.ops.raster.project_convexes import FEWEST, MOST
from luxel.render.primitives.convexes import Convexes
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import (
    EXPORT_AGAIN,
    as_arrays,
    coefficient_columns,
    need_columns,
    read_coefficients,
    read_vertices,
    write_columns,
)

SCALARS = {
    "log_delta": "log_delta",
    "log_sigma": "log_sigma",
    "opacity_logits": "opacity",
    "mask_logits": "mask",
}


def load_convexes(path: str | Path) -> Convexes:
    """Convexes from the properties that `save_convexes` writes, in any order.

    Raises:
        CaptureError: the file cannot be read, holds no convexes, or K is not 3 to 8.
    """
    path = Path(path)
    vertices = read_vertices(path)
    each = sum(1 for name in vertices.dtype.names or () if re.fullmatch(r"x_\d+", name))
    if each and not FEWEST <= each <= MOST:
        raise CaptureError(
            f"{path}: convexes have {FEWEST} to {MOST} points, these have {each}.", EXPORT_AGAIN
        )
    wanted = [f"{axis}_{i}" for i in range(max(each, FEWEST)) for axis in "xyz"]
    parts = {"points": need_columns(path, vertices, wanted, "convexes").reshape(-1, len(wanted) // 3, 3)}
    for name, column in SCALARS.items():
        parts[name] = need_columns(path, vertices, [column], "convexes")[:, 0]
    parts |= read_coefficients(path, vertices, "convexes")
    return Convexes(**{name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in parts.items()})


def save_convexes(path: str | Path, convexes: Convexes) -> None:
    """Writes x_0 y_0 z_0 x_1 ..., f_dc_*, f_rest_* (channel by channel), log_delta, log_sigma, opacity and mask.

    All are raw parameters, float32; binary, through a temporary file.

    Raises:
        CaptureError: there is no permission or no room.
    """
    held = as_arrays(convexes)
    names = " ".join(f"{axis}_{i}" for i in range(convexes.points_each) for axis in "xyz")
    columns = {names: held["points"].reshape(-1, 3 * convexes.points_each), **coefficient_columns(held)}
    columns |= {column: held[name][:, None] for name, column in SCALARS.items()}
    write_columns(Path(path), columns)
