"""Configurations of resumed runs, and whether their checkpoints and data are those of the run."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from luxel.render.native import cpu_instructions
from luxel.render.runs.checkpoints.checkpoint import Checkpoint, CheckpointError
from luxel.render.runs.identity import CPU, identity_in
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


def say_other_instructions(checkpoint: Checkpoint, device: torch.device, say: Callable[[str], None]) -> None:
    """Says that a run goes on with other instructions of the CPU than its checkpoint was computed with.

    Args:
        checkpoint: that it is resumed from; those of earlier versions do not say what they were computed with.
        device: of the resumed run; nothing is said for a GPU.
        say: receives the message.
    """
    before, now = (checkpoint.run or {}).get("versions", {}).get(CPU), cpu_instructions()
    if device.type == "cpu" and isinstance(before, str) and now and before != now:
        say(
            f"Resumed with other instructions of the CPU ({now}; before: {before[:80]!r}): results agree up to "
            "rounding, not bit for bit."
        )


def has_other_data(body: dict[str, Any], digest: str) -> bool:
    """Whether a run is resumed on other data than it was started with.

    Args:
        body: content of its config.json.
        digest: of the data, see `luxel.render.runs.identity`; empty: not known.
    """
    identity = identity_in(body)
    return identity is not None and bool(identity.capture and digest) and identity.capture != digest
