"""Inspect: a click on the image shows world coordinates, depth and colour under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from luxel.scenes.large_coordinates import Shift
from luxel.scenes.measuring.lengths import length_in_words
from luxel.viewer.measure.shared_measurements import SharedMeasurements, is_measurable
from luxel.viewer.web.numerals import number
from luxel.viewer.web.page import Click
from luxel.viewer.web.panels.panel import Panel
from luxel.viewer.web.panels.text import table
from luxel.viewer.web.shading.shading import Sample
from luxel.viewer.web.toolbar import ToolbarTool

LINE = ("Point", "Depth", "Colour", "Pixel")  # of `click_rows`, on the image
MARKER = 0.005  # radius of the marker, in distances from the camera


class InspectPanel(Panel):
    """Shows what lies under the cursor; off until its switch is on."""

    persisted = ("Inspect",)

    def build(self, gui: Any, order: float) -> None:
        """Adds the switch, and the numbers of the last click below it."""
        self._switch = gui.add_checkbox(
            "Inspect",
            False,
            hint="Click the image to see coordinates, depth and colour of a point, and the primitives that show there",
            order=order,
        )
        self._numbers = gui.add_html("", visible=False, order=order)
        self._marker: Any = None
        self._switch.on_update(lambda _: self._set(self._switch.value))
        self.page.toolbar.add_tool(
            ToolbarTool(
                "Inspect",
                "Inspect",
                "inspect",
                "i",
                "Click a point for its coordinates, depth and colour; more is in the panel",
                lambda: setattr(self._switch, "value", True),
                lambda: setattr(self._switch, "value", False),
                group="look",
            )
        )

    def _set(self, on: bool) -> None:
        self.listen(on)
        (self.page.toolbar.entered if on else self.page.toolbar.left)("Inspect")
        if on:
            self._numbers.content = table([("Point", "click the image")])
        elif self._marker is not None:
            self._marker.visible = False
        self._numbers.visible = on

    def _metres(self) -> float | None:
        """Length of a unit, where it is known."""
        session = self.page.session
        return SharedMeasurements.of(session).metres if is_measurable(session) else session.about.metres

    def on_click(self, click: Click) -> None:
        """Shows the numbers of the point, and marks it."""
        shift, metres = self.page.session.about.shift, self._metres()
        rows = click_rows(click, shift, metres, self.page.size)
        self._numbers.content = table(rows)
        if self.page.toolbar.active[-1:] == ("Inspect",):
            self.page.toolbar.say(in_a_line(rows))
        if click.point is None:
            if self._marker is not None:
                self._marker.visible = False
            return
        distance = float(np.linalg.norm(click.point - self.page.pose().position))
        self._marker = self.page.client.scene.add_icosphere(
            "/inspect", radius=MARKER * distance, color=(255, 60, 60), position=click.point
        )  # replaces that of the last click


def click_rows(
    click: Click,
    shift: Shift | None = None,
    metres: float | None = None,
    size: tuple[int, int] | None = None,
) -> list[tuple[str, str]]:
    """Label and text of what is known of a clicked point.

    Args:
        click: its coordinates are those of the scene.
        shift: what was subtracted from large coordinates: those of the capture are shown; None: nothing.
        metres: length of a unit; None: it is not known, and depths are in units alone.
        size: width and height of the image, in whose pixels the click is given; None: in its own.
    """
    column, row = click.pixel if size is None else (u * n for u, n in zip(click.place, size, strict=True))
    rows = [("Pixel", f"{int(column)}, {int(row)}")]
    if click.point is not None:
        if shift is None:
            rows.append(("Point", ", ".join(number(value) for value in click.point)))
        else:
            rows.append(
                ("Point", ", ".join(f"{a + b:.10g}" for a, b in zip(click.point, shift, strict=True)))
            )
    for sample in (click.sample, *click.sample.others):
        rows += sample_rows(sample, metres)
    return rows


def in_a_line(rows: Sequence[tuple[str, str]]) -> str:
    """The first of each of the labels in LINE, for the line on the image."""
    texts = dict(reversed(rows))
    named = [f"{'' if label == 'Colour' else f'{label} '}{texts[label]}" for label in LINE if label in texts]
    return " · ".join(named)


def sample_rows(sample: Sample, metres: float | None = None) -> list[tuple[str, str]]:
    """Label and text of what is known of one pixel of a scene, headed by its name where there are several."""
    rows = [("Scene", sample.name)] if sample.name else []
    known = "" if sample.depth is None or metres is None else f" ({length_in_words(sample.depth, metres)})"
    rows.append(("Depth", "–" if sample.depth is None else f"{number(sample.depth)}{known}"))
    rows.append(("Colour", "rgb({}, {}, {})".format(*(round(255 * c) for c in sample.rgb))))
    if sample.alpha is not None:
        rows.append(("Alpha", f"{sample.alpha:.3f}"))
    if sample.normal is not None:
        rows.append(("Normal", ", ".join(f"{value:.2f}" for value in sample.normal)))
    return rows + contributor_rows(sample)


def contributor_rows(sample: Sample) -> list[tuple[str, str]]:
    """Label and text of the primitives that contribute to a pixel; the parameters of the strongest."""
    if sample.count is None:
        return [("Contributors", "not available")]
    rows = [("Contributors", f"{sample.count}")]
    for index, one in enumerate(sample.strongest):
        label = "Strongest" if index == 0 else "next"
        rows.append((label, f"#{one.index}: {100 * one.weight:.1f} % of the pixel, alpha {one.alpha:.3f}"))
        rows += [(f"– {name}", text) for name, text in one.details] if index == 0 else []
    return rows
