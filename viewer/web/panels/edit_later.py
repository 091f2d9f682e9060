"""Edit, while a scene is being trained: what has to happen first, and the tools that begin it."""

from __future__ import annotations

import logging
from typing import Any

from luxel.render.errors import LuxelError
from luxel.viewer.web.editing import TOOLS
from luxel.viewer.web.editing.editable_training import WAIT, EditableTraining
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text
from luxel.viewer.web.session import Session, TrainingSession
from luxel.viewer.web.toolbar import ToolbarAction, ToolbarTool

log = logging.getLogger("luxel.viewer")

PAUSE = "Pause and edit"
WAITING = "waiting"  # whether a tool was chosen that has to wait, for the toolbar


class EditLaterPanel(Panel):
    """Stands for the panels Edit and Objects of a training until its scene can be edited."""

    title = "Edit"
    unfolded = False

    @classmethod
    def available(cls, session: Session) -> bool:
        """While primitives are being trained."""
        is_training = isinstance(session, TrainingSession) and session.primitives is not None
        return is_training and session.editable is None

    def build(self, gui: Any, order: float) -> None:
        """Adds a sentence and a button, and the tools on the image."""
        session = self.page.session
        assert isinstance(session, TrainingSession)
        self._session, self._tool = session, ""  # the tool that was chosen and has to wait
        editing = EditableTraining.of(session)
        if editing.has_just_saved:
            self.page.client.add_notification("Edits saved", editing.message, auto_close_seconds=12)
        self._line = gui.add_markdown(f"{WAIT}. What you edit is a copy: the training keeps its scene.")
        gui.add_button(PAUSE).on_click(lambda _: self._pause())
        bar = self.page.toolbar
        for kind in TOOLS:
            start, stop = (
                (lambda name=kind.name: self._want(name)),
                (lambda name=kind.name: self._leave(name)),
            )
            bar.add_tool(
                ToolbarTool(
                    *(kind.name, kind.name, kind.icon, kind.key, f"{WAIT}."), start, stop, folder="Edit"
                )
            )
        bar.add_action(ToolbarAction(PAUSE, PAUSE, "", self._pause, WAITING, "line"))

    def detach(self) -> None:
        """Takes the tools from the image."""
        self._leave(self._tool)
        self.page.toolbar.remove(*(tool.name for tool in TOOLS), PAUSE)

    def _want(self, name: str) -> None:
        """A tool was chosen: it starts at once where the training is paused."""
        self._tool = name
        if self._session.paused or not self._session.trains:
            self._open()
            return
        self.page.toolbar.entered(name)
        self.page.toolbar.update(**{WAITING: True})

    def _leave(self, name: str) -> None:
        if name == self._tool:
            self._tool = ""
            self.page.toolbar.update(**{WAITING: False})
        self.page.toolbar.left(name)

    def _pause(self) -> None:
        if self._session.trains:
            self._session.pause()
        self._open()

    def _open(self) -> None:
        tool = self._tool
        try:
            EditableTraining.of(self._session).open()  # which puts other panels in place of this one
        except LuxelError as error:
            self._line.content = as_text(str(error))
            self.page.toolbar.say(str(error), "error")
        else:
            if tool:
                self.page.toolbar.choose(tool)
