"""Damages to the files of a run folder, by seed: what disks, copies and editors do to them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from luxel.render.runs.strict_json import DIGEST, sealed

VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    999,
    2**70,
    -0.5,
    1e308,
    "",
    "x",
    [],
    {},
    [[1]],
    {"a": None},
    "0" * 64,
]
RAW = ["Infinity", "-Infinity", "NaN", "9" * 5000, "1e999", "[" * 100_000 + "]" * 100_000, '"\\ud800"']


def files_of(folder: Path) -> list[Path]:
    """All files of a run folder, sorted, relative to it."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def flip(path: Path, rng: random.Random) -> None:
    """Changes one bit."""
    raw = bytearray(path.read_bytes())
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)


def cut(path: Path, rng: random.Random) -> None:
    """Keeps the beginning."""
    raw = path.read_bytes()
    path.write_bytes(raw[: rng.randrange(1, len(raw))])


def empty(path: Path, rng: random.Random) -> None:
    """Keeps the name."""
    path.write_bytes(b"")


def delete(path: Path, rng: random.Random) -> None:
    """Keeps nothing."""
    path.unlink()


def zeros(path: Path, rng: random.Random) -> None:
    """Overwrites a block with zeros, as after a crash of the machine."""
    raw = bytearray(path.read_bytes())
    start = rng.randrange(len(raw))
    raw[start : start + 512] = bytes(len(raw[start : start + 512]))
    path.write_bytes(raw)


DAMAGES: list[Callable[[Path, random.Random], None]] = [flip, cut, empty, delete, zeros]


def swap(first: Path, second: Path) -> None:
    """Exchanges two files."""
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def mutate(path: Path, rng: random.Random, *, reseal: bool = False) -> None:
    """Changes one key, type or value of a JSON file, or of one line of a .jsonl file.

    Args:
        reseal: also correct the checksums, as a program with a fault would.
    """
    if path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        index = rng.randrange(len(lines))
        lines[index] = _mutated(json.loads(lines[index]), rng, False)
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(_mutated(json.loads(path.read_text()), rng, reseal))


def _mutated(body: Any, rng: random.Random, reseal: bool) -> str:
    body = copy.deepcopy(body)
    places = [place for place in _places(body) if not (reseal and place[1] == DIGEST)]
    holder, key = rng.choice(places)
    before, action = holder[key], rng.randrange(6)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[str(key) + "x"] = holder.pop(key)
    elif action == 2:
        holder[key] = _near(before)
    elif action == 3:
        other, place = rng.choice(places)
        holder[key], other[place] = other[place], before
    else:
        holder[key] = rng.choice(VALUES)
    if action == 4:
        holder[key] = "@RAW@"
    try:
        if reseal and isinstance(body, dict):
            inner = body.get("run")
            if isinstance(inner, dict):
                body["run"] = sealed(inner)
            body = sealed(body)
        return json.dumps(body).replace('"@RAW@"', rng.choice(RAW))
    except ValueError:  # swapped into itself
        return "{}"


def _near(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return value + "x" if isinstance(value, str) else type(value)() if value is not None else 0


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    inner = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, below in inner:
        yield value, key
        if isinstance(below, dict | list):
            yield from _places(below)
