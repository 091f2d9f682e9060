"""Ruler: lengths in the scene, the scale by a known length, and the up direction by points of the floor."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from luxel.scenes.measuring import operations
from luxel.scenes.measuring.lengths import UNITS, length_in_words
from luxel.scenes.measuring.measurements import Ruler
from luxel.viewer.measure.ruler_files import rulers_as_csv, rulers_as_json
from luxel.viewer.measure.shared_measurements import SharedMeasurements, is_measurable
from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.inspection.ruler_lines import RulerLines
from luxel.viewer.web.page import Click
from luxel.viewer.web.panels.action_message import ActionMessage
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text, table
from luxel.viewer.web.session import Session
from luxel.viewer.web.toolbar import ToolbarTool
from luxel.viewer.web.transport.keyed_server import run_script

NONE = "none yet"
NEW, START, END, LEVEL = "new", "start", "end", "level"  # what the next clicks are for
CLICKS = {NEW: 2, START: 1, END: 1, LEVEL: 3}
ASKED = {
    NEW: ("Click the first point", "Click the second point"),
    START: ("Click where the start is to be",),
    END: ("Click where the end is to be",),
    LEVEL: (
        "Click a point of the floor",
        "Click a second one, far away",
        "Click a third one, off their line",
    ),
}

LEVEL_BY_POINTS = "Level by three points"
# Name, label, icon and key on the image.
TOOLS = {NEW: ("Ruler", "Ruler", "ruler", "m"), LEVEL: ("Level", LEVEL_BY_POINTS, "level", "j")}


class RulerPanel(Panel):
    """The rulers of a page; they, the scale, the up direction and their history are those of all pages."""

    title = "Ruler"
    unfolded = False
    persisted = ("Show rulers", "Handles", "Unit")

    @classmethod
    def available(cls, session: Session) -> bool:
        """For scenes in space, also while they are trained."""
        return is_measurable(session)

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        self.shared = SharedMeasurements.of(self.page.session)
        self._name = self._named = ""  # of the chosen ruler; in the field
        self._task, self._points = "", []
        self._lines = RulerLines(self.page, self.shared, self._move)
        self._list = gui.add_html("")
        self._said = ActionMessage(gui)
        self._show = gui.add_checkbox("Show rulers", True)
        self._chosen = gui.add_dropdown("Ruler", (NONE,), disabled=True)
        self._build_rulers(gui)
        with gui.add_folder("Scale"):
            self._build_scale(gui)
        with gui.add_folder("Level", expand_by_default=False):
            self._build_level(gui)
        undo = gui.add_button_group("", ["Undo", "Redo"], hint="Of rulers, scale and level")
        undo.on_click(lambda _: self.shared.undo() if undo.value == "Undo" else self.shared.redo())
        files = gui.add_button_group("", ["Save JSON", "Save CSV"], hint="Downloads the rulers")
        files.on_click(lambda _: self.download(files.value == "Save CSV"))
        self._show.on_update(lambda _: self.refresh())
        self._chosen.on_update(lambda event: self.choose(event.target.value) if event.client else None)
        for task, described in TOOLS.items():
            self.page.toolbar.add_tool(
                ToolbarTool(
                    *(*described, ASKED[task][0]),
                    start=lambda task=task: self.begin(task),
                    stop=self.end,
                    group="look",
                    folder=self.title if task == NEW else "",
                )
            )

    def _build_rulers(self, gui: Any) -> None:
        self._new = gui.add_button("New ruler", hint="Then click its two ends in the image")
        self._new.on_click(lambda _: self.begin(NEW))
        ends = gui.add_button_group("", ["Move start", "Move end"], hint="Then click the image")
        ends.on_click(lambda _: self.begin(START if ends.value == "Move start" else END))
        self._handles = gui.add_checkbox("Handles", False, hint="Arrows at both ends, which move them")
        self._handles.on_update(lambda _: self.refresh())
        self._length = gui.add_text("Length", "", disabled=True)
        self._new_name = gui.add_text("Name", "", hint="Of the chosen ruler")
        buttons = gui.add_button_group("", ["Rename", "Delete", "Copy"], hint="Copy copies the length")
        actions = {"Rename": self.rename, "Delete": self.delete, "Copy": self.copy}
        buttons.on_click(lambda _: self._said.guard(actions[buttons.value]))

    def _build_scale(self, gui: Any) -> None:
        self._known = gui.add_number("This is", 1.0, min=0.0, step=0.01, hint="Length of the chosen ruler")
        self._unit = gui.add_dropdown("Unit", tuple(UNITS), hint="Of the length")
        scale = gui.add_button("Set scale", hint="Lengths are then shown in metres, in all panels")
        scale.on_click(lambda _: self._said.guard(self.set_scale))
        clear = gui.add_button("Remove scale", hint="Lengths are shown in units of the capture")
        clear.on_click(lambda _: self._said.guard(self.clear_scale))

    def _build_level(self, gui: Any) -> None:
        self._level = gui.add_button(LEVEL_BY_POINTS, hint="Then click three points of the floor")
        self._level.on_click(lambda _: self.begin(LEVEL))
        clear = gui.add_button("Remove level", hint="The up direction is again that of the scene")
        clear.on_click(lambda _: self._said.guard(self.clear_level))

    def attach(self, stream: ClientStream) -> None:
        """Shows the rulers, and follows changes of other pages."""
        self.shared.on_change(self.refresh)
        self.refresh()

    def detach(self) -> None:
        """Follows no more."""
        self.shared.forget(self.refresh)

    def report(self, report: StreamReport) -> None:
        """Looks now and then whether another program has changed the measurements."""
        self.shared.follow()

    def begin(self, task: str) -> None:
        """Waits for clicks; a second call for the same task ends it.

        Args:
            task: NEW, START, END or LEVEL.
        """
        if task in (START, END) and not self._name:
            self._said.guard(lambda: self.shared.present.ruler(self._name))
            return
        self._wait_for("" if task == self._task else task)

    def end(self) -> None:
        """Waits for clicks no more."""
        if self._task:
            self._wait_for("")

    def _wait_for(self, task: str) -> None:
        before, self._task, self._points = self._task, task, []
        self.listen(bool(task))
        if before in TOOLS and before != task:
            self.page.toolbar.left(TOOLS[before][0])
        if task in TOOLS:
            self.page.toolbar.entered(TOOLS[task][0])
        self._ask()

    def _ask(self) -> None:
        asked = f"{ASKED[self._task][len(self._points)]} …" if self._task else ""
        self._new.label = asked if self._task == NEW else "New ruler"
        self._level.label = asked if self._task == LEVEL else LEVEL_BY_POINTS
        self._said.say(asked)
        if self._task in TOOLS:
            self.page.toolbar.say(asked)
        self._lines.mark(self._points)

    def on_click(self, click: Click) -> None:
        """Takes a point of the visible surface."""
        if not self._task:
            return
        if click.point is None:
            problem = "There is no surface: click something that is not transparent."
            self._said.say(problem, failed=True)
            self.page.toolbar.say(problem, "error")
            return
        self._points.append(np.asarray(click.point, np.float64))
        if len(self._points) < CLICKS[self._task]:
            self._ask()
            return
        task, points = self._task, [self.shared.to_capture(point) for point in self._points]
        camera = self.shared.to_capture(click.origin)
        self._wait_for("")
        self._said.guard(lambda: self._finish(task, points, camera))

    def _finish(self, task: str, points: list[np.ndarray], camera: np.ndarray) -> None:
        if task == NEW:
            names = {ruler.name for ruler in self.shared.present.rulers}
            self.shared.apply("New ruler", lambda m: operations.add_ruler(m, points[0], points[1]))
            self._name = next((r.name for r in self.shared.present.rulers if r.name not in names), "")
            self.refresh()
        elif task == LEVEL:
            self.shared.apply("Level", lambda m: operations.level_by_points(m, points, camera))
        else:
            name = self._name
            self.shared.apply(f"Move {task}", lambda m: operations.move_end(m, name, task, points[0]))

    def _move(self, which: str, place: np.ndarray) -> None:
        """An end was dragged by its handle."""
        name, point = self._name, self.shared.to_capture(place)
        self._said.guard(
            lambda: self.shared.apply(f"Move {which}", lambda m: operations.move_end(m, name, which, point))
        )
        self.refresh()

    def rename(self) -> None:
        """Gives the chosen ruler the name in the field."""
        name, new = self._name, str(self._new_name.value)
        self.shared.apply("Rename", lambda m: operations.rename_ruler(m, name, new))
        self._name = new.strip()
        self.refresh()

    def delete(self) -> None:
        """Deletes the chosen ruler."""
        name = self._name
        self.shared.apply("Delete", lambda m: operations.delete_ruler(m, name))

    def copy(self) -> None:
        """Copies the length of the chosen ruler into the clipboard of the browser."""
        text = self._length_of(self.shared.present.ruler(self._name))
        run_script(self.page.client, f"navigator.clipboard?.writeText({json.dumps(text)})")
        self._said.say(as_text(f"Copied {text}"))

    def set_scale(self) -> None:
        """Makes the chosen ruler as long as the fields say."""
        name, known, unit = self._name, float(self._known.value), str(self._unit.value)
        self.shared.apply("Set scale", lambda m: operations.set_scale(m, name, known, unit))

    def clear_scale(self) -> None:
        """Removes the length of a unit that was set."""
        self.shared.apply("Remove scale", operations.remove_scale)

    def clear_level(self) -> None:
        """Removes the up direction that was set."""
        self.shared.apply("Remove level", lambda m: operations.set_up(m, None))

    def download(self, as_csv: bool) -> None:
        """Sends the rulers to the browser, as JSON or CSV."""
        write: Callable[..., str] = rulers_as_csv if as_csv else rulers_as_json
        content = write(self.shared.present, self.shared.metres).encode()
        name = f"{self.page.session.name}-rulers.{'csv' if as_csv else 'json'}"
        self.page.client.send_file_download(name, content, save_immediately=True)

    def choose(self, name: str) -> None:
        """Makes a ruler the one that the controls act on."""
        self._name = name
        self.refresh()

    def refresh(self) -> None:
        """Shows the present measurements."""
        rulers = self.shared.present.rulers
        names = tuple(ruler.name for ruler in rulers)
        if self._name not in names:
            self._name = names[-1] if names else ""
        if tuple(self._chosen.options) != (names or (NONE,)):
            self._chosen.options = names or (NONE,)
            self._chosen.disabled = not names
        ruler = next((ruler for ruler in rulers if ruler.name == self._name), None)
        length = "" if ruler is None else self._length_of(ruler)
        if self._chosen.value != (self._name or NONE):
            self._chosen.value = self._name or NONE
        if self._named != self._name:  # else a name that is being typed would be lost
            self._named = self._new_name.value = self._name
        if self._length.value != length:
            self._length.value = length
        text = self._overview()
        if self._list.content != text:
            self._list.content = text
        self._lines.draw(bool(self._show.value), self._name, bool(self._handles.value))

    def _length_of(self, ruler: Ruler) -> str:
        return length_in_words(ruler.length, self.shared.metres)

    def _overview(self) -> str:
        """Scale, level and rulers as HTML."""
        measured, metres = self.shared.present, self.shared.metres
        rows = [("1 unit", "not known" if metres is None else length_in_words(1.0, metres, 6))]
        if measured.up is not None:
            rows.append(("Up", ", ".join(f"{x:.3f}" for x in measured.up)))
        rows += [(ruler.name, self._length_of(ruler)) for ruler in measured.rulers]
        if undo := self.shared.undo_titles:
            rows.append(("Undo", undo[-1]))
        problem = self.shared.problem
        note = f'<div style="padding:0.3em 0.9em;font-size:0.85em">{html.escape(problem)}</div>'
        return table(rows) + (note if problem else "")
