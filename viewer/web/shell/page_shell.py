"""The server's end of what lies around the image of one page: retained controls, actions, and what the page is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from luxel.viewer.web.access.control_values import Refused, checked_value
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.navigate import MAX_SIDE
from luxel.viewer.web.page import Page
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.share.share_messages import ShareMessage
from luxel.viewer.web.shell.messages import (
    ActionMessage,
    BarMessage,
    DivideMessage,
    EndMessage,
    FocusMessage,
    HoverMessage,
    PressMessage,
    SchemeMessage,
    SeekMessage,
    SetMessage,
    ShellMessage,
    ToolMessage,
)
from luxel.viewer.web.shell.start_view import scene_key

log = logging.getLogger("luxel.viewer")

Send = Callable[[dict[str, Any]], None]
"""Sends a message to the page; one that waits is replaced by the next of its type."""

REDUCED = 0.85  # share of the width below which an image is called reduced


class PageShell:
    """Connects one page with the scripts around its image.

    Args:
        page: the page, its panels built.
        panels: of the page; the controls that they list in ``persisted`` are retained by the browser.
    """

    def __init__(self, page: Page, panels: Sequence[Panel]) -> None:
        self._page = page
        self._panels = panels
        self._controls: dict[str, Any] = {}
        self._of_tools: set[str] = set()  # hidden unless their tool is active
        self._send: Send = _discard
        self._state: dict[str, Any] = {}
        self._follow_controls()
        page.on_report(self.report)
        page.toolbar.on_change(self._show_toolbar)
        page.divider.on_change(self._show_divider)
        page.marks.on_change(self._show_marks)
        page.bars.on_change(self._show_bars)
        page.end_card.on_change(self._show_end)

    def _follow_controls(self) -> None:
        """Finds the retained controls, and follows those that are new."""
        tools = {f"{p.title}/{name}": each for p in self._panels for name, each in p.stored().items()}
        self._of_tools = set(tools)
        stored = stored_controls(self._page.client.gui, self._panels)
        known, self._controls = self._controls, {**stored, **tools}
        for name, handle in self._controls.items():
            if known.get(name) is not handle:
                handle.on_update(lambda _: self._send({"type": "values", "values": self.values()}))

    def fit(self) -> None:
        """Sends what the page offers now, as panels have come or gone or the training has ended."""
        self._follow_controls()
        hello = self.hello()
        fields = ("trains", "outputs", "values", "toolbar", "commands")
        self._send({"type": "offer", **{name: hello[name] for name in fields}})
        self._show_toolbar()
        self._show_end()

    def connect(self, send: Send) -> None:
        """Sends through ``send`` from now on, first what the page needs to know."""
        self._send = send
        send(self.hello())
        self._show_toolbar()
        self._show_divider()
        self._show_end()
        self._page.share.connect(send)
        self._show_marks()
        self._show_bars()
        self._state = {}
        self.report(self._page.stream.last_report)

    def _show_toolbar(self) -> None:
        self._send({"type": "toolbar", **self._page.toolbar.state()})

    def _show_divider(self) -> None:
        self._send({"type": "divider", **self._page.divider.state()})

    def _show_end(self) -> None:
        self._send({"type": "end", **self._page.end_card.state()})

    def _show_marks(self) -> None:
        self._send({"type": "marks", **self._page.marks.state()})

    def _show_bars(self) -> None:
        self._send({"type": "bars", **self._page.bars.state()})

    def disconnect(self, send: Send) -> None:
        """Stops sending through ``send``."""
        if self._send is send:
            self._send = _discard
            self._page.share.disconnect()

    def values(self) -> dict[str, Any]:
        """The retained controls by name, their values as JSON has them."""
        values = ((name, handle.value) for name, handle in self._controls.items())
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    def hello(self) -> dict[str, Any]:
        """What the scripts need to know: a key of the scene, its size, outputs and times, and the retained controls."""
        page, session = self._page, self._page.session
        output = self._controls.get("Show/Output")
        return {
            "type": "hello",
            "scene": scene_key(session, page.extent),
            "name": session.name,
            "radius": page.extent.radius,
            "flat": session.about.flat,
            "trains": session.trains,
            "times": session.times,
            "outputs": [] if output is None else list(output.options),
            "values": self.values(),
            "toolbar": page.toolbar.describe(),
            "commands": commands_of(page.client.gui),
        }

    def state(self, report: StreamReport) -> dict[str, Any]:
        """Whether there is an image, and what is said over it: error, reduced size, time, and whether it is paused."""
        page = self._page
        camera, resolution = page.client.camera, page.stream.settings.resolution
        side = max(camera.image_width, camera.image_height, 1)
        scale = min(resolution, MAX_SIDE / side)
        full = [round(camera.image_width * scale), round(camera.image_height * scale)]
        reduced = bool(report.fps) and 0 < report.width < REDUCED * full[0]
        return {
            "type": "state",
            "shown": report.width > 0,
            "error": report.error,
            "moving": [report.width, report.height] if reduced else None,
            "full": full if reduced else None,
            "time": report.time,
            "playing": report.playing,
            "paused": page.session.paused,
        }

    def report(self, report: StreamReport) -> None:
        """Sends the state if it has changed."""
        state = self.state(report)
        if state != self._state:
            self._state = state
            self._send(state)

    def receive(self, message: ShellMessage) -> None:
        """Does what the page asks for; called in a thread, one message at a time."""
        if isinstance(message, SetMessage):
            self._set(message.name, message.value)
        elif isinstance(message, SeekMessage):
            self._page.seek(message.time)
        elif isinstance(message, FocusMessage):
            if not (message.double and self._page.clickable):
                self._page.focus(message.u, message.v)
        elif isinstance(message, ToolMessage):
            toolbar = self._page.toolbar
            (toolbar.resume if message.on else toolbar.choose)(message.name)
        elif isinstance(message, PressMessage):
            self._page.toolbar.run(message.name)
        elif isinstance(message, ShareMessage):
            self._page.share.receive(message)
        elif isinstance(message, DivideMessage):
            self._page.divider.move(message.value)
        elif isinstance(message, EndMessage):
            self._page.end_card.press(message.name, message.value)
        elif isinstance(message, SchemeMessage):
            self._page.follow_scheme(message.dark)
        elif isinstance(message, HoverMessage):
            self._page.marks.hover(message.u, message.v)
        elif isinstance(message, BarMessage):
            self._page.bars.press(message.name, message.button, message.label)
        elif isinstance(message, ActionMessage):
            self._act(message.name)

    def _set(self, name: str, value: Any) -> None:
        handle = self._controls.get(name)
        if handle is None:
            return
        try:
            checked = checked_value(handle, value, hidden=name in self._of_tools)
        except Refused as refused:
            log.debug("A stored value of %s was refused: %s.", name, refused)
            self._send({"type": "values", "values": self.values()})
            return
        handle.value = tuple(checked) if isinstance(handle.value, tuple) else checked

    def _act(self, name: str) -> None:
        page, stream = self._page, self._page.stream
        if name == "reset":
            page.reset()
        elif name == "pause" and page.session.trains:
            (page.session.resume if page.session.paused else page.session.pause)()
        elif name == "play" and stream.playback is not None:
            (stream.pause if stream.playing else stream.play)()


def stored_controls(gui: Any, panels: Sequence[Panel]) -> dict[str, Any]:
    """The controls that the panels list in ``persisted``, by ``Panel title/Label``."""
    listed = {f"{panel.title}/{label}" for panel in panels for label in panel.persisted}
    folders = gui._container_handle_from_uuid
    controls: dict[str, Any] = {}
    for handle in list(gui._gui_input_handle_from_uuid.values()):
        top, parent = "", folders.get(handle._impl.parent_container_id)
        while parent is not None and hasattr(parent, "_impl"):
            top = parent.label or top
            parent = folders.get(parent._impl.parent_container_id)
        label = getattr(handle, "label", "")  # a progress bar has none
        if (name := f"{top}/{label}") in listed:
            controls[name] = handle
    return controls


def commands_of(gui: Any) -> list[tuple[str, str]]:
    """Keys and labels of the commands of the panels, for the list of controls."""
    handles = getattr(gui, "_command_handle_from_uuid", {})
    listed = []
    for handle in list(handles.values()):
        if handle.hotkey is not None:
            keys = [*(handle.modifier or "").replace("cmd/ctrl", "ctrl").split("+"), handle.hotkey]
            listed.append((" ".join(key.capitalize() for key in keys if key), handle.label))
    return listed


def _discard(message: dict[str, Any]) -> None:
    pass
