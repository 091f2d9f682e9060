"""Messages between the scripts around the image and the server, on a websocket of their own.

Page to server, JSON text of at most MAX_MESSAGE characters:

* ``{"type": "set", "name": "Show/Output", "value": "depth"}``: a kept control gets a value, checked as if the page had
  moved the control;
* ``{"type": "seek", "time": t}``: the time of a dynamic scene;
* ``{"type": "act", "name": "reset"}``: one of ACTIONS;
* ``{"type": "tool", "name": "lasso"}``: a tool of the toolbar is started, or stopped if it is active; an empty name
  stops the one that was started last; with ``"on": true`` it is started unless it is active;
* ``{"type": "press", "name": "delete"}``: a button of the toolbar;
* ``{"type": "bar", "name": "edits", "button": 0, "label": "Restore"}``: a button of a bar on the image, or ``"close"``;
* ``{"type": "divide", "value": v}``: the line between what is compared was dragged, in [0, 1];
* ``{"type": "end", "name": "extend", "value": 2000}``: a button of the card of an ended training, see
  `EndCard.press`; ``value`` is the number of further steps, and absent otherwise;
* ``{"type": "scheme", "dark": true}``: the colours of the page are dark;
* ``{"type": "hover", "u": u, "v": v}``: the cursor is there, while a tool follows it (see `ImageMarks`);
* ``{"type": "focus", "u": u, "v": v, "double": false}``: flies to the point that is visible at a position in the image,
  from (0, 0) at the upper left to (1, 1) at the lower right corner; ``double``: by a double click, which a tool may
  need;
* ``{"type": "share", ...}``: the Share menu, see `luxel.viewer.web.share.share_messages`.

Server to page, JSON text: objects whose ``type`` is ``hello`` (first, see `PageShell.hello`), ``values`` (retained
controls that have changed, by name), ``state`` (see `PageShell.state`), ``toolbar`` (see `Toolbar.state`),
``divider`` (see `Divider.state`), ``marks`` (see `ImageMarks.state`), ``bars`` (see `ImageBars.state`), ``end`` (see
`EndCard.state`), ``offer`` (fields of ``hello`` that have changed, as panels have come or gone), or one of those of
`luxel.viewer.web.share.menu.Share`. Of one type only the newest is sent, so that nothing queues on a slow link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from luxel.viewer.web.image_bar import CLOSE, MAX_BUTTONS
from luxel.viewer.web.share.share_messages import ShareMessage, parse_share
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
    """A tool of the toolbar is chosen; not checked yet. An empty name: the active one is left.

    ``on``: it is started, and stays where it is active.
    """

    name: str
    on: bool = False


@dataclass(frozen=True)
class PressMessage:
    """A button of the toolbar is pressed; not checked yet."""

    name: str


@dataclass(frozen=True)
class BarMessage:
    """A button of a bar on the image is pressed, or its cross, see `ImageBars.press`; not checked yet."""

    name: str
    button: int | str
    label: str


@dataclass(frozen=True)
class DivideMessage:
    """The line between what is compared was dragged, in [0, 1]."""

    value: float


@dataclass(frozen=True)
class EndMessage:
    """A button of the card of an ended training is pressed; not checked yet."""

    name: str
    value: int


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
    | BarMessage
    | DivideMessage
    | EndMessage
    | SchemeMessage
    | HoverMessage
    | FocusMessage
    | ShareMessage
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
        return ToolMessage(name, fields.get("on") is True) if kind == "tool" else PressMessage(name)
    if kind == "bar" and isinstance(name, str) and len(name) <= MAX_NAME:
        return _bar(name, fields.get("button"), fields.get("label", ""))
    if kind == "share":
        return parse_share(fields)
    if kind == "divide":
        return DivideMessage(number(fields.get("value"), "value", 0, 1))
    if kind == "end" and isinstance(name, str) and len(name) <= MAX_NAME:
        return EndMessage(name, round(number(fields.get("value", 0), "value", 0, 1e9)))
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


def _bar(name: str, button: object, label: object) -> BarMessage:
    if not isinstance(label, str) or len(label) > MAX_NAME:
        raise ValueError("the label of a button must be text")
    if button == CLOSE:
        return BarMessage(name, CLOSE, "")
    if isinstance(button, bool) or not isinstance(button, int) or not 0 <= button < MAX_BUTTONS:
        raise ValueError(f"a button must be a number from 0 to {MAX_BUTTONS - 1}, or {CLOSE!r}")
    return BarMessage(name, button, label)
