"""The result of a run, scene.ply or field.safetensors, with a record alongside it: scene.json or field.json.

The record holds size and SHA-256 of the result, its step and the run that it belongs to, and a digest of all this.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from luxel.render.errors import LuxelError
from luxel.render.runs.identity import FORMAT, identity_in
from luxel.render.runs.strict_json import JsonError, read_object, require_seal, sealed, validated
from luxel.render.storage.descriptors import open_regular
from luxel.render.storage.folder import OutputFolder
from luxel.render.storage.manifest import Content, content_of

RECORDS = ("scene.json", "field.json")


class Record(msgspec.Struct):
    """The content of a record."""

    format: Annotated[int, msgspec.Meta(ge=2)]
    file: str
    step: Annotated[int, msgspec.Meta(ge=0)]
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    digest: str
    run: dict[str, Any] | None
    sha256: str


class Result(NamedTuple):
    """What is known about the result of a run.

    Args:
        step: completed steps, as its record says; None: not known.
        problem: why it is not the result of the run; empty: it is, or this cannot be checked.
        note: why it cannot be checked; empty: it can, or it is of a version that wrote no records.
    """

    step: int | None = None
    problem: str = ""
    note: str = ""


def write_result(
    output: OutputFolder, name: str, write: Callable[[Path], object], step: int, run: dict[str, Any] | None
) -> Path:
    """Writes a result and its record; both get their names when they are complete. Returns the path of the result.

    Args:
        output: the folder of the run.
        name: of the result in it.
        write: writes the result to a path.
        step: completed steps.
        run: content of the run's config.json.

    Raises:
        ForeignFileError: something that luxel did not write has one of the names.
        OSError: a file cannot be renamed or written.
    """
    path, record = output.path / name, Path(name).with_suffix(".json").name
    output.require([name, record])
    with output.batch() as batch:
        with batch.writing(name, path.suffix) as draft:
            write(draft.path)
            draft.content = Content(draft.path.stat().st_size, _hash(draft.path))
        body = {
            "format": FORMAT,
            "file": path.name,
            "step": step,
            "bytes": draft.content.size,
            "digest": draft.content.sha256,
            "run": run,
        }
        batch.write(record, json.dumps(sealed(body), indent=1).encode())
        batch.unlink_first(record)  # an old record alongside a new result would make it look damaged
    return path


def load_record(path: Path) -> Record:
    """Reads a record and verifies it.

    Raises:
        JsonError: it is damaged, or that of another file.
        OSError: it cannot be read.
    """
    raw = read_object(path)
    record = validated(raw, Record)
    if record.format > FORMAT:
        raise JsonError(f"format {record.format} is of a newer version of luxel")
    require_seal(raw)
    if not Path(record.file).stem or Path(record.file).with_suffix(".json").name != path.name:
        raise JsonError(f"it is the record of {record.file}")
    if record.run is not None:
        identity_in(record.run)
    return record


def examine(path: Path, run: dict[str, Any] | None) -> Result:
    """Compares the result of a run with its record.

    Args:
        path: scene.ply or field.safetensors of a run folder.
        run: content of the run's config.json; None: not known.

    Raises:
        LuxelError: the result cannot be read.
    """
    identity = None if run is None else identity_in(run)
    record_path = path.with_suffix(".json")
    if not record_path.exists():
        if not path.exists() or identity is None:
            return Result()
        return Result(note=f"{path}: cannot be checked, as {record_path.name} is missing.")
    try:
        record = load_record(record_path)
    except (OSError, JsonError) as error:
        return Result(note=f"{path}: cannot be checked, as {record_path.name} is damaged ({error}).")
    own = None if record.run is None else identity_in(record.run)
    if run is not None and (own and own.id) != (identity and identity.id):
        return Result(problem=f"{record_path}: is of another run than config.json.")
    if not path.exists():
        return Result(record.step, f"{path}: is missing, though {record_path.name} is there.")
    try:
        size = path.stat().st_size
        if size != record.bytes:
            return Result(record.step, f"{path}: damaged or replaced ({size} bytes, not {record.bytes}).")
        if _hash(path) != record.digest:
            return Result(record.step, f"{path}: damaged or replaced (it does not match its checksum).")
    except OSError as error:
        raise LuxelError(
            f"{path}: cannot be read ({error.strerror or error}).", "Check its permissions and the disk."
        ) from error
    return Result(record.step)


def _hash(path: Path) -> str:
    with open_regular(path) as file:
        return content_of(file).sha256
