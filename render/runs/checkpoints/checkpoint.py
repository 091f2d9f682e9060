"""Checkpoints: tensors as safetensors, the rest as JSON, written atomically.

``step-00007000.safetensors`` is written first, ``step-00007000.json`` last; both under a temporary name,
flushed to the disk and renamed. The JSON holds size and SHA-256 of the tensors, the names of both files, the run that
they belong to (its config.json), and a digest of all this, so that a truncated, damaged, renamed or foreign file is
detected on reading.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.replay import on_host
from luxel.render.runs.identity import FORMAT, Identity, identity_in
from luxel.render.runs.memory import is_out_of_memory
from luxel.render.runs.strict_json import (
    JsonError,
    finite,
    read_object,
    require_seal,
    sealed,
    validated,
)
from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import Content
from luxel.render.storage.reading import LARGE, available_memory

_NAME = re.compile(r"step-([0-9]{8,18})\.(json|safetensors)")
_DTYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_CHUNK = 1 << 24  # bytes
_ATTEMPTS = 3  # at reading the newest checkpoint while a training writes others


class CheckpointError(LuxelError):
    """A checkpoint could not be written, or none could be read."""


@dataclass
class Checkpoint:
    """The complete state of a run after a step.

    Args:
        step: completed steps.
        tensors: by name; on the CPU after loading.
        state: everything else, as values that JSON can hold; numbers that are not finite are written as null.
        run: the content of the config.json of its run; None: not known.
        checked: whether it was read and its JSON matched a checksum; earlier versions wrote none.
    """

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    run: dict[str, Any] | None = None
    checked: bool = False


class _Tensors(msgspec.Struct):
    """The entry of a checkpoint's JSON about its tensors."""

    file: str
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: str


class _Body(msgspec.Struct):
    """The JSON of a checkpoint; of format 1 without the last four."""

    step: Annotated[int, msgspec.Meta(ge=0)]
    tensors: _Tensors
    state: dict[str, Any]
    format: Annotated[int, msgspec.Meta(ge=1)] = 1
    file: str | None = None
    run: dict[str, Any] | None = None
    sha256: str | None = None


def save(folder: OutputFolder | Path, checkpoint: Checkpoint, keep: int = 2, inside: str = "") -> Path:
    """Writes a checkpoint and removes all but the newest ``keep`` up to its step.

    Those of later steps, which a resumed run has passed over because they are damaged, are left until it writes them
    again, and replace no other. A file of its name that luxel did not write, or that was damaged, gets
    another name; none such is removed.

    Args:
        folder: of the run, or of the checkpoints; created if absent.
        inside: name of the folder of the checkpoints in ``folder``; empty: they are in it.

    Returns:
        The path of its JSON file.

    Raises:
        CheckpointError: it could not be written (disk full, no permission); older checkpoints are
            unchanged.
    """
    output = folder if isinstance(folder, OutputFolder) else OutputFolder(folder)
    before = f"{inside}/" if inside else ""
    name = f"step-{checkpoint.step:08d}"
    json_name, tensor_name = f"{before}{name}.json", f"{before}{name}.safetensors"
    position = output.path / inside
    try:
        _set_foreign_aside(output, (json_name, tensor_name))
        with output.batch() as batch:
            with batch.writing(tensor_name) as draft:
                size, sha256 = write_tensors(draft.path, checkpoint.tensors)
                draft.content = Content(size, sha256)
            body = {
                "format": FORMAT,
                "file": f"{name}.json",
                "step": checkpoint.step,
                "tensors": {"file": f"{name}.safetensors", "bytes": size, "sha256": sha256},
                "state": checkpoint.state,
                "run": checkpoint.run,
            }
            batch.write(json_name, json.dumps(sealed(finite(body)), indent=1).encode())
            # When replacing a checkpoint of the same step: an old JSON alongside new tensors would make both
            # unreadable.
            batch.unlink_first(json_name)
    except Exception as error:
        if not isinstance(error, OSError | LuxelError) and not is_out_of_memory(error):
            raise
        others = [step for step, _ in available(position)]
        retained = f"The one of step {others[0]} is untouched. " if others else ""
        raise CheckpointError(
            f"{position / name}.json: the checkpoint of step {checkpoint.step} could not be written "
            f"({'memory ran out' if is_out_of_memory(error) else getattr(error, 'strerror', None) or error}).",
            f"{retained}Free some disk space or memory, or choose another run folder.",
        ) from error
    past = [path for step, path in available(position) if step <= checkpoint.step]
    for old in past[max(keep, 1) :]:
        output.delete([f"{before}{old.name}", f"{before}{old.stem}.safetensors"])
    return position / f"{name}.json"


