"""Messages between the scripts around the image and the server, on a websocket of their own.

Page to server, JSON text of at most MAX_MESSAGE characters:

* ``{"type": "set", "name": "Show/Output", "value": "depth"}``: a kept control gets a value, checked as if the page had
  moved the control;
* ``{"type": "seek", "time": t}``: the time of a dynamic scene;
* ``{"type": "act", "name": "reset"}``: one of ACTIONS;
* ``{"type": "tool", "name": "lasso"}``: a tool of the toolbar is started, or stopped if it is active; an empty name
  stops the one that was started last;
* ``{"type": "press", "name": "delete"}``: a button of the toolbar;
* ``{"type": "divide", "value": v}``: the line between what is compared was dragged, in [0, 1];
* ``{"type": "scheme", "dark": true}``: the colours of the page are dark;
* ``{"type": "hover", "u": u, "v": v}``: the cursor is there, while a tool follows it (see `ImageMarks`);
* ``{"type": "focus", "u": u, "v": v, "double": false}``: flies to the point that is visible at a position in the image,
  from (0, 0) at the upper left to (1, 1) at the lower right corner; ``double``: by a double click, which a tool may
  need.

Server to page, JSON text: objects whose ``type`` is ``hello`` (first, see `PageShell.hello`), ``values`` (retained
controls that have changed, by name), ``state`` (see `PageShell.state`), ``toolbar`` (see `Toolbar.state`),
``divider`` (see `Divider.state`) or ``marks`` (see `ImageMarks.state`). Of one type only the newest is sent, so that
nothing queues on a slow link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from luxel.viewer.web.transport.json_fields import number, read_object

SHELL_PATH = "/luxel/shell"
MAX_MESSAGE = 4096  # characters
MAX_NAME = 200  # characters
ACTIONS = ("reset", "pause", "play")


@dataclass(frozen=True)
class SetMessage:
    """A kept control gets a value, which is not checked yet."""

    name: str
    value: Any


@dataclass(frozen=True)
class SeekMessage:
    """The page shows this time of a dynamic scene."""

    time: float


@dataclass(frozen=True)
class ActionMessage:
    """``reset``: back to the first view; ``pause``: pauses or continues the training; ``play``: the playback."""

    name: str


@dataclass(frozen=True)
class ToolMessage:
    """A tool of the toolbar is chosen; not checked yet. An empty name: the active one is left."""

    name: str


@dataclass(frozen=True)
class PressMessage:
    """A button of the toolbar is pressed; not checked yet."""

    name: str


@dataclass(frozen=True)
class DivideMessage:
    """The line between what is compared was dragged, in [0, 1]."""

    value: float


@dataclass(frozen=True)
class SchemeMessage:
    """The colours of the page are dark, or light."""

    dark: bool


@dataclass(frozen=True)
class HoverMessage:
    """The cursor is at (u, v) of the image, both in [0, 1]."""

    u: float
    v: float


@dataclass(frozen=True)
class FocusMessage:
    """Flies to what is visible at (u, v) of the image, both in [0, 1]; ``double``: by a double click."""

    u: float
    v: float
    double: bool


ShellMessage = (
    SetMessage
    | SeekMessage
    | ActionMessage
    | ToolMessage
    | PressMessage
    | DivideMessage
    | SchemeMessage
    | HoverMessage
    | FocusMessage
)


def parse_shell(message: str | bytes) -> ShellMessage:
    """The message of a page.

    Raises:
        ValueError: it is not of this protocol, or a number is out of range.
    """
    fields = read_object(message, MAX_MESSAGE)
    kind, name = fields.get("type"), fields.get("name")
    if kind == "set" and isinstance(name, str) and len(name) <= MAX_NAME and "value" in fields:
        return SetMessage(name, fields["value"])
    if kind == "seek":
        return SeekMessage(number(fields.get("time"), "time", -1e12, 1e12))
    if kind == "act" and name in ACTIONS:
        return ActionMessage(str(name))
    if kind in ("tool", "press") and isinstance(name, str) and len(name) <= MAX_NAME:
        return ToolMessage(name) if kind == "tool" else PressMessage(name)
    if kind == "divide":
        return DivideMessage(number(fields.get("value"), "value", 0, 1))
    if kind == "scheme" and isinstance(fields.get("dark"), bool):
        return SchemeMessage(fields["dark"])
    if kind == "hover":
        return HoverMessage(number(fields.get("u"), "u", 0, 1), number(fields.get("v"), "v", 0, 1))
    if kind == "focus":
        return FocusMessage(
            number(fields.get("u"), "u", 0, 1),
            number(fields.get("v"), "v", 0, 1),
            bool(fields.get("double")),
        )
    raise ValueError("unknown type of message, or a field is missing")
