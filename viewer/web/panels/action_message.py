"""The line of a panel that says why an action failed, or what it did."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from luxel.render.errors import LuxelError
from luxel.viewer.web.panels.text import as_text

log = logging.getLogger("luxel.viewer")


class ActionMessage:
    """A line that is there while there is something to say.

    Args:
        gui: viser's GuiApi; the line is added at its present place.

    Attributes:
        line: viser's handle of the line.
    """

    def __init__(self, gui: Any) -> None:
        self.line = gui.add_markdown("", visible=False)
        self._failed = False

    def guard(self, action: Callable[[], object]) -> None:
        """Runs an action and shows the message of a LuxelError; a success clears the last message of a failure."""
        try:
            action()
        except LuxelError as error:
            self.say(as_text(str(error)), failed=True)
        except Exception as error:  # whatever an edit raises, the page goes on
            log.exception("An edit failed.")
            self.say(as_text(f"The edit failed: {error}"), failed=True)
        else:
            if self._failed:
                self.say("")

    def say(self, message: str, failed: bool = False) -> None:
        """Shows Markdown; nothing hides the line."""
        self.line.content = message
        self.line.visible = bool(message)
        self._failed = bool(message) and failed
