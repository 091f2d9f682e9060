"""What the tensors of a checkpoint must be: declared by the training that restores them, compared before it does.

A checksum says that a file is as it was written, not that it was written by luxel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.runs.checkpoints.checkpoint import CheckpointError

FLOATS = (torch.float32, torch.float64)
_REMEDY = "Resume from another checkpoint, or start a new run."
_CUDA_STATE = 16  # bytes: seed and offset, each of 8


class TensorSchema(NamedTuple):
    """What a tensor of a checkpoint must be.

    Args:
        shape: sizes; None in it: any size.
        dtypes: types that it may have.
        finite: whether NaN and infinity are impossible.
        positive: whether numbers below 0 are impossible.
    """

    shape: tuple[int | None, ...]
    dtypes: tuple[torch.dtype, ...] = FLOATS
    finite: bool = False
    positive: bool = False


def like(tensor: Tensor, *, finite: bool = False, positive: bool = False) -> TensorSchema:
    """The schema of a tensor that another one is copied into."""
    return TensorSchema(tuple(tensor.shape), (tensor.dtype,), finite, positive)


def require_tensors(tensors: Mapping[str, Tensor], schema: Mapping[str, TensorSchema]) -> None:
    """Compares the tensors of a checkpoint with a schema; further tensors may be there.

    Raises:
        CheckpointError: one is missing or differs; the message names it.
    """
    for name, expected in schema.items():
        if name not in tensors:
            raise wrong_tensor(name, "is missing")
        tensor, shape = tensors[name], expected.shape
        sizes = zip(tensor.shape, shape, strict=False)
        if tensor.dim() != len(shape) or any(size not in (actual, None) for actual, size in sizes):
            expected_shape = ", ".join("any" if size is None else str(size) for size in shape)
            raise wrong_tensor(name, f"has shape {list(tensor.shape)}, not [{expected_shape}]")
        if tensor.dtype not in expected.dtypes:
            raise wrong_tensor(name, f"is of type {_type(tensor.dtype)}, not {_type(expected.dtypes[0])}")
        if expected.finite and not bool(tensor.isfinite().all()):
            raise wrong_tensor(name, "holds numbers that are not finite")
        if expected.positive and bool((tensor < 0).any()):
            raise wrong_tensor(name, "holds negative numbers")


def require_generator(tensors: Mapping[str, Tensor], name: str = "generator") -> None:
    """Checks the state of a random number generator of the CPU or a GPU.

    Raises:
        CheckpointError: it is missing, or is none.
    """
    require_tensors(tensors, {name: TensorSchema((None,), (torch.uint8,))})
    state, generator = tensors[name].cpu(), torch.Generator()
    if state.numel() == generator.get_state().numel():
        try:
            generator.set_state(state)
        except RuntimeError as error:
            raise wrong_tensor(name, "is no state of a random number generator") from error
    elif state.numel() != _CUDA_STATE or not _is_offset(int(state.clone()[8:].view(torch.int64))):
        raise wrong_tensor(name, "is no state of a random number generator")


def _is_offset(offset: int) -> bool:
    """Whether a number can be the offset of a CUDA generator."""
    return offset >= 0 and offset % 4 == 0


def wrong_tensor(name: str, problem: str) -> CheckpointError:
    """The error for a tensor that cannot be restored; `load_newest` puts the file in front."""
    return CheckpointError(f"its tensor {name} {problem}.", _REMEDY)


def _type(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
