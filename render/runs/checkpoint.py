"""Checkpoints: tensors as safetensors, the rest as JSON, written atomically.

``step-00007000.safetensors`` is written first, ``step-00007000.json`` last; both under a temporary name,
flushed to the disk and renamed. The JSON holds size and SHA-256 of the tensors, so that a truncated or damaged
file is detected on reading.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from luxel.render.errors import LuxelError

_NAME = re.compile(r"step-(\d{8,})\.json")
_DTYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_CHUNK = 1 << 24


class CheckpointError(LuxelError):
    """A checkpoint could not be written, or none could be read."""


@dataclass
class Checkpoint:
    """The complete state of a run after a step.

    Args:
        step: completed steps.
        tensors: by name; on the CPU after loading.
        state: everything else, as values that JSON can hold.
    """

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Writes a checkpoint and removes all but the newest ``keep``.

    Args:
        folder: created if absent.

    Returns:
        The path of its JSON file.

    Raises:
        CheckpointError: it could not be written (disk full, no permission); older checkpoints are
            unchanged.
    """
    name = f"step-{checkpoint.step:08d}"
    json_path, tensor_path = folder / f"{name}.json", folder / f"{name}.safetensors"
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".step-*.part"):  # of a process that was killed while writing
            _remove(leftover)
        # When replacing a checkpoint of the same step: an old JSON beside new tensors would make both unreadable.
        part = folder / f".{name}.safetensors.part"
        written.append(part)
        size, sha256 = write_tensors(part, checkpoint.tensors)
        body = {
            "step": checkpoint.step,
            "tensors": {"file": tensor_path.name, "bytes": size, "sha256": sha256},
        }
        json_part = folder / f".{name}.json.part"
        written.append(json_part)
        with open(json_part, "wb") as file:
            file.write(json.dumps(body | {"state": checkpoint.state}, indent=1).encode())
            flush(file)
        json_path.unlink(missing_ok=True)
        os.replace(part, tensor_path)
        os.replace(json_part, json_path)
        flush_folder(folder)
    except OSError as error:
        for path in written:
            _remove(path)
        others = [step for step, _ in available(folder)]
        kept = f"The one of step {others[0]} is untouched. " if others else ""
        raise CheckpointError(
            f"{json_path}: the checkpoint of step {checkpoint.step} could not be written "
            f"({error.strerror or error}).",
            f"{kept}Free some disk space or choose another run folder.",
        ) from error
    for step, old in available(folder)[max(keep, 1) :]:
        if step != checkpoint.step:
            _remove(old)
            _remove(old.with_suffix(".safetensors"))
    return json_path


def available(folder: Path) -> list[tuple[int, Path]]:
    """Steps and JSON files of the checkpoints in a folder, newest first, without reading them."""
    if not folder.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


def load(path: Path) -> Checkpoint:
    """Reads one checkpoint by its JSON file and verifies size and checksum.

    Raises:
        CheckpointError: it is damaged.
    """
    from safetensors.torch import load as parse

    try:
        body = json.loads(path.read_bytes())
        entry = body["tensors"]
        raw = (path.parent / entry["file"]).read_bytes()
        problem = ""
        if len(raw) != entry["bytes"]:
            problem = f"{entry['file']} has {len(raw)} of {entry['bytes']} bytes"
        elif hashlib.sha256(raw).hexdigest() != entry["sha256"]:
            problem = f"{entry['file']} does not match its checksum"
        if not problem:
            return Checkpoint(int(body["step"]), parse(raw), body["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
    raise CheckpointError(
        f"{path}: this checkpoint is damaged ({problem}).", "Delete it, or resume from another."
    )


def load_newest(folder: Path, say: Callable[[str], None]) -> Checkpoint:
    """Reads the newest intact checkpoint.

    Args:
        folder: the checkpoints of a run.
        say: receives a message for each damaged checkpoint that was skipped.

    Raises:
        CheckpointError: there is no intact checkpoint.
    """
    candidates = available(folder)
    for place, (step, path) in enumerate(candidates):
        try:
            return load(path)
        except CheckpointError as error:
            following = candidates[place + 1 : place + 2]
            then = (
                f"Using the previous one, of step {following[0][0]}."
                if following
                else "There is no earlier one."
            )
            say(f"Checkpoint of step {step}: {error.problem} {then}")
    what = "all checkpoints are damaged" if candidates else "there is no checkpoint"
    raise CheckpointError(f"{folder}: {what}.", "Start a new run, or point --resume at the folder of a run.")


def write_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
) -> tuple[int, str]:
    """Writes a safetensors file to the disk; returns its size in bytes and its SHA-256.

    The safetensors package maps the file into memory, where a full disk is not an OSError; this function raises one.

    Args:
        tensors: float32, float64, int32, int64, uint8 or bool, on any device.
        metadata: additional strings for the header, by name.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for piece in _pieces(struct.pack("<Q", len(text)) + text, tensors):
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        flush(file)
    return size, digest.hexdigest()


def _pieces(head: bytes, tensors: dict[str, Tensor]) -> Iterator[Any]:
    yield head
    for tensor in tensors.values():
        raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        for start in range(0, len(raw), _CHUNK):
            yield raw[start : start + _CHUNK]


def flush(file: BinaryIO) -> None:
    """Flushes a file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flushes renames in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # a file left behind only costs space
        path.unlink(missing_ok=True)
