"""Compare: image and render of a view under one slider, and the error between them."""

from __future__ import annotations

import math
from typing import Any

from luxel.render.geometry.camera import View
from luxel.viewer.web.images.stream import StreamReport
from luxel.viewer.web.inspection.comparison import DIVIDED, MODES, Comparer, letterbox
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import table
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.legend import legend_of
from luxel.viewer.web.toolbar import ToolbarAction, ToolbarTool

PATIENCE = (
    4  # reports, a quarter of a second each, until it is said that the camera is away: it may be flying
)
AWAY = "away"  # whether the camera stands at no view, for the toolbar


class ComparePanel(Panel):
    """Shows the image alongside the render wherever the camera stands at a view, until its switch is off."""

    title = "Compare"
    unfolded = False
    persisted = ("Image", "Split", "Error scale")

    @classmethod
    def available(cls, session: Session) -> bool:
        """Where there are images."""
        return len(session.views) > 0

    def build(self, gui: Any, order: float) -> None:
        """Adds the switch, the choice of the image, the split and the scale of errors."""
        page = self.page
        self._comparer = Comparer(page.session, page.extent.radius, self._refresh, page.chosen_view)
        self._on = gui.add_checkbox(
            "Compare", False, hint="Image against render at the camera of a view; starts at the nearest"
        )
        step = gui.add_button_group("View", ["◀ Previous", "Next ▶"])
        mode = gui.add_dropdown("Image", list(MODES))
        self._split = gui.add_slider(
            "Split", 0.0, 100.0, 0.1, 50.0, hint="Percent of the width that the image takes"
        )
        self._scale = gui.add_slider(
            "Error scale",
            0.01,
            1.0,
            0.01,
            0.2,
            hint="Difference of colours in [0, 1] at the end of the colour bar",
            visible=False,
        )
        self._numbers = gui.add_html("", visible=False)
        self._shown = ""
        self._next: View | None = None
        self._stays = False  # whether the camera stays where it is when it is switched on
        self._reports_away = 0
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
                resume=self._resume,
                folder=self.title,
            )
        )
        page.toolbar.add_action(
            ToolbarAction("To the photograph", "Go to it", "", self._go_back, AWAY, "line")
        )
        step.on_click(lambda _: self._step(1 if step.value.startswith("Next") else -1))
        mode.on_update(lambda _: self._choose_mode(mode.value))
        self._split.on_update(lambda _: self._set(split=self._split.value / 100))
        self._scale.on_update(lambda _: self._set(scale=float(self._scale.value)))

    def _choose_mode(self, mode: str) -> None:
        """Shows another image, and the control that it has instead of the other one."""
        self._split.visible, self._scale.visible = mode == DIVIDED, mode != DIVIDED
        self._set(mode=mode)

    def _set(self, **choices: Any) -> None:
        for name, value in choices.items():
            setattr(self._comparer, name, value)
        self._divide()
        self._refresh()

    def _divide(self) -> None:
        """Shows the line on the image where the camera stands at a view and both sides are shown."""
        comparer, page = self._comparer, self.page
        view = next((v for v in page.session.views if v.name == comparer.name), None)
        if not self._on.value or view is None or comparer.mode != DIVIDED:
            page.divider.hide(self)
            return
        width, height = max(1, page.client.camera.image_width), max(1, page.client.camera.image_height)
        box = letterbox(view.camera.width, view.camera.height, width, height)
        page.divider.show(
            self,
            lambda value: setattr(self._split, "value", round(100 * value, 1)),
            value=comparer.split,
            left="Photograph",
            right="Render",
            span=(box.left / width, (box.left + box.columns) / width),
        )

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
            self._divide()
            self.page.toolbar.update(**{AWAY: False})
        elif self._stays:
            self._stays = False
        else:
            view, self._next = self._next, None
            if view is None:
                self._go_back()
            else:
                self.page.go_to(view)

    def _resume(self) -> None:
        """Switches it on where a page had it before it was loaded again."""
        self._stays = True
        self._on.value = True

    def _step(self, by: int) -> None:
        self.page.follow_view()
        view = self.page.chosen_view.neighbour(by)
        if self._on.value:
            self.page.go_to(view)
        else:
            self._next = view
            self._on.value = True  # which calls _switch

    def _go_back(self) -> None:
        """Flies to the chosen view."""
        self.page.follow_view()
        self.page.go_to(self.page.chosen_view.neighbour(0))

    def _say_where(self, report: StreamReport) -> None:
        """Says on the image what is compared, or that the camera stands at no view and which one is near."""
        toolbar = self.page.toolbar
        self._reports_away = 0 if self._comparer.name else self._reports_away + 1
        away = self._reports_away >= PATIENCE
        if toolbar.active[-1:] != ("Compare",):
            pass  # the line is that of another tool
        elif self._comparer.name and report.caption.startswith(f"{self._comparer.name}: "):
            toolbar.say(str(report.caption))
        elif away:
            chosen = self.page.chosen_view
            name, degrees = chosen.neighbour(0).name, math.degrees(chosen.turned(self.page.pose()))
            toolbar.say(f"The camera stands at no photograph: {name} is turned by {degrees:.0f}° from here.")
        toolbar.update(**{AWAY: away})

    def report(self, report: StreamReport) -> None:
        """Shows name and scores of the view, and the colour bar of an error."""
        if not self._on.value:
            return
        self._divide()
        self._say_where(report)
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
