"""Compare: image and render of a view under one slider, and the error between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from luxel.render.geometry.camera import poses_of
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.inspection.comparison import MODES, Comparer
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import table
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.legend import legend_of
from luxel.viewer.web.shell.toolbar import ToolbarTool


class ComparePanel(Panel):
    """Shows the image alongside the render wherever the camera stands at a view, until its switch is off."""

    title = "Compare"
    unfolded = False

    @classmethod
    def available(cls, session: Session) -> bool:
        """Where there are images."""
        return len(session.views) > 0

    def build(self, gui: Any, order: float) -> None:
        """Adds the switch, the choice of the image, the split and the scale of errors."""
        page = self.page
        self._comparer = Comparer(page.session, page.extent.radius, self._refresh)
        self._on = gui.add_checkbox(
            "Compare", False, hint="Image against render at the camera of a view; starts at the nearest"
        )
        step = gui.add_button_group("View", ["◀ Previous", "Next ▶"])
        mode = gui.add_dropdown("Image", list(MODES))
        self._split = gui.add_slider("Split", 0, 100, 1, 50, hint="Percent of the width that the image takes")
        self._scale = gui.add_slider(
            "Error scale",
            0.01,
            1.0,
            0.01,
            0.2,
            hint="Difference of colours in [0, 1] at the end of the colour bar",
        )
        self._numbers = gui.add_html("", visible=False)
        self._shown, self._next = "", None
        self._on.on_update(lambda _: self._switch(self._on.value))
        page.toolbar.add_tool(
            ToolbarTool(
                "Compare",
                "Compare with the photograph",
                "compare",
                "c",
                "The photograph is on the left, the render on the right",
                lambda: setattr(self._on, "value", True),
                lambda: setattr(self._on, "value", False),
                group="look",
                alone=False,
            )
        )
        step.on_click(lambda _: self._step(1 if step.value.startswith("Next") else -1))
        mode.on_update(lambda _: self._set(mode=mode.value))
        self._split.on_update(lambda _: self._set(split=self._split.value / 100))
        self._scale.on_update(lambda _: self._set(scale=float(self._scale.value)))

    def _set(self, **choices: Any) -> None:
        for name, value in choices.items():
            setattr(self._comparer, name, value)
        self._refresh()

    def _refresh(self) -> None:
        if self._on.value:
            self.page.stream.redraw()

    def _switch(self, on: bool) -> None:
        stream, comparer = self.page.stream, self._comparer
        (self.page.toolbar.entered if on else self.page.toolbar.left)("Compare")
        if on and stream.settings.painter is not comparer:
            comparer.under = stream.settings.painter
        stream.change(painter=comparer if on else comparer.under)
        self._numbers.visible = on
        if not on:
            self._comparer.release()
        else:
            index, self._next = self._nearest() if self._next is None else self._next, None
            self.page.go_to(self.page.session.views[index])

    def _step(self, by: int) -> None:
        views = self.page.session.views
        index = (self._nearest() + by) % len(views)
        if self._on.value:
            self.page.go_to(views[index])
        else:
            self._next = index
            self._on.value = True  # which calls _switch

    def _nearest(self) -> int:
        """Index of the view nearest to the camera of the page, a turn by one radian counting like the radius."""
        pose, radius = self.page.pose(), self.page.extent.radius
        poses = poses_of(self.page.session.views)
        apart = np.linalg.norm(poses[:, :3, 3] - pose.position, axis=1) / radius
        turn = np.arccos(np.clip(poses[:, :3, 2] @ pose.rotation[:, 2], -1, 1))
        return int(np.argmin(apart + turn))

    def report(self, report: StreamReport) -> None:
        """Shows name and scores of the view, and the colour bar of an error."""
        if not self._on.value:
            return
        name = self._comparer.name
        if name and report.caption.startswith(f"{name}: PSNR "):
            legend = legend_of(report.caption)
            score, _, iou = report.caption.removeprefix(f"{name}: PSNR ").partition(", mean IoU ")
            rows = [("View", name), ("PSNR", score), *([("Mean IoU", iou)] if iou else [])]
            text = table(rows) + (legend.as_html() if legend else "")
        elif name:
            text = table([("View", self._comparer.problem(name) or f"{name} is being read …")])
        else:
            text = table([("View", "the camera stands at no view; Previous and Next go to one")])
        if text != self._shown:
            self._shown = self._numbers.content = text

    def detach(self) -> None:
        """Frees the images."""
        self._comparer.release()
