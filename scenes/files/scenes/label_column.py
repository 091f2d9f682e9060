"""The labels of primitives in scene files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import EXPORT_AGAIN, read_vertices
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.files.scene_format import LABEL


def load_labels(path: str | Path) -> Tensor | None:
    """The labels in a .ply or .safetensors file, uint8 [N] for all of its primitives; None: it has none.

    Raises:
        CaptureError: the file cannot be read, or its labels are not from 0 to 255.
    """
    path = Path(path)
    with reading(path, "a scene", EXPORT_AGAIN):
        if path.suffix.lower() == ".safetensors":
            from safetensors.numpy import load

            column = load(read_bytes(path)).get(LABEL)
        else:
            vertices = read_vertices(path)
            column = vertices[LABEL] if LABEL in (vertices.dtype.names or ()) else None
    if column is None:
        return None
    if column.ndim != 1 or not ((column >= 0) & (column <= 255) & (column == np.round(column))).all():
        raise CaptureError(f"{path}: labels must be integers from 0 to 255.", EXPORT_AGAIN)
    return torch.from_numpy(np.ascontiguousarray(column.astype(np.uint8)))
