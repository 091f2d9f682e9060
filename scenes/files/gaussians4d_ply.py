"""PLY files of 4D Gaussians: the properties of 3DGS where they mean the same, and those of time beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.scenes.files.ply import (
    as_arrays,
    coefficient_columns,
    need_columns,
    read_coefficients,
    read_vertices,
    write_columns,
)

COLUMNS = {  # of all parameters but the coefficients, in the order in which they are written
    "means": ("x", "y", "z"),
    "times": ("t",),
    "opacity_logits": ("opacity",),
    "log_scales": ("scale_0", "scale_1", "scale_2"),
    "log_scale_t": ("scale_t",),
    "rotors": tuple(f"rotor_{i}" for i in range(8)),
}
MARKS = {"scale_t", "rotor_0"}  # a file with either is of 4D Gaussians


def load_gaussians4d(path: str | Path) -> Gaussians4d:
    """4D Gaussians from the properties that `save_gaussians4d` writes, in any order.

    Raises:
        CaptureError: the file cannot be read or holds no 4D Gaussians.
    """
    path = Path(path)
    vertices = read_vertices(path)
    parts = read_coefficients(path, vertices, Gaussians4d.noun)
    for name, columns in COLUMNS.items():
        held = need_columns(path, vertices, columns, Gaussians4d.noun)
        parts[name] = held if len(columns) > 1 else held[:, 0]
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in parts.items()}
    return Gaussians4d(**tensors)


def save_gaussians4d(path: str | Path, gaussians: Gaussians4d) -> None:
    """Writes x y z t, f_dc_*, f_rest_* (channel by channel), opacity, scale_0..2, scale_t and rotor_0..7.

    All are raw parameters, float32; binary, through a temporary file.

    Raises:
        CaptureError: there is no permission or no room.
    """
    held = as_arrays(gaussians)
    parts = {
        " ".join(columns): held[name].reshape(len(held[name]), len(columns))
        for name, columns in COLUMNS.items()
    }
    first = dict(list(parts.items())[:2])  # the place and the time, before the colours
    write_columns(Path(path), {**first, **coefficient_columns(held), **parts})
