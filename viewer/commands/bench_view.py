"""`luxel bench view`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from luxel.render.errors import LuxelError
from luxel.viewer.bench import report
from luxel.viewer.bench.raster.scenes import parse_size
from luxel.viewer.bench.view import measure
from luxel.viewer.bench.view import report as view_report


@dataclass
class View:
    """Measures the viewer's latency in a headless browser: from a motion of the camera to its image on the page.

    Drives Chromium on this machine, with prepared frames in place of the renderer: luxel's image stream
    and, beside it, viser's own messages. Prints a table and writes OUT/view.json, view.md and view.html.

    Examples:
        luxel bench view
        luxel bench view --seconds 5 --size 1920x1080
    """

    seconds: float = measure.WINDOW
    """Duration of each measurement, at most 10 seconds; 3 seconds of warm-up precede it."""
    size: str = "1280x720"
    """Size of the browser's window as WIDTHxHEIGHT."""
    browser: Annotated[str, tyro.conf.arg(metavar="PATH")] = measure.CHROMIUM
    """Chromium to run."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("bench")
    """Folder for the report; an earlier one in it is replaced."""

    def execute(self) -> int:
        """Measures, writes, prints; returns 1 where a measurement failed."""
        if not 1 <= self.seconds <= measure.WINDOW:
            raise LuxelError(f"--seconds must be 1 to {measure.WINDOW:g}.", "Give another number.")
        width, height = parse_size(self.size)
        report.check_writable(self.out)

        def keep(results: dict[str, Any]) -> None:
            row = results["rows"][-1]
            name, median, p95 = (
                view_report.NAMES[row["path"]],
                row.get("latency_ms"),
                row.get("latency_p95_ms"),
            )
            line = f"{name}: {report.shown(median, '.1f')} ms, p95 {report.shown(p95, '.1f')} ms"
            print(line, file=sys.stderr, flush=True)

        settings = measure.Settings(seconds=self.seconds, width=width, height=height, browser=self.browser)
        results = measure.run(settings, keep)
        return report.conclude(self.out, "view", results, view_report.TITLE, view_report.sections(results))
