"""Edit: selects, hides, deletes, moves and recolours primitives of a finished scene, with undo, and saves it."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from luxel.render.errors import LuxelError
from luxel.render.storage.journal import scratch_folder
from luxel.scenes import formats_for
from luxel.scenes.files.registry import find_format
from luxel.viewer.edit import MODES, Document, operations
from luxel.viewer.scene_loading.runs import unused_path
from luxel.viewer.web.editing import TOOLS, SceneEditor, Tool, Workspace
from luxel.viewer.web.editing.colour_controls import ColourControls
from luxel.viewer.web.editing.editor import EarlierEdits
from luxel.viewer.web.images.stream import ClientStream
from luxel.viewer.web.numerals import counted
from luxel.viewer.web.panels.action_message import ActionMessage
from luxel.viewer.web.panels.enabling import disable
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text, day_and_time, table
from luxel.viewer.web.session import Session
from luxel.viewer.web.toolbar import ToolbarAction, ToolbarTool

log = logging.getLogger("luxel.viewer")

OFF = "off"
ACTIONS = (
    "Delete",
    "Crop",
    "Hide",
    "Solo",
    "Invert",
    "Deselect",
    "Export",
    "Select",
    "Undo",
    "Redo",
    "Show all",
)  # on the image
NO_SETS = "none yet"
REGION = "region"  # number of the toolbar: whether the active tool has a region that a button selects
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
EDITED_SCENE, SELECTION = "edited scene", "selection"
EARLIER, OTHERS, SAVED = "earlier edits", "other pages", "saved"  # names of bars on the image
SAVED_SECONDS = 12.0  # for which the last one is there


class EditPanel(Panel):
    """The editing tools of a page; the scene, the selection and the history are those of all pages."""

    title = "Edit"
    unfolded = False
    persisted = ("Selection", "What", "File name", "Format")

    @classmethod
    def available(cls, session: Session) -> bool:
        """For finished scenes of primitives."""
        return session.editable is not None

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls."""
        editable = self.page.session.editable
        assert editable is not None
        self.editor = SceneEditor.of(editable)
        self.editor.join(self.page)
        self._others_closed = False  # whether the bar about other pages was
        self._tool: Tool | None = None
        self._numbers = gui.add_html("")
        self._said = ActionMessage(gui, lambda message: self.page.toolbar.say(message, "error"))
        self._message = self._said.line
        self._build_resume(gui)
        self._mode = gui.add_dropdown("Selection", MODES, hint="How a new selection joins the old one")
        self._build_buttons(gui)
        with gui.add_folder("Colours", expand_by_default=False):
            self._needing += ColourControls(gui, self.run).buttons
        with gui.add_folder("Named selections", expand_by_default=False):
            self._build_sets(gui)
        with gui.add_folder("Files", expand_by_default=False):
            self._build_files(gui)
        # Last, as a choice changes what follows.
        self._chosen = gui.add_dropdown("Tool", (OFF, *(tool.name for tool in TOOLS)))
        self._build_tools(gui)
        self._build_shortcuts(self.page.client.gui)
        self._build_toolbar()
        self._chosen.on_update(lambda _: self._choose(self._chosen.value))
        self._mode.on_update(lambda _: setattr(self.page, "selection_mode", self._mode.value))
        self.editor.on_change(self.refresh)
        self.refresh()

    def _build_tools(self, gui: Any) -> None:
        self._through = gui.add_checkbox(
            *("Through", False),
            visible=False,
            hint="Regions of the image also select primitives that others occlude",
        )
        workspace = Workspace(
            self.page, self.editor, lambda: self._mode.value, lambda: bool(self._through.value), self.guard
        )
        self._tools: dict[str, Tool] = {}
        for kind in TOOLS:
            tool = self._tools[kind.name] = kind(workspace)
            tool.build(gui)
            for control in tool.controls:
                control.visible = False

    def _build_buttons(self, gui: Any) -> None:
        self._group(
            gui,
            ("All", Document.select_all),
            ("None", Document.select_none),
            ("Invert", Document.invert),
        )
        self._needing = [
            self._group(gui, ("Grow", Document.grow), ("Shrink", Document.shrink)),
            self._group(
                gui,
                ("Hide", _edit(operations.hide)),
                ("Delete", _edit(operations.delete)),
                ("Crop", _edit(operations.crop)),
            ),
        ]
        self._show_all = gui.add_button("Show all")
        self._show_all.on_click(lambda _: self.run(_edit(operations.show_all)))
        self._undo, self._redo = gui.add_button("Undo"), gui.add_button("Redo")
        self._undo.on_click(lambda _: self.run(Document.undo))
        self._redo.on_click(lambda _: self.run(Document.redo))

    def _group(self, gui: Any, *actions: tuple[str, Callable[[Document], object]]) -> Any:
        """Buttons side by side."""
        group = gui.add_button_group("", [label for label, _ in actions])
        group.on_click(lambda _: self.run(dict(actions)[group.value]))
        return group

    def _build_sets(self, gui: Any) -> None:
        name = gui.add_text("Name", "")
        store = gui.add_button("Store selection")
        self._needing.append(store)
        self._sets = gui.add_dropdown("Stored", (NO_SETS,), disabled=True)
        buttons = self._set_buttons = gui.add_button_group("", ["Select", "Remove"], disabled=True)
        store.on_click(
            lambda _: self.run(lambda d: d.apply(operations.store_set(d.state, _checked(name.value))))
        )

        def act() -> None:
            stored = self._sets.value
            if buttons.value == "Select":
                self.run(lambda document: document.select_set(stored, self._mode.value))
            elif stored != NO_SETS:
                self.run(lambda document: document.apply(operations.remove_set(document.state, stored)))

        buttons.on_click(lambda _: act())

    def _build_files(self, gui: Any) -> None:
        scene = self.editor.run(lambda document: document.state.scene)
        suffixes = [
            known.suffix for known in formats_for(scene) if known.save is not None and known.load is not None
        ]
        what = gui.add_dropdown("What", (EDITED_SCENE, SELECTION))
        name = gui.add_text("File name", "edited")
        suffix = gui.add_dropdown("Format", tuple(suffixes), initial_value=".ply")
        button = gui.add_button(
            "Save file",
            hint="A new file in the folder of the run or of the viewer. Share (Y) sends files to the browser",
        )
        self._filed = gui.add_markdown("", visible=False)
        button.on_click(
            lambda _: self.guard(
                lambda: self.save(_checked(name.value) + suffix.value, what.value == SELECTION)
            )
        )

    def _build_resume(self, gui: Any) -> None:
        """A button for edits of an earlier session; looking for them reads the complete scene, so in a thread."""
        self._resume = gui.add_button(
            "Restore edits", visible=False, hint="Edits of an earlier session of this scene"
        )
        self._resume.on_click(lambda _: self.restore())

        def look() -> None:
            try:
                if (earlier := self.editor.look_for_earlier()) is not None:
                    self._offer(earlier)
                    if not earlier.discarded:
                        self._show_earlier(earlier)
            except Exception:  # the page may be gone
                log.debug("earlier edits could not be offered", exc_info=True)

        threading.Thread(target=look, daemon=True).start()

    def _offer(self, earlier: EarlierEdits | None) -> None:
        """Shows the button for edits of an earlier session, or hides it."""
        if earlier is not None:
            kind = "discarded edit" if earlier.discarded else "edit"
            _set(self._resume, "label", f"Restore {counted(earlier.count, kind + 's')}")
        _set(self._resume, "visible", earlier is not None)

    def _show_earlier(self, earlier: EarlierEdits) -> None:
        """Offers edits of an earlier session on the image."""
        text = f"{counted(earlier.count, 'edits')} of {day_and_time(earlier.changed_at)}, can be restored."
        buttons = [("Restore", self.restore), ("Discard", lambda: self._ask_to_discard(earlier))]
        self.page.bars.show(EARLIER, text, buttons)

    def _ask_to_discard(self, earlier: EarlierEdits) -> None:
        this = "this edit" if earlier.count == 1 else f"these {earlier.count:,} edits"
        self.page.bars.show(
            EARLIER,
            f"Discard {this}? They can be brought back until the scene is edited.",
            [("Discard them", self._discard), ("Keep them", lambda: self._show_earlier(earlier))],
        )

    def _discard(self) -> None:
        def discard() -> None:
            self.editor.discard_earlier()
            if (earlier := self.editor.earlier) is not None:
                text = f"{counted(earlier.count, 'edits')} discarded."
                self.page.bars.show(EARLIER, text, [("Bring back", self.restore)])

        self.guard(discard)

    def restore(self) -> None:
        """Makes the edits of an earlier session again, also discarded ones; a failure is shown on the page."""
        self.guard(self.editor.resume)

    def _build_shortcuts(self, gui: Any) -> None:
        """Commands of the page, with keys."""
        self._commands: list[Any] = []
        for label, key, modifier, action in (
            ("Undo edit", "Z", "cmd/ctrl", Document.undo),
            ("Redo edit", "Z", "cmd/ctrl+shift", Document.redo),
            ("Delete selection", "delete", None, _edit(operations.delete)),
            ("Select all", "A", "cmd/ctrl", Document.select_all),
            ("Select none", "A", "cmd/ctrl+shift", Document.select_none),
        ):
            command = gui.add_command(label, hotkey=key, modifier=modifier)
            command.on_trigger(lambda _, action=action: self.run(action))
            self._commands.append(command)

    def _build_toolbar(self) -> None:
        """The tools and what is done with a selection, on the image."""
        bar = self.page.toolbar
        for kind in TOOLS:
            bar.add_tool(
                ToolbarTool(
                    kind.name,
                    kind.name,
                    kind.icon,
                    kind.key,
                    kind.hint,
                    lambda name=kind.name: setattr(self._chosen, "value", name),
                    lambda: setattr(self._chosen, "value", OFF),
                    folder=self.title,
                )
            )
        for name, key, action in (
            ("Delete", "Delete", _edit(operations.delete)),
            ("Crop", "", _edit(operations.crop)),
            ("Hide", "Shift+H", _edit(operations.hide)),
            ("Solo", "Shift+O", _edit(operations.solo)),
            ("Invert", "Shift+I", Document.invert),
            ("Deselect", "Ctrl+Shift+A", Document.select_none),
        ):
            bar.add_action(ToolbarAction(name, name, key, lambda action=action: self.run(action), "selected"))
        bar.add_action(ToolbarAction("Export", "Export", "", self._export_selection, "selected"))
        bar.add_action(ToolbarAction("Select", "Select", "", self._select_region, REGION, "line"))
        for name, key, action, needs in (
            ("Undo", "Ctrl+Z", Document.undo, "undo"),
            ("Redo", "Ctrl+Y", Document.redo, "redo"),
            ("Show all", "", _edit(operations.show_all), "hidden"),
        ):
            bar.add_action(
                ToolbarAction(name, name, key, lambda action=action: self.run(action), needs, "tools")
            )

    def _select_region(self) -> None:
        if self._tool is not None:
            self._tool.select()

    def _export_selection(self) -> None:
        self.guard(lambda: self.download(f"{SELECTION}.ply", selection=True))

    def attach(self, stream: ClientStream) -> None:
        """Nothing to connect: the editor changes what the session shows."""

    def detach(self) -> None:
        """Stops the tool, and takes back what was added outside of the panel."""
        self.editor.forget(self.refresh)
        self.editor.leave(self.page)
        if self._tool is not None:
            self._tool.stop()
        for command in self._commands:
            command.remove()
        self.page.toolbar.remove(*(tool.name for tool in TOOLS), *ACTIONS)
        self.page.toolbar.update(**{"selected": 0, "hidden": 0, "undo": "", "redo": "", REGION: False})
        for bar in (EARLIER, OTHERS):
            self.page.bars.hide(bar)

    def _choose(self, name: str) -> None:
        """Starts a tool instead of the active one."""
        if self._tool is not None:
            self._tool.show(False)
            self.page.toolbar.left(self._tool.name)
        self._tool = self._tools.get(name)
        _set(self._through, "visible", self._tool is not None and self._tool.through)
        self.page.toolbar.update(**{REGION: self._tool is not None and self._tool.region_first})
        if self._tool is not None:
            self.page.toolbar.entered(self._tool.name)
            self.guard(lambda tool=self._tool: tool.show(True))

    def run(self, action: Callable[[Document], object]) -> None:
        """Runs an action on the document; a failure is shown on the page."""
        self.guard(lambda: self.editor.run(action))

    def guard(self, action: Callable[[], object]) -> None:
        """Runs an action and shows the message of a LuxelError; a success clears the last message."""
        with self.editor.authored(self.page):
            self._said.guard(action)

    def stored(self) -> dict[str, Any]:
        """Radii and ranges of the tools, and what is there for some of them alone."""
        of_tools = {name: each for tool in self._tools.values() for name, each in tool.stored().items()}
        return {"Through": self._through, **of_tools}

    def refresh(self) -> None:
        """Shows the present numbers, what can be undone, and the named selections."""
        numbers, undo, redo, sets = self.editor.run(
            lambda d: (d.numbers, d.history.undo_titles, d.history.redo_titles, tuple(d.state.sets))
        )
        noun = self.page.session.about.noun
        rows = [("Selected", counted(numbers["selected"], noun)), ("Kept", f"{numbers['kept']:,}")]
        if numbers["hidden"]:
            rows.append(("Hidden", f"{numbers['hidden']:,}"))
        if problem := self.editor.problem:
            rows.append(("Autosave", problem))
        self._numbers.content = table(rows)
        self.page.toolbar.update(
            selected=numbers["selected"],
            hidden=numbers["hidden"],
            noun=noun,
            undo=undo[-1] if undo else "",
            redo=redo[0] if redo else "",
            beside=self.editor.is_selected_beside(self.page),
        )
        self._show_others()
        for button, label, titles in (
            (self._undo, "Undo", list(undo[-1:])),
            (self._redo, "Redo", list(redo[:1])),
        ):
            _set(button, "label", f"{label}: {titles[0]}" if titles else label)
            _set(button, "disabled", not titles)
        disable(self._needing, not numbers["selected"])
        disable([self._show_all], not numbers["hidden"])
        self._list(sets)
        earlier = self.editor.earlier
        self._offer(earlier)
        if earlier is None or (earlier.discarded and not self.page.bars.has(EARLIER, "Bring back")):
            self.page.bars.hide(EARLIER)
        if self._tool is not None:
            self._tool.refresh()

    def _show_others(self) -> None:
        """Says on the image that another page edits the scene, and shows its selection in another colour."""
        beside = self.editor.is_selected_beside(self.page)
        if self.page.stream.settings.foreign_marks != beside:
            self.page.stream.change(foreign_marks=beside)
        if not self.editor.is_edited_beside(self.page):
            self._others_closed = False
            self.page.bars.hide(OTHERS)
        elif not self._others_closed:
            text = "Another page is editing this scene. Selection, edits and undo are those of all pages; "
            text += "what it selects is blue here."
            self.page.bars.show(OTHERS, text, closed=lambda: setattr(self, "_others_closed", True))

    def _list(self, sets: Sequence[str]) -> None:
        """Lists the named selections; the chosen one stays chosen."""
        names, before = tuple(sets) or (NO_SETS,), self._sets.value
        if tuple(self._sets.options) != names:
            self._sets.options = names
            self._sets.value = before if before in names else names[-1]
            disable((self._sets, self._set_buttons), not sets)

    def save(self, file: str, selection: bool = False) -> Path:
        """Writes a new file in the folder of the run, or in the one that the viewer was started in.

        Args:
            file: its name, with the suffix of a scene format; a number is added where it exists.
            selection: write the selection alone.

        Raises:
            LuxelError: nothing is selected, or the file cannot be written.
        """
        known = find_format(file)
        suffix = Path(file).suffix if known is None else file[-len(known.suffix) :]
        path = unused_path(self.editor.save_folder, file.removesuffix(suffix), suffix)
        count = self.editor.run(lambda document: document.save(path, selection=selection))
        text = f"Saved {counted(count, self.page.session.about.noun)} in {path}"
        self._filed.content, self._filed.visible = as_text(text), True
        self.page.bars.show(SAVED, text + other_name(path.name, file), seconds=SAVED_SECONDS)
        return path

    def download(self, file: str, selection: bool = False) -> None:
        """Sends a file to the browser.

        Raises:
            LuxelError: nothing is selected.
        """
        with scratch_folder() as folder:
            path = folder / file
            self.editor.run(lambda document: document.save(path, selection=selection))
            content = path.read_bytes()
        self.page.client.send_file_download(file, content, save_immediately=True)
        self._said.say(as_text(f"Downloaded {file}"))
        self.page.toolbar.say(f"Downloaded {file}")


def other_name(name: str, requested: str) -> str:
    """Why a file was saved under a name instead of another one; empty: it has the one that was asked for."""
    return "" if name == requested else f", as {requested} exists already"


def _edit(operation: Callable[..., Any]) -> Callable[[Document], object]:
    """An action that applies an operation to the selection, if there is something to change."""
    return lambda document: document.apply(operation(document.state))


def _set(control: Any, name: str, value: object) -> None:
    """Sets a property of a control if it is another one; each change is a message to the page."""
    if getattr(control, name) != value:
        setattr(control, name, value)


def _checked(name: str) -> str:
    """A name that is safe in a path.

    Raises:
        LuxelError: it is empty, or has other characters than letters, digits and . _ -
    """
    if not NAME.fullmatch(name):
        raise LuxelError(f"{name[:100]!r} is not a name.", "Use letters, digits and . _ - only.")
    return name
