"""Numbers of the images of a page: frame rate, render time, size; and errors."""

from __future__ import annotations

from typing import Any

from luxel.viewer.web.images.stream import MAX_SIDE, StreamReport
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text, table
from luxel.viewer.web.transport.figures import Figures

WAITING = "No image yet"


class FramePanel(Panel):
    """Frame rate, render time and size of the images, and why rendering fails if it does."""

    def build(self, gui: Any, order: float) -> None:
        """Adds a line with the main numbers, which opens to all of them, and a line for errors above it."""
        self._error = gui.add_markdown("", visible=False, order=order)
        self._line = gui.add_folder(WAITING, order=order, expand_by_default=False)
        with self._line:
            self._numbers = gui.add_html(table([("FPS", "…")]))
        self._shown = ("", "")

    def report(self, report: StreamReport) -> None:
        """Shows the numbers; sends only what changed."""
        rows = [
            ("FPS", f"{report.fps:.0f}" if report.fps else "idle"),
            ("Render", f"{report.render_ms:.1f} ms"),
            ("Image", f"{report.width} × {report.height}{self._reduced(report)}"),
            *_stream_rows(report.figures),
        ]
        if report.caption:
            rows.append(("Shown", report.caption))
        numbers = table(rows)
        if (line := line_of(report)) != self._line.label:
            self._line.label = line
        error = f"**Rendering failed:** {as_text(report.error)}" if report.error else ""
        if numbers != self._shown[0]:
            self._numbers.content = numbers
        if error != self._shown[1]:
            self._error.content = error
            self._error.visible = bool(error)
        self._shown = (numbers, error)

    def _reduced(self, report: StreamReport) -> str:
        """How much smaller than asked for an image is that was rendered while the camera moved."""
        camera = self.page.client.camera
        full = camera.image_width * self.page.stream.settings.resolution
        share = report.width / max(1.0, min(full, MAX_SIDE))
        return f" ({round(100 * share)} % while moving)" if report.fps and 0 < share < 0.85 else ""


def line_of(report: StreamReport) -> str:
    """The main numbers in a few words."""
    if not report.width:
        return WAITING
    if not report.fps:
        return f"At rest · {report.width:,} × {report.height:,}"
    known = report.figures.latency_ms if report.figures is not None else None
    return f"{report.fps:.0f} images/s · {report.render_ms if known is None else known:.0f} ms"


def _stream_rows(figures: Figures | None) -> list[tuple[str, str]]:
    """What the page has measured over the last ten seconds."""
    if figures is None:
        return []
    rows = []
    if figures.latency_ms is not None and figures.latency_p95_ms is not None:
        rows.append(("Latency", f"{figures.latency_ms:.0f} ms, p95 {figures.latency_p95_ms:.0f} ms"))
    rows.append(("Encode, decode", f"{figures.encode_ms:.1f}, {figures.decode_ms:.1f} ms"))
    rows.append(("Size", f"{figures.kilobytes:.0f} kB {figures.encoding}"))
    return rows
