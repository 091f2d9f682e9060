"""What scene files say besides their primitives, as names with values that headers can hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from luxel.scenes.files.axes import matrix_between
from luxel.scenes.files.scene_format import FACTS, SceneFacts

COMMENT = "luxel"  # before the name of a fact in a comment of a PLY header
VERTICAL = ("vertical", "axis:")  # nerfstudio's comment "Vertical Axis: z"
RENDER_MODE = "splatrendermode:"  # the comment of Brush, gsplat, nerfstudio and splat-transform
RENDER_MODES = {"mip": True, "default": False}  # whether the opacity is compensated for the filter of a pixel
MARKS = {"1": True, "true": True, "0": False, "false": False}  # of Postshot's comment "antialiased 1"
DIRECTIONS = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def facts_to(facts: SceneFacts) -> dict[str, Any]:
    """The facts that are known, by name: antialiased a bool, up and shift three numbers, metres a number."""
    known = {name: getattr(facts, name) for name in FACTS}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in known.items() if v is not None}


def facts_from(values: Mapping[str, Any]) -> SceneFacts:
    """The reverse of `facts_to`, also of values that `in_words` made; what is no such value is not known."""
    return SceneFacts(
        antialiased={True: True, False: False, "true": True, "false": False}.get(
            _plain(values, "antialiased")
        ),
        up=_direction(values.get("up")),
        metres=next((x for x in _numbers(values.get("metres")) if x > 0), None),
        shift=_shift(values.get("shift")),
    )


def facts_between(facts: SceneFacts, source: str, target: str) -> SceneFacts:
    """Facts from some axes to others, see `luxel.scenes.files.axes.matrix_between`."""
    if source == target:
        return facts
    return replace(facts, up=_turned(facts.up, source, target), shift=_turned(facts.shift, source, target))


def _turned(
    vector: tuple[float, float, float] | None, source: str, target: str
) -> tuple[float, float, float] | None:
    if vector is None:
        return None
    x, y, z = (matrix_between(source, target) @ vector).tolist()
    return x, y, z


def in_words(facts: SceneFacts) -> dict[str, str]:
    """The facts that are known, as text: "true" or "false", "x y z", a number."""
    return {
        name: " ".join(map(repr, value)) if isinstance(value, list) else str(value).lower()
        for name, value in facts_to(facts).items()
    }


def comments_of(facts: SceneFacts) -> list[str]:
    """Comments for the header of a PLY file, one a fact: "luxel up 0.0 -1.0 0.0"."""
    return [f"{COMMENT} {name} {value}" for name, value in in_words(facts).items()]


def facts_in(comments: Iterable[str]) -> SceneFacts:
    """The facts in the comments of a PLY header: those of luxel, and the marks that other programs write.

    These are "Vertical Axis: z" (nerfstudio), and "SplatRenderMode: mip" or "default" (Brush, gsplat, nerfstudio,
    splat-transform) and "antialiased 1" or "0" (Postshot), the last of which counts. luxel's own come first.
    """
    own: dict[str, Any] = {}
    foreign: dict[str, Any] = {}
    for words in (comment.split() for comment in comments):
        lower = [word.lower() for word in words]
        if len(words) > 2 and words[0] == COMMENT:
            own[words[1]] = " ".join(words[2:])
        elif len(words) == 3 and tuple(lower[:2]) == VERTICAL:
            foreign.setdefault("up", DIRECTIONS.get(lower[2]))
        elif (mark := antialiasing_mark(lower)) is not None:
            foreign["antialiased"] = mark
    return facts_from(foreign | own)


def antialiasing_mark(words: list[str]) -> bool | None:
    """What the words of a comment of another program, in lower case, say of antialiasing; None: nothing."""
    if len(words) != 2:
        return None
    if words[0] == RENDER_MODE:
        return RENDER_MODES.get(words[1])
    return MARKS.get(words[1]) if words[0].rstrip(":") == "antialiased" else None


def _plain(values: Mapping[str, Any], name: str) -> bool | str | None:
    value = values.get(name)
    return value if isinstance(value, bool | str) else None


def _direction(value: Any) -> tuple[float, float, float] | None:
    """Three numbers as a direction of length 1; None: they are none."""
    numbers = _numbers(value)
    length = math.hypot(*numbers)
    if len(numbers) != 3 or not 1e-12 < length < math.inf:
        return None
    x, y, z = (number / length for number in numbers)
    return x, y, z


def _shift(value: Any) -> tuple[float, float, float] | None:
    """Three numbers; None: they are none, or all are 0."""
    numbers = _numbers(value)
    if len(numbers) != 3 or not any(numbers):
        return None
    x, y, z = numbers
    return x, y, z


def _numbers(value: Any) -> list[float]:
    """The finite numbers of a text, a list or a number; empty where one is no such number."""
    parts = value.split() if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    try:
        numbers = [float(part) for part in parts if not isinstance(part, bool)]
    except (TypeError, ValueError, OverflowError):
        return []
    return numbers if all(math.isfinite(number) for number in numbers) else []
