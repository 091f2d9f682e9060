"""Scenes as safetensors: the raw parameters of any primitive by their names, in their float type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.scenes.errors import CaptureError
from luxel.scenes.ply import EXPORT_AGAIN, read_bytes, write_atomically


def save_safetensors(path: str | Path, scene: Parameters) -> None:
    """Writes the parameters through a temporary file; the metadata say which primitive they are of.

    Raises:
        CaptureError: there is no permission or no room.
    """
    from safetensors.numpy import save

    arrays = {n: np.ascontiguousarray(t.detach().cpu().numpy()) for n, t in scene.tensors().items()}
    write_atomically(Path(path), [save(arrays, {"format": "pt", "primitive": scene.noun})])


def load_safetensors(path: str | Path) -> Parameters:
    """The primitives of a file whose tensors have exactly the names and shapes of one kind.

    Raises:
        CaptureError: the file cannot be read, or holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = Path(path)
    data = read_bytes(path)
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise CaptureError(f"{path}: this is no safetensors file ({error}).", EXPORT_AGAIN) from None
    kind = next((kind for kind in PRIMITIVES.values() if set(kind.names) == set(tensors)), None)
    if kind is None:
        wanted = "; ".join(f"{kind.noun} have {', '.join(kind.names)}" for kind in PRIMITIVES.values())
        raise CaptureError(
            f"{path}: the tensors {', '.join(sorted(tensors)) or '(none)'} are of no primitive ({wanted}).",
            EXPORT_AGAIN,
        )
    types = {tensor.dtype for tensor in tensors.values()}
    if types not in ({torch.float32}, {torch.float64}):
        found = ", ".join(sorted(str(t).removeprefix("torch.") for t in types))
        raise CaptureError(f"{path}: all tensors must be float32, or all float64, not {found}.", EXPORT_AGAIN)
    try:
        return kind(**tensors)
    except (ValueError, IndexError) as error:
        raise CaptureError(f"{path}: {error}.", EXPORT_AGAIN) from None
