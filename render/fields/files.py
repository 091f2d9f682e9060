"""Fields in files: safetensors, with the configuration in the header."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application, make_application
from luxel.render.fields.config import FieldConfig
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, write_tensors
from luxel.render.runs.strict_json import parse_object
from luxel.render.storage.reading import check_file, read_bytes, reading

FIELD_FILE = "field.safetensors"  # of a run
SLACK = 1 << 20  # numbers of tensors that are not in the file
_KEY = "luxel_field"  # in the header


def save_field(path: Path, application: Application) -> None:
    """Writes everything that drawing a field needs.

    Raises:
        OSError: it cannot be written.
    """
    write_tensors(path, application.state_dict(), {_KEY: json.dumps(application.config.to_dict())})


def is_field(path: Path) -> bool:
    """Whether `save_field` wrote a file; False if it cannot be read."""
    try:
        return _KEY in _header(path)
    except LuxelError:
        return False


def load_field(path: Path, device: torch.device | str = "cpu") -> Application:
    """Reads a field that `save_field` wrote.

    Raises:
        LuxelError: it is missing, damaged, or not a neural field of luxel.
    """
    from safetensors.torch import load

    header = _header(path)
    if _KEY not in header:
        raise LuxelError(
            f"{path}: this is not a neural field of luxel.", "Give the field.safetensors of a run."
        )
    with reading(path, "a neural field", "Copy the file again, or train the field again."):
        config, tensors = FieldConfig.from_dict(parse_object(header[_KEY].encode())), load(read_bytes(path))
        with _BoundedAllocations(SLACK + 2 * sum(tensor.numel() for tensor in tensors.values())):
            application = make_application(config)
        application.load_state_dict(tensors)
        _require_finite(str(path), application)
    return application.to(device)


class _BoundedAllocations(TorchFunctionMode):
    """Refuses new tensors of more than ``most`` numbers: a damaged configuration may ask for any."""

    FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.FACTORIES:
            size = args[0] if args and isinstance(args[0], tuple | list) else args
            if math.prod(n for n in size if isinstance(n, int)) > self.most:
                raise ValueError(f"its configuration has a tensor of {list(size)} numbers, the file fewer")
        return func(*args, **(kwargs or {}))


def _require_finite(path: str, application: Application) -> None:
    """Raises LuxelError for parameters that are NaN or infinite: no part of a network can be left out."""
    broken = {name: int((~p.isfinite()).sum()) for name, p in application.named_parameters()}
    if any(broken.values()):
        counts = ", ".join(f"{name} {count:,}" for name, count in broken.items() if count)
        raise LuxelError(f"{path}: parameters of the field are not finite ({counts}).", "Train it again.")


def field_of_checkpoint(checkpoint: Checkpoint) -> Application:
    """The field of a checkpoint that `luxel.render.fields.training.trainer.FieldTrainer` wrote, on the CPU.

    Raises:
        LuxelError: the checkpoint is of something else.
    """
    try:
        application = make_application(FieldConfig.from_dict(checkpoint.state["config"]))
        prefix = "field."
        state = {name[len(prefix) :]: t for name, t in checkpoint.tensors.items() if name.startswith(prefix)}
        application.load_state_dict(state)
        _require_finite(f"The checkpoint of step {checkpoint.step}", application)
    except (KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise LuxelError(
            f"The checkpoint of step {checkpoint.step} is not of such a field ({error}).", "Train it again."
        ) from error
    return application


def _header(path: Path) -> dict[str, str]:
    """The metadata of a file's header."""
    from safetensors import safe_open

    with reading(path, "a safetensors file", "Give the field.safetensors of a run."):
        check_file(path)
        with safe_open(path, "pt") as file:
            return file.metadata() or {}
