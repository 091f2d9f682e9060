"""Disables controls that have nothing to act on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def is_disabled(control: Any) -> bool:
    """Whether a control of viser is disabled; of a group of buttons its handle always says that it is not."""
    return bool(control._impl.props.disabled)


def disable(controls: Iterable[Any], off: bool) -> None:
    """Disables controls of viser, or enables them; each change is a message to the page.

    viser's page disables groups of buttons as it does single ones, but their handles refuse to.
    """
    for control in controls:
        if is_disabled(control) != off:
            control._impl.props.disabled = off
            control._queue_update("disabled", off)
