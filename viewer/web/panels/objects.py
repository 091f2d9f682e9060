"""Objects: the list of a scene's objects; shows, hides, selects, deletes, corrects, names and exports them."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable, Mapping
from operator import is_
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.segment.objects import SceneObject
from luxel.render.storage.journal import scratch_folder
from luxel.scenes import formats_for
from luxel.viewer.edit import Document, operations
from luxel.viewer.edit import object_edits as edits
from luxel.viewer.edit.object_changes import rows_of
from luxel.viewer.edit.object_counts import ObjectCount, object_counts, selected_object
from luxel.viewer.scene_loading.runs import unused_path
from luxel.viewer.web.editing import SceneEditor
from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.inspection.object_ious import measure_ious, views_with_ids
from luxel.viewer.web.numerals import counted
from luxel.viewer.web.panels.action_message import ActionMessage
from luxel.viewer.web.panels.edit import SAVED, SAVED_SECONDS, other_name
from luxel.viewer.web.panels.enabling import disable
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text
from luxel.viewer.web.session import Session

NONE = "none yet"
MEASURE = "Measure IoU"
OBJECT, REST = "the object", "everything else"
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class ObjectsPanel(Panel):
    """The objects of the scene that a page edits; the scene, its objects and the history are those of all pages."""

    title = "Objects"
    unfolded = False
    persisted = ("What", "Format")

    @classmethod
    def available(cls, session: Session) -> bool:
        """For finished scenes of primitives."""
        return session.editable is not None

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        editable = self.page.session.editable
        assert editable is not None
        self.editor = SceneEditor.of(editable)
        self._label, self._selected = 0, None
        self._shown: SceneObject | None = None
        self._list = gui.add_html("")
        self.message = ActionMessage(gui)
        self._chosen = gui.add_dropdown("Object", (NONE,), disabled=True)
        self._build_actions(gui)
        with gui.add_folder("Name and colour", expand_by_default=False):
            self._build_entry(gui)
        with gui.add_folder("Export", expand_by_default=False):
            self._build_export(gui)
        self._build_measurement(gui)
        self._chosen.on_update(lambda event: self.choose(event.target.value) if event.client else None)
        self.editor.on_change(self.refresh)
        self.refresh()

    def _build_actions(self, gui: Any) -> None:
        choose = self._group(
            gui,
            "Selection: replace, add, subtract or intersect as the Edit panel says. Solo hides everything else",
            ("Select object", lambda d, o: edits.select_object(d, o, self.page.selection_mode)),
            ("Solo", lambda d, o: d.apply(edits.solo_object(d.state, o))),
        )
        show = self._group(
            gui,
            "Hidden objects are not rendered, but saved",
            ("Hide object", lambda d, o: d.apply(edits.hide_object(d.state, o))),
            ("Show object", lambda d, o: d.apply(edits.show_object(d.state, o))),
        )
        self._everything = gui.add_button("Show everything", hint="Brings back all that is hidden")
        self._everything.on_click(
            lambda _: self.act(lambda document, _: document.apply(operations.show_all(document.state)))
        )
        grow = self._group(
            gui,
            "By the nearest neighbours. Grow takes none from other objects",
            ("Grow object", lambda d, o: d.apply(edits.grow_object(d, o))),
            ("Shrink object", lambda d, o: d.apply(edits.shrink_object(d, o))),
        )
        change = self._group(
            gui,
            "What is selected becomes a part of the object, or is no longer one",
            ("Add selection", lambda d, o: d.apply(edits.include_selection(d.state, o))),
            ("Subtract", lambda d, o: d.apply(edits.exclude_selection(d.state, o))),
        )
        delete = gui.add_button(
            "Delete object", hint="A deleted object stays in the list; undo brings it back"
        )
        delete.on_click(
            lambda _: self.act(lambda document, o: document.apply(edits.delete_object(document.state, o)))
        )
        self._new = gui.add_text("New name", "", hint="Of the next object; empty: object-1, object-2, …")
        new = gui.add_button("Add selection as an object")
        new.on_click(lambda _: self._add())
        self._need_object = [choose, show, grow, delete]
        self._need_selection, self._need_both = [new], [change]

    def _group(self, gui: Any, hint: str, *actions: tuple[str, Callable[[Document, int], object]]) -> Any:
        """Buttons side by side; each acts on the document and the label of the chosen object."""
        group = gui.add_button_group("", [label for label, _ in actions], hint=hint)
        group.on_click(lambda _: self.act(dict(actions)[group.value]))
        return group

    def _build_entry(self, gui: Any) -> None:
        self._name = gui.add_text("Name", "")
        self._colour = gui.add_rgb("Colour", (128, 128, 128))
        buttons = gui.add_button_group(
            "",
            ["Apply", "Remove from list"],
            hint="Apply changes name and colour; both are saved with the run",
        )

        def apply(document: Document, label: int) -> None:
            document.apply(edits.change_object(document.state, label, self._name.value, self._colour.value))

        def remove(document: Document, label: int) -> None:
            document.apply(edits.remove_object(document.state, label, self.editor.voted(label)))

        buttons.on_click(lambda _: self.act(apply if buttons.value == "Apply" else remove))
        self._need_object.append(buttons)

    def _build_export(self, gui: Any) -> None:
        scene = self.editor.run(lambda document: document.state.scene)
        suffixes = [f.suffix for f in formats_for(scene) if f.save is not None and f.load is not None]
        what = gui.add_dropdown("What", (OBJECT, REST))
        suffix = gui.add_dropdown("Format", tuple(suffixes), initial_value=".ply")
        buttons = gui.add_button_group(
            "",
            ["Save file", "Download file"],
            hint="Save writes a new file in the folder of the run or of the viewer",
        )
        self._filed = gui.add_markdown("", visible=False)

        def export() -> None:
            write = self.save if buttons.value == "Save file" else self.download
            self.message.guard(lambda: write(suffix.value, what.value == REST))

        buttons.on_click(lambda _: export())
        self._need_object.append(buttons)

    def _build_measurement(self, gui: Any) -> None:
        self._views = views_with_ids(self.page.session)
        self._ious: dict[str, float] = {}
        self._measured: tuple[object, ...] = ()
        self._measuring = self._closed = False
        self._measure = gui.add_button(
            MEASURE,
            visible=len(self._views) > 0,
            hint="Of each object with the true solid that it overlaps most, over the held-out views",
        )
        self._measure.on_click(lambda _: self._start_measuring())

    def _start_measuring(self) -> None:
        if self._measuring:
            self._measuring = False  # a second click ends it
            return
        self._measuring = True
        threading.Thread(target=self._run_measurement, name="luxel-iou", daemon=True).start()

    def _run_measurement(self) -> None:
        count = len(self._views)

        def done(number: int) -> None:
            self._measure.label = f"Measured {number} of {count}: stop"

        def measure() -> None:
            basis, antialiased = self.editor.run(_basis), self.page.stream.settings.antialiased
            stopped = lambda: self._closed or not self._measuring  # noqa: E731
            scores = measure_ious(self.page.session, self.editor, self._views, antialiased, done, stopped)
            self._ious, self._measured = scores or {}, basis

        self.message.guard(measure)
        self._measuring = False
        if not self._closed:
            self._measure.label = MEASURE
            self.refresh()

    def attach(self, stream: ClientStream) -> None:
        """Gives the page the objects for the output of that name."""
        stream.change(objects=self.editor)

    def detach(self) -> None:
        """Follows the editor no more, and ends a measurement."""
        self._closed = True
        self.editor.forget(self.refresh)
        self.page.stream.change(objects=None)

    def report(self, report: StreamReport) -> None:
        """Looks now and then whether another program has written objects."""
        self.editor.follow_objects()

    def act(self, action: Callable[[Document, int], object]) -> None:
        """Runs an action on the document and the chosen object; a failure is shown on the page."""
        with self.editor.authored(self.page):
            self.message.guard(lambda: self.editor.run(lambda document: action(document, self._label)))

    def _add(self) -> None:
        def add(document: Document, _: int) -> None:
            before = {entry.label for entry in document.state.objects.objects}
            document.apply(edits.add_object(document.state, self._new.value))
            self._label = next(e.label for e in document.state.objects.objects if e.label not in before)
            self._new.value = ""

        self.act(add)

    def choose(self, name: str) -> None:
        """Makes an object the one that the buttons act on."""
        entry = self.editor.objects.named(name)
        if entry is not None and entry.label != self._label:
            self._label = entry.label
            self.refresh()

    def refresh(self) -> None:
        """Shows the present objects."""
        counts, selected, numbers, basis = self.editor.run(
            lambda d: (object_counts(d.state), d.selected, d.numbers, _basis(d))
        )
        if selected is not self._selected:  # an object that was selected in the image is chosen too
            self._selected = selected
            self._label = selected_object(counts, numbers["selected"]) or self._label
        names = tuple(count.entry.name for count in counts)
        known = {count.entry.label: count.entry for count in counts}
        if self._label not in known:
            self._label = counts[0].entry.label if counts else 0
        if tuple(self._chosen.options) != (names or (NONE,)):
            self._chosen.options = names or (NONE,)
            self._chosen.disabled = not names
        if (entry := known.get(self._label)) is not None:
            _set(self._chosen, entry.name)
            if entry != self._shown:  # else a name that is being typed would be lost
                _set(self._name, entry.name)
                _set(self._colour, entry.colour)
        self._shown = entry
        any_selected = numbers["selected"] > 0
        disable(self._need_object, not names)
        disable(self._need_selection, not any_selected)
        disable(self._need_both, not (names and any_selected))
        disable([self._everything], not numbers["hidden"])
        problem = self.editor.objects_problem
        same = len(self._measured) == len(basis) and all(map(is_, self._measured, basis))
        ious = self._ious if same else {}
        text = listed(counts, self._label, self.page.session.about.noun, ious)
        if problem is not None:
            text = f'<div style="padding:0.3em 0.9em;font-size:13px">{html.escape(str(problem))}</div>'
        if self._list.content != text:
            self._list.content = text

    def _part(self, rest: bool) -> tuple[str, Callable[[Document], Any]]:
        """The name of a file for the object or all else, and its rows."""
        entry = next((o for o in self.editor.objects.objects if o.label == self._label), None)
        if entry is None:
            raise LuxelError("there is no object to be exported.", "Select primitives and add them as one.")
        safe = UNSAFE.sub("-", entry.name).strip("-.") or f"object-{entry.label}"

        def rows(document: Document) -> Any:
            own = rows_of(document.state, entry.label)
            return ~own if rest else own

        return ("without-" if rest else "") + safe, rows

    def save(self, suffix: str, rest: bool = False) -> Path:
        """Writes the chosen object, or everything else, as a new file in the folder of the run or of the viewer.

        Raises:
            LuxelError: there is no object, nothing is left of it, or the file cannot be written.
        """
        stem, rows = self._part(rest)
        path = unused_path(self.editor.save_folder, stem, suffix)
        count = self.editor.run(lambda document: document.save(path, rows=rows(document)))
        text = f"Saved {counted(count, self.page.session.about.noun)} in {path}"
        self._filed.content, self._filed.visible = as_text(text), True
        self.page.bars.show(SAVED, text + other_name(path.name, stem + suffix), seconds=SAVED_SECONDS)
        return path

    def download(self, suffix: str, rest: bool = False) -> None:
        """Sends the chosen object, or everything else, to the browser.

        Raises:
            LuxelError: as in `save`.
        """
        stem, rows = self._part(rest)
        with scratch_folder() as folder:
            path = folder / f"{stem}{suffix}"
            self.editor.run(lambda document: document.save(path, rows=rows(document)))
            content = path.read_bytes()
        self.page.client.send_file_download(path.name, content, save_immediately=True)
        self.message.say(as_text(f"Downloaded {path.name}"))


def listed(counts: list[ObjectCount], chosen: int, noun: str, ious: Mapping[str, float] | None = None) -> str:
    """The objects as HTML: colour, name, IoU if known, share of the primitives, and whether they are hidden or deleted.

    Args:
        counts: the objects.
        chosen: label of the one in bold.
        noun: of the primitives.
        ious: by name, and their mean under "mean".
    """
    if not counts:
        text = f"No objects yet: select {noun} and press “Add selection as an object”, or run luxel segment."
        style = "padding:0.3em 0.9em;font-size:13px;color:var(--mantine-color-dimmed)"
        return f'<div style="{style}">{html.escape(text)}</div>'
    ious = ious or {}
    rows = []
    for count in counts:
        entry = count.entry
        style = "font-weight:600" if entry.label == chosen else ""
        cells = (f"IoU {100 * ious[entry.name]:.1f}" if entry.name in ious else "", _state(count))
        rows.append(_row(entry.colour, entry.name, " ".join(filter(None, cells)), count.share, style))
    rest = max(0.0, 1 - sum(count.share for count in counts))
    mean = f"mean IoU {100 * ious['mean']:.1f}" if "mean" in ious else ""
    last = _row(None, "no object", mean, rest, "color:var(--mantine-color-dimmed)")
    return _grid("".join(rows), "0.3em", "max-height:16em;overflow-y:auto") + _grid(last, "0")


def _grid(cells: str, above: str, style: str = "") -> str:
    """Rows of the list; the last one stays in sight where the others are scrolled."""
    return (
        '<div style="display:grid;grid-template-columns:auto 1fr auto auto;gap:0.15em 0.6em;align-items:center;'
        f'font-size:13px;padding:{above} 0.9em 0.15em;{style}">{cells}</div>'
    )


def _row(colour: tuple[int, int, int] | None, name: str, state: str, share: float, style: str) -> str:
    """A row of the list, as cells of a grid."""
    swatch = "" if colour is None else f"background:rgb{tuple(colour)}"
    return (
        f'<span style="width:0.9em;height:0.9em;border-radius:0.2em;{swatch}"></span>'
        f'<span style="overflow-wrap:anywhere;{style}">{html.escape(name)}</span>'
        f'<span style="color:var(--mantine-color-dimmed)">{html.escape(state)}</span>'
        f'<span style="text-align:right;font-variant-numeric:tabular-nums;{style}">{100 * share:.1f} %</span>'
    )


def _state(count: ObjectCount) -> str:
    if not count.remaining:
        return "deleted" if count.deleted else "empty"
    if count.shown == 0:
        return "hidden"
    return "" if count.shown == count.remaining else "partly hidden"


def _basis(document: Document) -> tuple[object, ...]:
    """What scores depend on; parts are replaced when they change."""
    state = document.state
    return state.objects, state.scene, state.masks["hidden"], state.masks["deleted"]


def _set(control: Any, value: object) -> None:
    """Sets a control if it has another value; each change is a message to the page."""
    if control.value != value:
        control.value = value
