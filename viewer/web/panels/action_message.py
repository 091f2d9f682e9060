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
        also: called with each message of a failure, plain text, and with an empty one after a success.

    Attributes:
        line: viser's handle of the line.
    """

    def __init__(self, gui: Any, also: Callable[[str], object] | None = None) -> None:
        self.line = gui.add_markdown("", visible=False)
        self._failed = False
        self._also = also or (lambda message: None)

    def guard(self, action: Callable[[], object]) -> None:
        """Runs an action and shows the message of a LuxelError; a success clears the last message of a failure."""
        try:
            action()
        except LuxelError as error:
            self._fail(str(error))
        except Exception as error:  # whatever an edit raises, the page goes on
            log.exception("An edit failed.")
            self._fail(f"The edit failed: {error}")
        else:
            if self._failed:
                self.say("")
                self._also("")

    def _fail(self, message: str) -> None:
        self.say(as_text(message), failed=True)
        self._also(message)

    def say(self, message: str, failed: bool = False) -> None:
        """Shows Markdown; nothing hides the line."""
        self.line.content = message
        self.line.visible = bool(message)
        self._failed = bool(message) and failed
