"""JSON of run folders: strictly read, bounded in size and depth, with a digest over its content.

A digest is the SHA-256 of the canonical form: keys sorted, no white space, ASCII. So it does not depend on how the file
is indented.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from luxel.render.storage.descriptors import open_regular

DIGEST = "sha256"  # the key that holds the digest of the other entries
LARGEST = 64 << 20  # bytes
DEEPEST = 64  # objects and arrays within each other

_T = TypeVar("_T")


class JsonError(ValueError):
    """A file is no JSON that a run folder may hold; the text says why, without the name of the file."""


def read_object(path: Path) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Raises:
        JsonError: see `parse_object`, or the file is larger than `LARGEST`.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise _too_large()
        raw = file.read(LARGEST + 1)
    return parse_object(raw)


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``, UTF-8.

    Raises:
        JsonError: it is no JSON or no object, too large or too deeply nested, has a key twice, a number that is not
            finite, or an integer beyond 64 bits.
    """
    if len(raw) > LARGEST:
        raise _too_large()
    try:
        body = json.loads(
            raw.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates
        )
    except RecursionError:
        raise JsonError(f"it is nested more than {DEEPEST} levels deep") from None
    except JsonError:
        raise
    except ValueError as error:  # no JSON, no UTF-8, or an integer of thousands of digits
        raise JsonError(f"it is no JSON: {error}" if raw else "it is empty") from None
    if not isinstance(body, dict):
        raise JsonError("it is no JSON object")
    _check(body)
    return body


def validated(value: Any, schema: type[_T]) -> _T:
    """The value as a msgspec structure or another annotated type.

    Raises:
        JsonError: an entry is missing or has another type; the text names it.
    """
    try:
        return msgspec.convert(value, schema)
    except (msgspec.ValidationError, UnicodeError, RecursionError, OverflowError) as error:
        raise JsonError(str(error)) from None


def finite(value: Any) -> Any:
    """A copy of plain values in which numbers that are not finite are None; JSON has no such numbers."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): finite(inner) for name, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical form of plain values, in hexadecimal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """The entries with their digest as the last one."""
    rest = {name: value for name, value in body.items() if name != DIGEST}
    return {**rest, DIGEST: digest_of(rest)}


def require_seal(body: dict[str, Any]) -> None:
    """Raises JsonError unless the entries match their digest."""
    rest = {name: value for name, value in body.items() if name != DIGEST}
    if DIGEST not in body:
        raise JsonError("its checksum is missing")
    if body[DIGEST] != digest_of(rest):
        raise JsonError("it does not match its checksum")


def _too_large() -> JsonError:
    return JsonError(f"it has more than {LARGEST >> 20} MiB")


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"it holds {name}, which is no JSON number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        raise JsonError("a key occurs twice in one object")
    return body


def _check(body: Any) -> None:
    """Raises JsonError where values are nested too deeply or numbers cannot be represented."""
    level = [body]
    for _ in range(DEEPEST):
        following: list[Any] = []
        for value in level:
            if isinstance(value, float) and not math.isfinite(value):
                raise JsonError("a number is too large")
            if isinstance(value, int) and not -(2**63) <= value < 2**64:
                raise JsonError("an integer has more than 64 bits")
            if isinstance(value, dict | list):
                following.extend(value.values() if isinstance(value, dict) else value)
        if not following:
            return
        level = following
    raise JsonError(f"it is nested more than {DEEPEST} levels deep")
