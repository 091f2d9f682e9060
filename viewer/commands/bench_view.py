"""`luxel bench view`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from luxel.render.bounds import Bounds, Folder, Options, Positive
from luxel.render.errors import LuxelError
from luxel.viewer.bench.view.installed import CHROMIUM
from luxel.viewer.options import DeviceName, PathText, pick_device
from luxel.viewer.web.transport.figures import WINDOW

if TYPE_CHECKING:
    import torch

    from luxel.viewer.bench.view import measure

MAX_CLIENTS = 64  # pages that a viewer takes by default


@dataclass
class View(Options):
    """Measures the viewer's latency in a headless browser: from a motion of the camera to its image on the page.

    Drives Chromium on this machine, with prepared frames instead of the renderer: luxel's image stream
    and, alongside it, viser's own messages. Prints a table and writes OUT/view.json, view.md and view.html.

    With --client python, clients without a browser replace it: they acknowledge images like a page. They also
    measure a rendered scene and several clients at a time.

    Examples:
        luxel bench view
        luxel bench view --seconds 5 --size 1920x1080
        luxel bench view --megabits 8
        luxel bench view bonsai.splat --client python
        luxel bench view --client python --clients 1 4 16 --megabits 8
    """

    scene: tyro.conf.Positional[Path | None] = None
    """Scene file or run folder to render, with --client python; default: prepared frames."""
    client: Literal["browser", "python"] = "browser"
    """What takes the images: a browser without a screen, or clients without a browser."""
    clients: tuple[Annotated[int, Bounds(1, MAX_CLIENTS)], ...] = (1,)
    """Numbers of clients at a time, 1 to 64, with --client python; a row of the report for each."""
    rate: Annotated[float, Bounds(1, 1000)] | None = None
    """Cameras a second of each client, with --client python; default: 240 on a GPU, else 60."""
    megabits: Positive | None = None
    """Speed of the link to the page, or to each client, in Mbit/s; default: unlimited."""
    device: DeviceName = "auto"
    """Device that renders the scene."""
    seconds: Annotated[float, Bounds(1, WINDOW)] = WINDOW
    """Duration of each measurement, seconds."""
    warmup: Annotated[float, Bounds(0, 60)] = 3.0
    """Seconds before each measurement."""
    size: str = "1280x720"
    """Size of the browser's window as WIDTHxHEIGHT."""
    browser: Annotated[str, PathText(), tyro.conf.arg(metavar="PATH")] = CHROMIUM
    """Chromium to run."""
    out: Annotated[Path, Folder(), tyro.conf.arg(metavar="DIR")] = Path("bench")
    """Folder for the report; an earlier one in it is replaced."""

    def execute(self) -> int:
        """Measures, writes, prints; returns 1 where a measurement failed."""
        from luxel.viewer.bench import report
        from luxel.viewer.bench.raster.scenes import parse_size
        from luxel.viewer.bench.view import measure
        from luxel.viewer.bench.view import report as view_report

        width, height = parse_size(self.size, "--size")
        report.check_writable(self.out, "view")

        settings = measure.Settings(
            warmup=self.warmup,
            seconds=self.seconds,
            width=width,
            height=height,
            browser=self.browser,
            megabits=self.megabits,
        )
        if self.client == "python":
            results = measure.run_without_browser(settings, self._client_settings(), _print_row)
        elif self.scene is not None or self.clients != (1,):
            raise LuxelError("A scene and --clients are measured without a browser.", "Add --client python.")
        else:
            results = measure.run(settings, _print_row)
        return report.conclude(self.out, "view", results, view_report.TITLE, view_report.sections(results))

    def _client_settings(self) -> measure.ClientSettings:
        from luxel.viewer.bench.view import measure

        if not self.clients:
            raise LuxelError("--clients names no number.", f"Give numbers from 1 to {MAX_CLIENTS}.")
        device = pick_device(self.device)
        given = {} if self.scene is None else self._render(self.scene, device)
        rate = self.rate or (240.0 if given and device.type == "cuda" else 60.0)
        return measure.ClientSettings(self.clients, rate, **given)

    @staticmethod
    def _render(path: Path, device: torch.device) -> dict[str, Any]:
        from luxel.scenes.loading.loader import LoadOptions
        from luxel.scenes.loading.loaders import open_scene

        scene = open_scene(path, LoadOptions(device=device))
        return {"scene": scene, "scene_name": path.resolve().stem}


def _print_row(results: dict[str, Any]) -> None:
    from luxel.viewer.bench import report
    from luxel.viewer.bench.view import report as view_report

    row = results["rows"][-1]
    median, p95 = row.get("latency_ms"), row.get("latency_p95_ms")
    clients = f", {row['clients']} clients" if "clients" in row else ""
    line = f"{view_report.NAMES[row['path']]}{clients}: {report.shown(median, '.1f')} ms, "
    print(f"{line}p95 {report.shown(p95, '.1f')} ms", file=sys.stderr, flush=True)
