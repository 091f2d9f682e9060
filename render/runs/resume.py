"""Configurations of resumed runs, and whether their checkpoints and data are those of the run."""

from __future__ import annotations

import copy
from typing import Any

from luxel.render.runs.checkpoint import Checkpoint, CheckpointError
from luxel.render.runs.identity import identity_in
from luxel.render.runs.strict_json import JsonError, validated


def with_overrides(values: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """A configuration as plain values, with some of them replaced.

    Args:
        values: nested dictionaries, as config.json holds them; not modified.
        overrides: new values by dotted name, for example {"strategy.cap_max": 10**6}.
    """
    changed = copy.deepcopy(values)
    for name, value in overrides.items():
        *path, last = name.split(".")
        inner = changed
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return changed


def require_state(checkpoint: Checkpoint, schema: type) -> None:
    """Raises CheckpointError unless the state of a checkpoint has the entries of a msgspec structure."""
    try:
        validated(checkpoint.state, schema)
    except JsonError as error:
        raise CheckpointError(
            f"it lacks what a resumed run needs ({error}).", "Resume from another, or start a new run."
        ) from error


def has_other_data(body: dict[str, Any], digest: str) -> bool:
    """Whether a run is resumed on other data than it was started with.

    Args:
        body: content of its config.json.
        digest: of the data, see `luxel.render.runs.identity`; empty: not known.
    """
    identity = identity_in(body)
    return identity is not None and bool(identity.capture and digest) and identity.capture != digest
