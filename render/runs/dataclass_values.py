"""Dataclasses from plain values, as read from JSON."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Literal, TypeVar

from luxel.render.bounds import OutOfBounds
from luxel.render.errors import LuxelError

_T = TypeVar("_T")


def from_plain(cls: type[_T], values: dict[str, Any], prefix: str) -> _T:
    """Builds a dataclass, nested dataclasses included, from plain values.

    Args:
        cls: the dataclass.
        values: by field name; absent fields take their defaults.
        prefix: of field names in error messages.

    Raises:
        LuxelError: an unknown field name or a value of the wrong type.
        OutOfBounds: a number that is not within the bounds of its field.
    """
    hints = typing.get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in hints:
            raise LuxelError(
                f"config.json: unknown field {prefix}{name}.", "It may come from another version of luxel."
            )
        hint = hints[name]
        if dataclasses.is_dataclass(hint) and isinstance(value, dict):
            value = from_plain(typing.cast(type, hint), value, f"{prefix}{name}.")
        elif not _fits(value, hint):
            raise LuxelError(f"config.json: {prefix}{name} cannot be {value!r}.", "Correct that field.")
        arguments[name] = value
    try:
        return cls(**arguments)
    except OutOfBounds as error:
        raise error.within(prefix) from None


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON has the type of a field."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return value in typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in typing.get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
