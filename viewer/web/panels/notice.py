"""A notice at the top of the panel while the image is empty: why, and a button back to the scene."""

from __future__ import annotations

from typing import Any

from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text
from luxel.viewer.web.shading.legend import notice_of


class NoticePanel(Panel):
    """Says why nothing is visible; not there while something is."""

    def build(self, gui: Any, order: float) -> None:
        """Adds the notice and the button, both hidden."""
        self._text = gui.add_markdown("", visible=False, order=order)
        self._back = gui.add_button("Back to the scene", visible=False, order=order)
        self._back.on_click(lambda _: self.page.reset())
        self._shown = ""

    def report(self, report: StreamReport) -> None:
        """Shows or hides the notice; sends only what changed."""
        notice = notice_of(report.caption)
        if notice == self._shown:
            return
        self._shown = notice
        self._text.content = f"**Nothing to be seen.** {as_text(notice)}" if notice else ""
        self._text.visible = self._back.visible = bool(notice)
