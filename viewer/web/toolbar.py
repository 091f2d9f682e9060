"""The toolbar on the image of one page: tools, one of which may be active, and actions on what is selected."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

log = logging.getLogger("luxel.viewer")

Act = Callable[[], object]
Tone = Literal["", "error", "busy"]
Group = Literal["select", "look"]
Place = Literal["tools", "selection", "line"]
GROUPS: tuple[Group, ...] = ("select", "look")


@dataclass(frozen=True)
class ToolbarTool:
    """A tool with an icon on the image. Panels own the tools: the toolbar only asks for them to start and stop.

    Args:
        name: unique on the page.
        label: as people read it.
        icon: of static/toolbar.js.
        key: of the keyboard, in lower case; empty: none.
        hint: one line that says what to do, shown while the tool is active.
        start, stop: called when it is chosen and left; each leads to `Toolbar.entered` or `Toolbar.left`.
        group: tools of one group stand together, those that select first.
        alone: whether it ends when another such tool is chosen; else it is switched on and off by itself.
        resume: called instead of ``start`` when a page that was loaded again had the tool; None: ``start`` is.
        folder: title of the panel with the tool's controls, which opens when it is chosen; empty: none.
    """

    name: str
    label: str
    icon: str
    key: str
    hint: str
    start: Act
    stop: Act
    group: Group = "select"
    alone: bool = True
    resume: Act | None = None
    folder: str = ""


@dataclass(frozen=True)
class ToolbarAction:
    """A button of the toolbar.

    Args:
        name: unique on the page.
        label: as people read it.
        key: as people read it, such as "Ctrl+Z"; empty: none.
        run: called when it is pressed.
        needs: the number of `Toolbar.update` that must not be 0 for it to be enabled; empty: it always is.
        place: at the tools; beside the number of selected primitives; or in the line of the active tool, where it is
            left out while it is not enabled.
    """

    name: str
    label: str
    key: str
    run: Act
    needs: str = ""
    place: Place = "selection"


class Toolbar:
    """What the toolbar of one page offers and shows; its methods may be called from any thread."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolbarTool] = {}
        self._actions: dict[str, ToolbarAction] = {}
        self._on: list[str] = []  # tools that are active, the newest last
        self._facts: dict[str, Any] = {}
        self._said: tuple[str, Tone] = ("", "")
        self._callbacks: list[Act] = []
        self._lock = threading.RLock()

    def add_tool(self, tool: ToolbarTool) -> None:
        """Adds a tool at the end."""
        self._tools[tool.name] = tool

    def add_action(self, action: ToolbarAction) -> None:
        """Adds an action at the end."""
        self._actions[action.name] = action

    def remove(self, *names: str) -> None:
        """Removes tools and actions, and what was said of an active one."""
        with self._lock:
            for name in names:
                self._tools.pop(name, None)
                self._actions.pop(name, None)
            if any(name in names for name in self._on):
                self._on = [name for name in self._on if name not in names]
                self._said = ("", "")
        self._changed()

    def on_change(self, callback: Act) -> None:
        """Calls ``callback`` whenever `state` may have changed."""
        self._callbacks.append(callback)

    def describe(self) -> dict[str, Any]:
        """The tools and actions, as JSON has them."""
        return {
            "tools": [
                {
                    "name": t.name,
                    "label": t.label,
                    "icon": t.icon,
                    "key": t.key,
                    "hint": t.hint,
                    "group": t.group,
                    "folder": t.folder,
                }
                for group in GROUPS
                for t in self._tools.values()
                if t.group == group
            ],
            "actions": [
                {"name": a.name, "label": a.label, "key": a.key, "place": a.place}
                for a in self._actions.values()
            ],
        }

    def state(self) -> dict[str, Any]:
        """Which tools are active, which actions are enabled, what is selected, and what is said; as JSON has it."""
        with self._lock:
            enabled = [a.name for a in self._actions.values() if not a.needs or self._facts.get(a.needs)]
            message, kind = self._said
            return {
                "active": list(self._on),
                "enabled": enabled,
                "message": message,
                "kind": kind,
                **self._facts,
            }

    def has_tool(self, name: str) -> bool:
        """Whether there is a tool of this name."""
        return name in self._tools

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the tools that are active."""
        return tuple(self._on)

    def choose(self, name: str) -> None:
        """Starts a tool, or stops it if it is active; an empty name stops the one that was started last."""
        with self._lock:
            tool = self._tools.get(name or (self._on[-1] if self._on else ""))
            is_on = tool is not None and tool.name in self._on
        if tool is not None:
            (tool.stop if is_on else tool.start)()

    def resume(self, name: str) -> None:
        """Starts a tool that a page had before it was loaded again, unless it is active or there is none any more."""
        tool = self._tools.get(name)
        if tool is not None and name not in self._on:
            (tool.resume or tool.start)()

    def entered(self, name: str) -> None:
        """Called by a tool's owner when it has become active: others that cannot be active beside it are stopped."""
        with self._lock:
            others = [self._tools[n] for n in self._on if n != name and self._tools[n].alone]
            self._on = [n for n in self._on if n != name] + [name]
            self._said = ("", "")
        if self._tools[name].alone:
            for other in others:
                other.stop()
        self._changed()

    def left(self, name: str) -> None:
        """Called by a tool's owner when it is active no more."""
        with self._lock:
            if name not in self._on:
                return
            self._on.remove(name)
            self._said = ("", "")
        self._changed()

    def run(self, name: str) -> None:
        """Presses a button; nothing happens where it is not enabled."""
        action = self._actions.get(name)
        if action is not None and name in self.state()["enabled"]:
            action.run()

    def say(self, message: str, kind: Tone = "") -> None:
        """Shows a line on the image instead of the active tool's hint.

        Args:
            message: plain text; empty: the hint is shown again.
            kind: "error", or "busy" while something is being computed.
        """
        with self._lock:
            if self._said == (message, kind):
                return
            self._said = (message, kind)
        self._changed()

    def update(self, **facts: Any) -> None:
        """Takes what the toolbar shows and what actions need: ``selected``, ``hidden``, ``noun``, titles ``undo`` and
        ``redo``, and others that actions name."""
        with self._lock:
            if all(name in self._facts and self._facts[name] == value for name, value in facts.items()):
                return
            self._facts.update(facts)
        self._changed()

    def _changed(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # the page may be gone
                log.debug("the toolbar of a page could not be shown", exc_info=True)