def _set_foreign_aside(output: OutputFolder, names: Sequence[str]) -> None:
    """Gives other names to files that have those of a checkpoint, and that luxel did not write as they are."""
    for name in names:
        if os.path.lexists(output.path / name) and not output.is_own(name):
            output.set_aside(name)


def delete_incomplete(output: OutputFolder, inside: str) -> None:
    """Deletes tensors without the JSON that is written last, as a killed process leaves them."""
    own = output.names(re.compile(rf"{re.escape(inside)}/step-[0-9]{{8,18}}\.safetensors"))
    output.delete(name for name in own if not os.path.lexists((output.path / name).with_suffix(".json")))


def available(folder: Path) -> list[tuple[int, Path]]:
    """Steps and JSON files of the checkpoints in a folder, newest first, without reading them."""
    return [(step, path) for step, path in _listed(folder) if path.exists()]


def load(path: Path) -> Checkpoint:
    """Reads one checkpoint by its JSON file and verifies names, sizes and checksums.

    Raises:
        CheckpointError: it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load as parse

    try:
        body = _read_body(path)
        entry = body.tensors
        raw = _read_tensors(path.parent / entry.file, entry.bytes)
        if hashlib.sha256(raw).hexdigest() != entry.sha256:
            raise JsonError(f"{entry.file} does not match its checksum")
        return Checkpoint(body.step, parse(raw), body.state, body.run, body.sha256 is not None)
    except (OSError, JsonError, SafetensorError) as error:
        raise _damaged(path, error) from error


def load_run(path: Path) -> dict[str, Any] | None:
    """The content of the config.json of its run that a checkpoint holds, without reading tensors; None: it has none.

    Raises:
        CheckpointError: its JSON is damaged.
    """
    try:
        return _read_body(path).run
    except (OSError, JsonError) as error:
        raise _damaged(path, error) from error


def load_newest(
    folder: Path,
    say: Callable[[str], None],
    run: dict[str, Any] | None = None,
    check: Callable[[Checkpoint], object] = lambda checkpoint: None,
) -> Checkpoint:
    """Reads the newest intact checkpoint.

    Args:
        folder: the checkpoints of a run.
        say: receives a message if newer ones are damaged: which, what is wrong, which one is used and how many steps
            are lost.
        run: content of the run's config.json, whose identity checkpoints must have; None: not known.
        check: raises LuxelError for a checkpoint that cannot be used.

    Raises:
        CheckpointError: there is no intact checkpoint.
    """
    identity = None if run is None else identity_in(run)
    candidates, problems = _listed(folder), []
    for attempt in range(_ATTEMPTS):
        problems = []
        for step, path in candidates:
            try:
                checkpoint = load(path)
                if run is not None:
                    _require_run(path, checkpoint, identity)
                check(checkpoint)
            except LuxelError as error:
                named = str(path) in error.problem
                problems.append(error.problem if named else f"{path}: {error.problem}")
                continue
            if problems and attempt + 1 < _ATTEMPTS and _listed(folder) != candidates:
                break  # a training has replaced what was listed
            if problems:
                lost = candidates[0][0] - step
                say(
                    f"{' '.join(problems)} Using the checkpoint of step {step} ({path.name}); steps lost: {lost}."
                )
            return checkpoint
        before, candidates = candidates, _listed(folder)
        if candidates == before:
            break
    what = "all checkpoints are damaged or of another run:" if candidates else "there is no checkpoint."
    raise CheckpointError(
        " ".join([f"{folder}: {what}", *problems]),
        "Restore these files from a copy, or start a new run."
        if candidates
        else _without_checkpoints(folder),
    )


def _without_checkpoints(folder: Path) -> str:
    """What to do with a run that has no checkpoint."""
    if any((folder.parent / name).exists() for name in ("scene.ply", "field.safetensors")):
        return (
            "The result of the run can be viewed, evaluated and exported, but not trained further: start a new run in "
            "another folder (--run)."
        )
    return "Give the folder of a run, or start a new one."


def _listed(folder: Path) -> list[tuple[int, Path]]:
    """Steps and JSON files of the checkpoints of which at least one file is there, newest first."""
    if not folder.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted({(int(m[1]), path.with_suffix(".json")) for m, path in matches if m}, reverse=True)


def _read_tensors(path: Path, expected: int) -> bytes:
    """The content of a file of tensors, whose size is compared before it is read.

    Raises:
        JsonError: it has another size, or does not fit into memory.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size == expected and size > LARGE and size > (free := available_memory()):
            raise JsonError(
                f"{path.name} has {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free"
            )
        raw = file.read(size) if size == expected else b""
    if size != expected or len(raw) != expected:
        raise JsonError(f"{path.name} has {size} of {expected} bytes")
    return raw


