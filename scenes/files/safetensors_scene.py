"""Scenes as safetensors: the raw parameters of any primitive by their names, in their float type or in half of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import EXPORT_AGAIN, read_bytes, write_atomically

LESS = {torch.float16, torch.bfloat16, torch.float32}  # read as float32, also mixed


def save_safetensors(path: str | Path, scene: Parameters, half: bool = False) -> None:
    """Writes the parameters through a temporary file; the metadata say which primitive they are of.

    Args:
        path: the file.
        scene: any primitive.
        half: write float16, in about half the space: images agree to about 80 dB. Float32 stay the parameters
            that the primitive names as ``exact``, and tensors with values that float16 cannot hold (beyond 65504).

    Raises:
        CaptureError: there is no permission or no room.
    """
    from safetensors.numpy import save

    tensors = {name: tensor.detach().cpu() for name, tensor in scene.tensors().items()}
    if half:
        exact = PRIMITIVES[scene.primitive].exact
        tensors = {
            name: tensor.float() if name in exact else halved(tensor) for name, tensor in tensors.items()
        }
    arrays = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in tensors.items()}
    write_atomically(Path(path), [save(arrays, {"format": "pt", "primitive": scene.noun})])


def halved(tensor: Tensor) -> Tensor:
    """In float16; in float32 where a finite value would become infinite."""
    single, small = tensor.float(), tensor.half()
    return small if torch.equal(small.isfinite(), single.isfinite()) else single


def load_safetensors(path: str | Path) -> Parameters:
    """The primitives of a file whose tensors have exactly the names and shapes of one primitive.

    Float16, bfloat16 and mixtures of these with float32 become float32; float64 stays.

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
    known = [spec.parameters for spec in PRIMITIVES.values()]
    parameters = next((cls for cls in known if set(cls.names) == set(tensors)), None)
    if parameters is None:
        expected = "; ".join(f"{cls.noun} have {', '.join(cls.names)}" for cls in known)
        raise CaptureError(
            f"{path}: the tensors {', '.join(sorted(tensors)) or '(none)'} are of no primitive ({expected}).",
            EXPORT_AGAIN,
        )
    types = {tensor.dtype for tensor in tensors.values()}
    if types <= LESS:
        tensors = {name: tensor.float() for name, tensor in tensors.items()}
    elif types != {torch.float64}:
        found = ", ".join(sorted(str(t).removeprefix("torch.") for t in types))
        raise CaptureError(
            f"{path}: tensors must be float32, float16 or bfloat16, or all float64, not {found}.",
            EXPORT_AGAIN,
        )
    try:
        return parameters(**tensors)
    except (ValueError, IndexError) as error:
        raise CaptureError(f"{path}: {error}.", EXPORT_AGAIN) from None
