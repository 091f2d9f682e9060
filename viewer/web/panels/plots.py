"""Plots of a training, and what happened in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from luxel.viewer.web.panels.panel import SharedPanel
from luxel.viewer.web.panels.text import table
from luxel.viewer.web.session import Session
from luxel.viewer.web.training_log import TrainingLog

SHOWN_EVENTS = 8
HEIGHT = 120  # pixels of a plot
AXES: Any = (
    {"ticks": {"show": False}},
    {"ticks": {"show": False}, "size": 76},
)  # room for a count of millions
PADDING = (10, 24, 0, 0)  # pixels; above, for the highest label
COLOUR = "rgb(214, 118, 36)"
TITLES = {
    "psnr": "PSNR of training views (dB)",
    "test_psnr": "PSNR of held-out views (dB)",
    "loss": "Loss",
    "count": "Count",
    "speed": "Steps a second",
    "memory": "Memory (GB)",
    "frame_ms": "Time to render a held-out view (ms)",
}


class PlotsPanel(SharedPanel):
    """PSNR, loss, count, speed and memory over the steps, and the newest events of the run."""

    title = "Plots"
    unfolded = False

    @classmethod
    def available(cls, session: Session) -> bool:
        """Where a training writes to a run folder."""
        return session.has_training and session.folder is not None

    def build(self, gui: Any, order: float) -> None:
        """Adds the plots."""
        assert self.session.folder is not None
        self._log = TrainingLog(self.session.folder)
        self._log.poll()
        line = ({"label": "step"}, {"label": "value", "stroke": COLOUR})
        self._plots = {
            name: gui.add_uplot(
                (np.zeros(1), np.zeros(1)),
                line,
                title=title,
                height=HEIGHT,
                scales={"x": {"time": False}},
                axes=AXES,
                padding=PADDING,
                legend={"show": False},
                visible=False,
            )
            for name, title in TITLES.items()
        }
        self._events = gui.add_html("")
        self._show()

    def refresh(self) -> None:
        """Shows what was recorded since the last time."""
        if self._log.poll():
            self._show()

    def _show(self) -> None:
        for name, plot in self._plots.items():
            series = self._log.series[name]
            if series.steps:
                plot.data = (np.array(series.steps, np.float64), np.array(series.values, np.float64))
                plot.visible = True
        newest = list(self._log.events)[-SHOWN_EVENTS:]
        self._events.content = table([(f"Step {step:,}", text) for step, text in reversed(newest)])
