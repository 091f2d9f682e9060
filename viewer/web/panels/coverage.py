"""Lets a page count the training views that see a surface, for the output "seen by"."""

from __future__ import annotations

from luxel.viewer.web.images.stream import ClientStream
from luxel.viewer.web.inspection.coverage import coverage_of
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.shading import VIEW_OUTPUTS


class CoveragePanel(Panel):
    """Has no controls: Output chooses what is shown."""

    @classmethod
    def available(cls, session: Session) -> bool:
        """Where there are training cameras."""
        return len(session.training_views) > 0

    def attach(self, stream: ClientStream) -> None:
        """Gives the page the counter of its session."""
        self._coverage = coverage_of(self.page.session)
        self._coverage.listen(self._redraw)
        stream.change(seen=self._coverage)

    def _redraw(self) -> None:
        if self.page.stream.settings.output in VIEW_OUTPUTS:
            self.page.stream.redraw()

    def detach(self) -> None:
        """Ends the rendering of depth maps with the last page."""
        self._coverage.unlisten(self._redraw)
