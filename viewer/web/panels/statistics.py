"""Statistics: histograms of the primitives, and of how many a tile of the page's image has."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Parameters
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.inspection.statistics import as_svg, histogram, histograms, tile_lengths
from luxel.viewer.web.pair.session import sides_of
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import table
from luxel.viewer.web.session import Session

log = logging.getLogger("luxel.viewer")

REFRESH = 4.0  # seconds, at least, between two computations


class StatisticsPanel(Panel):
    """Shows histograms while its switch is on, and refreshes them when the scene or the camera has changed."""

    title = "Statistics"
    persisted = ("Histograms",)
    unfolded = False

    @classmethod
    def available(cls, session: Session) -> bool:
        """For primitives."""
        return session.primitives is not None

    def build(self, gui: Any, order: float) -> None:
        """Adds the switch and the drawings."""
        self._on = gui.add_checkbox(
            "Histograms",
            False,
            hint="Heights are square roots of the counts; "
            f"computed anew every {REFRESH:.0f} s at most, while something changes",
        )
        self._drawings = gui.add_html("", visible=False)
        self._key: Any = None
        self._at = 0.0
        self._running = threading.Lock()
        self._on.on_update(lambda _: self._switch())

    def _switch(self) -> None:
        self._drawings.visible = self._on.value
        if self._on.value:
            self._at, self._key = 0.0, None
            self.refresh()

    def report(self, report: StreamReport) -> None:
        """Starts a computation where one is due; the page's images do not wait for it."""
        if self._on.value and time.monotonic() - self._at >= REFRESH:
            threading.Thread(target=self.refresh, daemon=True).start()

    def refresh(self) -> None:
        """Computes and shows the histograms, unless nothing has changed or another thread is doing so."""
        if not self._running.acquire(blocking=False):
            return
        try:
            pose, settings = self.page.pose(), self.page.stream.settings
            now = self.page.stream.time
            key = (
                self.page.session.version,
                *pose.position,
                *pose.wxyz,
                pose.fov_y,
                pose.width,
                pose.height,
                now,
            )
            self._at = time.monotonic()
            if key == self._key:
                return
            camera = pose.camera(pose.width, pose.height, settings.near, settings.far)
            drawings = ""
            for name, session in sides_of(self.page.session):
                drawings += table([("Scene", name)]) if name else ""
                drawings += self._drawings_of(session, camera, now, settings.antialiased)
            self._drawings.content = drawings
            self._key = key
        except Exception:
            log.exception("The histograms could not be computed.")
        finally:
            self._running.release()

    @staticmethod
    def _drawings_of(session: Session, camera: Camera, time: float, antialiased: bool) -> str:
        """The histograms of one scene as HTML; a sentence where it has none."""
        if session.primitives is None:
            return table([("Histograms", f"{session.about.noun} have none")])
        with session.borrow() as shown:
            scene = shown.parts[Parameters]
            results = histograms(scene)
            lengths = tile_lengths(scene, camera.to(scene.device), time, antialiased)
            results.append(histogram(lengths, "Primitives of a tile (16 x 16 pixels of this view)"))
        return "".join(as_svg(result) for result in results)
