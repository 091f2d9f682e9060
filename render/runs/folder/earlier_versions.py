"""Runs of luxel 0.2.0 and earlier have no manifest: what they wrote is identified by its content."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from luxel.render.errors import LuxelError
from luxel.render.runs.checkpoints.checkpoint import available, load
from luxel.render.runs.folder.metrics_log import NAME as METRICS
from luxel.render.runs.folder.results import RECORDS, examine, load_record
from luxel.render.runs.folder.run_config import FILE
from luxel.render.runs.identity import identity_in
from luxel.render.runs.strict_json import JsonError, read_object
from luxel.render.storage.folder import OutputFolder

RESULTS = ("scene.ply", "scene.json", "field.safetensors", "field.json")
_RENDER = re.compile(r"[\w.-]+\.png")


def adopt_earlier_version(output: OutputFolder) -> bool:
    """Adds to the manifest of a run what an earlier version of luxel wrote there: config.json, checkpoints that match
    it, results that match their records, the log and renders.

    Args:
        output: the folder of the run.

    Returns:
        Whether it did: there was no manifest, and config.json and a checkpoint or a result are of one run.
    """
    folder = output.path
    if output.manifest.exists() or not (folder / FILE).is_file():
        return False
    try:
        body = read_object(folder / FILE)
        identity_in(body)
    except (OSError, JsonError):
        return False
    names = [*_checkpoints(folder, body), *_results(folder, body)]
    if not names:
        return False
    renders = folder / "renders"
    if renders.is_dir() and not renders.is_symlink():
        names += [f"renders/{name}" for name in os.listdir(renders) if _RENDER.fullmatch(name)]
    output.adopt([FILE, METRICS, *names])
    return True


def is_sealed_config(folder: Path) -> bool:
    """Whether a folder has a config.json with the identity of a run and a digest that matches."""
    try:
        return identity_in(read_object(folder / FILE)) is not None
    except (OSError, JsonError):
        return False


def _checkpoints(folder: Path, body: dict) -> Iterator[str]:
    """Files of complete checkpoints of the run of a config.json."""
    position = folder / "checkpoints"
    if position.is_symlink():
        return
    for _, path in available(position):
        with contextlib.suppress(LuxelError):
            checkpoint = load(path)
            if _id(checkpoint.run) in (_id(body), None):
                yield f"checkpoints/{path.name}"
                yield f"checkpoints/{path.stem}.safetensors"


def _results(folder: Path, body: dict) -> Iterator[str]:
    """Results of the run of a config.json that match their records; before records there were none to check by."""
    for record in RECORDS:
        name = next(name for name in RESULTS if name != record and Path(name).stem == Path(record).stem)
        with contextlib.suppress(LuxelError, JsonError, OSError):
            if not (folder / record).exists() and _id(body) is None and (folder / name).is_file():
                yield name
                continue
            if _id(load_record(folder / record).run) == _id(body):
                yield record
                if not examine(folder / name, body).problem:
                    yield name


def _id(run: dict | None) -> str | None:
    identity = None if run is None else identity_in(run)
    return None if identity is None else identity.id
