"""Two scenes: a movable line or the difference, figures of both, and what speaks against comparing them."""

from __future__ import annotations

import math
from typing import Any

from luxel.viewer.web.images.stream import ClientStream, StreamReport
from luxel.viewer.web.inspection.coverage import Coverage, coverage_of
from luxel.viewer.web.inspection.view_scores import read_scores
from luxel.viewer.web.navigate import first_pose
from luxel.viewer.web.pair.painter import PairPainter
from luxel.viewer.web.pair.session import PairSession, Side
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import as_text, table
from luxel.viewer.web.session import Session
from luxel.viewer.web.shading.legend import legend_of
from luxel.viewer.web.shading.shading import VIEW_OUTPUTS

BESIDE, DIFFERENCE = "side by side", "difference"
FIT = ("Left scene", "Right scene")
EDITING = "Editing needs a viewer with one scene."


class PairPanel(Panel):
    """Shows the two scenes of a `PairSession` under the camera of the page."""

    title = "Two scenes"
    persisted = ("Image", "Line", "Error scale")

    @classmethod
    def available(cls, session: Session) -> bool:
        """Where two scenes are shown."""
        return isinstance(session, PairSession)

    def build(self, gui: Any, order: float) -> None:
        """Adds the choice of the image, the line, the buttons and the figures."""
        session = self.page.session
        assert isinstance(session, PairSession)
        self._session, self._painter = session, PairPainter(session)
        self._coverages: list[Coverage] = []
        self._scores = {side.name: _mean_psnr(side) for side in session.sides}
        self._notice = gui.add_markdown(
            "".join(f"**{as_text(problem)}**\n\n" for problem in session.problems),
            visible=bool(session.problems),
        )
        mode = gui.add_dropdown("Image", (BESIDE, DIFFERENCE), hint="Difference: right minus left")
        split = gui.add_slider(
            "Line", 0.0, 100.0, 0.1, 50.0, hint="Percent of the width that the left scene takes"
        )
        scale = gui.add_slider(
            "Error scale",
            0.01,
            1.0,
            0.01,
            0.2,
            hint="Difference of colours or alpha at the end of the colour bar; of normals in half turns",
            visible=False,
        )
        swap = gui.add_button("Swap sides")
        fit = gui.add_button_group("Fit camera", FIT, hint=f"Shows one scene in full. {EDITING}")
        self._numbers = gui.add_html(table(self._rows()))
        self._shown = ""

        def choose(_: Any) -> None:
            difference = mode.value == DIFFERENCE
            split.visible, scale.visible = not difference, difference
            self._set(difference=difference)

        mode.on_update(choose)
        split.on_update(lambda _: self._set(split=split.value / 100))
        self._line = split
        scale.on_update(lambda _: self._set(scale=float(scale.value)))
        swap.on_click(lambda _: self._set(swapped=not self._painter.swapped))
        fit.on_click(lambda _: self._fit_camera(self._painter.sides[FIT.index(fit.value)]))

    def attach(self, stream: ClientStream) -> None:
        """Draws both scenes from now on."""
        stream.change(painter=self._painter)
        self._divide()
        for side in self._session.sides:
            if len(side.session.training_views):
                self._coverages.append(coverage_of(side.session))
                self._coverages[-1].listen(self._redraw)

    def _set(self, **choices: Any) -> None:
        for name, value in choices.items():
            setattr(self._painter, name, value)
        self._divide()
        self.page.stream.redraw()

    def _divide(self) -> None:
        """Shows the line on the image, which has the names of the scenes, or hides it."""
        painter, divider = self._painter, self.page.divider
        if painter.difference:
            divider.hide(self)
            return
        divider.show(
            self,
            lambda value: setattr(self._line, "value", round(100 * value, 1)),
            value=painter.split,
            left="",
            right="",
        )

    def _redraw(self) -> None:
        if self.page.stream.settings.output in VIEW_OUTPUTS:
            self.page.stream.redraw()

    def _fit_camera(self, side: Side) -> None:
        """Flies to a scene; drags turn about its centre and its up direction from then on."""
        page = self.page
        page.extent = side.extent
        page.turn_up(side.extent.up)
        if side.session.views:
            page.go_to(side.session.views[0])
        else:
            page.fly_to(first_pose((), side.extent))

    def _rows(self) -> list[tuple[str, str]]:
        """Label and text of the figures of both scenes, as they are shown."""
        times = {part.side.name: part.ms for part in self._painter.parts}
        rows = []
        for position, side in zip(("Left", "Right"), self._painter.sides, strict=True):
            status = side.session.status()
            rows.append((position, side.name))
            if (step := status.get("step")) is not None:
                rows.append(("– step", f"{step:,}{'' if status.get('done') else ', is training'}"))
            rows.append((f"– {side.session.about.noun}", f"{status.get('count', 0):,}"))
            rows.append(("– render", f"{times[side.name]:.1f} ms" if times.get(side.name) else "–"))
            if not math.isnan(score := self._scores[side.name]):
                rows.append(("– PSNR, held out", f"{score:.2f} dB"))
        return rows

    def report(self, report: StreamReport) -> None:
        """Shows the figures, and the colour bar of false colours; sends only what changed."""
        own = report.caption == self._painter.caption  # else at an image, which has a bar of its own
        legend = legend_of(self._painter.caption) if own else None
        text = table(self._rows()) + (legend.as_html() if legend else "")
        if text != self._shown:
            self._shown = self._numbers.content = text

    def detach(self) -> None:
        """Ends the rendering of depth maps with the last page."""
        for coverage in self._coverages:
            coverage.unlisten(self._redraw)


def _mean_psnr(side: Side) -> float:
    """Mean PSNR in dB of the report of a run; NaN where there is none."""
    scores = [score for score in read_scores(side.session.folder).values() if math.isfinite(score)]
    return sum(scores) / len(scores) if scores else math.nan
