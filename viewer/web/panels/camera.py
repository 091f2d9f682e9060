"""Camera navigation: jumps to views, their frustums and scores, the up direction."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from luxel.render.geometry.camera import View
from luxel.scenes.measuring import operations
from luxel.scenes.measuring.measurements import Point
from luxel.viewer.measure.shared_measurements import SharedMeasurements, is_measurable
from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.inspection.frustums import Frustums
from luxel.viewer.web.inspection.view_scores import measure_scores, read_scores, score_rows
from luxel.viewer.web.page import Click
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import table

LEVEL, SCENE = "level", "scene"  # up directions: measured, and that of the scene
LEVELLED, LEVELLED_SECONDS = "levelled", 12.0  # name of a bar on the image, and for how long it is there
AXES = {sign + "xyz"[i]: float(sign + "1") * np.eye(3)[i] for i in range(3) for sign in "+-"}


class CameraPanel(Panel):
    """Moves the camera to the views of the capture, shows where they were taken, and how well they are rendered."""

    title = "Camera"
    persisted = ("Show cameras", "Up")

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls; those of views only where the session has views."""
        self._frustums = Frustums(self.page)
        self._scores: dict[str, float] = {}
        self._measuring, self._closed = False, False
        if self.page.session.views:
            self._build_views(gui)
        reset = gui.add_button("Reset view")
        reset.on_click(lambda _: self.page.reset())
        session = self.page.session
        self._shared = SharedMeasurements.of(session) if is_measurable(session) else None
        self._level = self._measured()
        self._up = gui.add_dropdown("Up", self._choices(), hint="Axis that a horizontal drag turns about")
        self._up_said, self._turned = (
            "",
            None,
        )  # what the list was set to without a turn; what was chosen last
        self._up.on_update(lambda _: self._set_up(self._up.value))
        self._down = gui.add_button(
            "This is down",
            hint="Then click a position on the floor: its surface becomes horizontal, on all pages of the scene",
        )
        self._down.on_click(lambda _: self._wait_for_floor(True))

    def _build_views(self, gui: Any) -> None:
        views = self.page.session.views
        names = [view.name for view in views]
        self._show = gui.add_checkbox("Show cameras", False, hint="Click a camera to look from there")
        self._show.on_update(lambda _: self._show_frustums())
        self._measure = gui.add_button(
            "Measure PSNR", hint="Renders all views and compares them", visible=False
        )
        self._measure.on_click(lambda _: self._start_measuring())
        self._bar = gui.add_html("", visible=False)
        chosen = self.page.chosen_view
        self._view = gui.add_dropdown(
            "View",
            names,
            initial_value=names[0],
            hint="Where the camera is, or the nearest; a choice flies there",
        )
        self._view.on_update(lambda event: self._go_to(views[names.index(event.target.value)]))
        step = gui.add_button_group("", ["◀ Previous", "Next ▶"])
        step.on_click(lambda _: self.page.go_by(1 if step.value.startswith("Next") else -1))
        chosen.on_change(self._follow_view)

    def _go_to(self, view: View) -> None:
        if view is not self.page.chosen_view.view:  # else the list follows the page
            self.page.go_to(view)

    def _follow_view(self) -> None:
        view = self.page.chosen_view.view
        if view is not None and self._view.value != view.name:
            self._view.value = view.name

    def _measured(self) -> Point | None:
        """The up direction that was measured; None: there is none."""
        return None if self._shared is None else self._shared.present.up

    def _choices(self) -> list[str]:
        return [*([] if self._level is None else [LEVEL]), SCENE, "this view", *AXES]

    def _set_up(self, choice: str) -> None:
        said, self._up_said = self._up_said, ""
        if choice == said:
            return
        self._turned = None
        if choice == LEVEL:
            self.page.set_up(np.array(self._level))
        elif choice == SCENE:
            self.page.set_up(self.page.scene_up)
        else:
            this_view = choice == "this view"
            self._turned = -self.page.pose().rotation[:, 1] if this_view else AXES[choice]
            self.page.turn_up(self._turned)

    def _say_up(self) -> None:
        """Says that the page is level again where a reset has ended another choice."""
        if self._turned is not None and not np.array_equal(self.page.up, self._turned):
            self._turned = None
            self._up_said = SCENE if self._level is None else LEVEL
            self._up.value = self._up_said

    def attach(self, stream: ClientStream) -> None:
        """Follows the up direction that is measured on any page."""
        if self._shared is not None:
            self._shared.on_change(self._follow_level)

    def _follow_level(self) -> None:
        """Turns the page where the up direction that was measured is another one."""
        if (measured := self._measured()) == self._level:
            return
        self._level = measured
        self._up.options = self._choices()
        self._up.value = SCENE if measured is None else LEVEL
        self.page.set_up(self.page.scene_up if measured is None else np.array(measured))

    def _show_frustums(self) -> None:
        on = self._show.value
        if not self._scores:
            self._scores = read_scores(self.page.session.folder)
        self._measure.visible = on
        self._frustums.show(on, dict(self._scores))
        self._show_scores()

    def _show_scores(self) -> None:
        legend = self._frustums.legend()
        rows = score_rows(self._scores, self.page.session)
        self._bar.visible = bool(self._show.value and legend)
        if legend and rows:
            self._bar.content = table(rows) + legend.as_html()

    def _start_measuring(self) -> None:
        if self._measuring:
            self._measuring = False  # a second click ends it
            return
        self._measuring = True
        self._scores = {}
        threading.Thread(target=self._run_measurement, daemon=True).start()

    def _run_measurement(self) -> None:
        page, count = self.page, len(self.page.session.views)

        def keep(name: str, score: float) -> None:
            self._scores[name] = score
            self._measure.label = f"Measured {len(self._scores)} of {count}: stop"
            self._frustums.show(self._show.value, dict(self._scores))
            self._show_scores()

        try:
            stopped = lambda: self._closed or not self._measuring  # noqa: E731
            measure_scores(page.session, page.stream.settings, keep, stopped)
        except Exception as error:
            page.client.add_notification("The views were not measured", str(error), color="red")
        finally:
            self._measuring = False
            if not self._closed:
                self._measure.label = "Measure PSNR"

    def report(self, report: StreamReport) -> None:
        """Hides the frustums that the camera stands in, and follows the up direction of the page."""
        self._frustums.follow()
        self._say_up()

    def _wait_for_floor(self, on: bool) -> None:
        self.listen(on)
        self._down.label = "Click the floor …" if on else "This is down"

    def on_click(self, click: Click) -> None:
        """Levels the page by the surface that was clicked."""
        self._wait_for_floor(False)
        if click.sample.normal is None:
            self.page.client.add_notification(
                "There is no surface",
                "Click a position on the floor that is not transparent.",
                auto_close_seconds=6,
            )
            return
        normal = np.array(click.sample.normal)
        if self._shared is None:
            self.page.set_up(normal)
        else:
            before = self._shared.present
            self._shared.apply("Level", lambda m: operations.set_up(m, normal))
            if self._shared.present != before:
                text = "The clicked surface is level now, on all pages."
                self.page.bars.show(LEVELLED, text, [("Undo", self._undo_level)], seconds=LEVELLED_SECONDS)
            self._up.value = (
                LEVEL  # also where the page had chosen another one, and the floor is level already
            )
            self.page.set_up(np.array(self._level))

    def _undo_level(self) -> None:
        """Takes "This is down" back, unless something else was measured since."""
        self.page.bars.hide(LEVELLED)
        if self._shared is not None and self._shared.undo_titles[-1:] == ["Level"]:
            self._shared.undo()

    def detach(self) -> None:
        """Ends a measurement of scores, and follows no more."""
        self._closed = True
        if self._shared is not None:
            self._shared.forget(self._follow_level)
