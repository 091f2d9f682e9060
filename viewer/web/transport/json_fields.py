"""Reads the JSON messages of pages, which may be anything."""

from __future__ import annotations

import json
from typing import Any


def read_object(message: str | bytes, largest: int) -> dict[str, Any]:
    """The object that a message of at most ``largest`` characters is.

    Raises:
        ValueError: it is no text, too long, or no JSON object.
    """
    if isinstance(message, bytes) or len(message) > largest:
        raise ValueError(f"a message must be text of at most {largest} characters")
    try:
        fields = json.loads(message)
    except RecursionError:
        raise ValueError("a message must not be nested") from None
    if not isinstance(fields, dict):
        raise ValueError("a message must be an object")
    return fields


def number(value: Any, name: str, low: float, high: float) -> float:
    """A field that is a number in [low, high].

    Raises:
        ValueError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}")
    return float(value)


def count(value: Any, name: str, most: int) -> int:
    """A field that is an integer in [1, most].

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ValueError(f"{name} must be an integer from 1 to {most}")
    return value
