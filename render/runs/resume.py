"""Configurations of resumed runs."""

from __future__ import annotations

import copy
from typing import Any


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
