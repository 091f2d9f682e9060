"""Messages of the freehand tools between a page and the server, on a websocket of their own.

Page to server, JSON text:

* ``{"type": "stroke", "number": n, "points": [u0, v0, u1, v1, ...], "radius": r, "mode": m, "last": b}``: a part of
  stroke n, which counts from 1 on. Points are places on the image, from (0, 0) at its upper left to (1, 1) at its lower
  right corner; ``radius`` is a fraction of the image's height, 0 for a lasso; ``mode`` is "add", "subtract" or null for
  that of the panel. A part begins where the part before it ended. A lasso has one part.
* ``{"type": "cancel", "number": n}``: stroke n selects nothing.
* ``{"type": "radius", "pixels": p}``: the page has changed the radius of the brush.

Server to page, JSON text: ``{"done": n}`` after each part of stroke n. The page sends the next part then, with all
points drawn meanwhile: nothing queues on a slow link or a slow machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from luxel.viewer.web.transport.json_fields import count, number, read_object

STROKE_PATH = "/luxel/strokes"
MAX_MESSAGE = 32768  # bytes
MAX_POINTS = 512  # of one message
MAX_STROKES = 2**31
MARGIN = 1.0  # how far outside the image a point may lie, in image sizes
MIN_RADIUS, MAX_RADIUS = 2, 200  # of the brush, pixels

StrokeMode = Literal["add", "subtract"]


@dataclass(frozen=True)
class StrokePart:
    """A part of a stroke.

    Args:
        number: of the stroke, from 1 on.
        points: u, v on the image, each in [0, 1] within it; at least one.
        radius: of the brush, as a fraction of the image's height; 0 for a lasso.
        mode: how the selection joins the old one; None: as the panel says.
        last: whether the stroke ends here.
    """

    number: int
    points: tuple[tuple[float, float], ...]
    radius: float
    mode: StrokeMode | None
    last: bool


@dataclass(frozen=True)
class StrokeCancelled:
    """The stroke of this number selects nothing."""

    number: int


@dataclass(frozen=True)
class BrushRadius:
    """The page has changed the radius of the brush, in pixels of the page."""

    pixels: float


StrokeMessage = StrokePart | StrokeCancelled | BrushRadius


def parse_stroke(message: str | bytes) -> StrokeMessage:
    """The message of a page.

    Raises:
        ValueError: it is not of this protocol, or a number is out of range.
    """
    fields = read_object(message, MAX_MESSAGE)
    if fields.get("type") == "stroke":
        return _part(fields)
    if fields.get("type") == "cancel":
        return StrokeCancelled(count(fields.get("number"), "number", MAX_STROKES))
    if fields.get("type") == "radius":
        return BrushRadius(number(fields.get("pixels"), "pixels", MIN_RADIUS, MAX_RADIUS))
    raise ValueError("unknown type of message")


def _part(fields: dict[str, Any]) -> StrokePart:
    given, mode, last = fields.get("points"), fields.get("mode"), fields.get("last")
    if not isinstance(given, list) or len(given) % 2 or not 1 <= len(given) // 2 <= MAX_POINTS:
        raise ValueError(f"points must be u and v of 1 to {MAX_POINTS} points")
    if mode not in (None, "add", "subtract") or not isinstance(last, bool):
        raise ValueError("mode must be add, subtract or null, and last true or false")
    values = [number(value, "points", -MARGIN, 1 + MARGIN) for value in given]
    radius = number(fields.get("radius"), "radius", 0, 1 + MARGIN)
    points = tuple(zip(values[::2], values[1::2], strict=True))
    return StrokePart(count(fields.get("number"), "number", MAX_STROKES), points, radius, mode, last)