def _read_body(path: Path) -> _Body:
    """The JSON of a checkpoint, checked; its tensors are not read.

    Raises:
        JsonError: it is damaged, or that of another file.
        OSError: it cannot be read.
    """
    raw = read_object(path)
    body = validated(raw, _Body)
    if body.format > FORMAT:
        raise JsonError(f"format {body.format} is of a newer version of luxel")
    if body.format > 1 or body.sha256 is not None:
        require_seal(raw)
        if body.file != path.name:
            raise JsonError(f"it was written as {body.file}")
    own = int(path.stem.removeprefix("step-")) if _NAME.fullmatch(path.name) else body.step
    if body.step != own:
        raise JsonError(f"it is of step {body.step}")
    if body.tensors.file != f"{path.stem}.safetensors":
        raise JsonError(f"its tensors are in {body.tensors.file}, not alongside it")
    if body.run is not None:
        identity_in(body.run)
    return body


def _require_run(path: Path, checkpoint: Checkpoint, identity: Identity | None) -> None:
    """Raises CheckpointError unless a checkpoint is of the run with an identity; None: of a version without any."""
    own = None if checkpoint.run is None else identity_in(checkpoint.run)
    if identity is not None and own is None and checkpoint.step <= identity.unchecked_until:
        return
    if (own and own.id) != (identity and identity.id):
        whose = "another run" if identity is not None else "a newer run"
        raise CheckpointError(
            f"{path}: this checkpoint is of {whose} than config.json.", "Delete it, or restore config.json."
        )


def _damaged(path: Path, error: Exception) -> CheckpointError:
    if isinstance(error, FileNotFoundError):
        reason = f"{Path(error.filename or path).name} is missing"
    elif isinstance(error, OSError):
        reason = f"it cannot be read: {error.strerror or error}"
    else:
        reason = str(error)
    return CheckpointError(
        f"{path}: this checkpoint is damaged ({reason}).", "Delete it, or resume from another."
    )


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
    head, digest = struct.pack("<Q", len(text)) + text, hashlib.sha256()
    digest.update(head)
    with open(path, "wb") as file, ThreadPoolExecutor(1, "luxel-checksum") as executor:
        file.write(head)
        for piece in (piece.data for tensor in tensors.values() for piece in _pieces(tensor)):
            summed = executor.submit(digest.update, piece)
            file.write(piece)
            summed.result()
        flush(file)
    return len(head) + offset, digest.hexdigest()


def _pieces(tensor: Tensor) -> Iterator[np.ndarray]:
    """The bytes of a tensor in parts, each valid until the next is asked for."""
    flat = tensor.detach().contiguous().flatten().view(torch.uint8)
    return on_host(flat[start : start + _CHUNK] for start in range(0, flat.numel(), _CHUNK))


def flush(file: BinaryIO) -> None:
    """Flushes a file to the disk."""
    file.flush()
    os.fsync(file.fileno())
