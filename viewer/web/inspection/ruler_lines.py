"""Rulers in the scene of a page: lines, their lengths at the middle, and handles at the ends of one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from luxel.scenes.measuring.lengths import length_in_words
from luxel.scenes.measuring.measurements import Ruler
from luxel.viewer.measure.shared_measurements import SharedMeasurements
from luxel.viewer.web.navigate import MAX_COORDINATE
from luxel.viewer.web.page import Page

LINES, HANDLES, MARKS = "/rulers/lines", "/rulers/handle", "/rulers/marks"
COLOUR, CHOSEN = (255, 208, 64), (255, 96, 32)
THICKNESS = 3.0  # pixels
HANDLE_SIZE = 0.06  # in radii of the scene
MARK_SIZE = 0.004  # in radii of the scene


class RulerLines:
    """Draws the rulers of a page.

    Args:
        page: that shows them.
        shared: the measurements.
        on_moved: called with "start" or "end" and its new place in the scene, [3], when a handle was dragged.
    """

    def __init__(
        self, page: Page, shared: SharedMeasurements, on_moved: Callable[[str, np.ndarray], None]
    ) -> None:
        self._page, self._shared, self._on_moved = page, shared, on_moved
        self._lines: Any = None
        self._labels: dict[str, Any] = {}
        self._handles: dict[str, Any] = {}
        self._marks: list[Any] = []
        self._dragging = False

    def draw(self, visible: bool, chosen: str, handles: bool) -> None:
        """Draws all rulers as they are now.

        Args:
            visible: whether they are shown.
            chosen: name of the ruler in another colour; empty: none.
            handles: whether its ends have handles.
        """
        if self._dragging:
            return
        rulers = self._shared.present.rulers if visible else ()
        self._draw_lines(rulers, chosen)
        self._draw_labels(rulers)
        self._draw_handles(next((r for r in rulers if r.name == chosen), None) if handles else None)

    def mark(self, points: list[np.ndarray]) -> None:
        """Marks points that were clicked, in the scene, [3] each, instead of those before."""
        for node in self._marks:
            node.remove()
        radius = MARK_SIZE * self._page.extent.radius
        self._marks = [
            self._page.client.scene.add_icosphere(
                f"{MARKS}/{number}", radius=radius, color=CHOSEN, position=point
            )
            for number, point in enumerate(points)
        ]

    def remove(self) -> None:
        """Removes everything from the scene."""
        self._dragging = False
        self.draw(False, "", False)
        self.mark([])

    def _ends(self, ruler: Ruler) -> np.ndarray:
        """In the scene, [2, 3]."""
        return np.stack([self._shared.to_scene(ruler.start), self._shared.to_scene(ruler.end)])

    def _draw_lines(self, rulers: tuple[Ruler, ...], chosen: str) -> None:
        if self._lines is not None:
            self._lines.remove()
            self._lines = None
        if rulers:
            colours = [CHOSEN if ruler.name == chosen else COLOUR for ruler in rulers]
            self._lines = self._page.client.scene.add_line_segments(
                LINES,
                np.stack([self._ends(ruler) for ruler in rulers]).astype(np.float32),
                np.repeat(np.array(colours, np.uint8)[:, None], 2, axis=1),
                thickness=THICKNESS,
                thickness_units="screen",
            )

    def _draw_labels(self, rulers: tuple[Ruler, ...]) -> None:
        texts = {f"/rulers/{number}": ruler for number, ruler in enumerate(rulers)}
        for name in [name for name in self._labels if name not in texts]:
            self._labels.pop(name).remove()
        for name, ruler in texts.items():
            text = f"{ruler.name}: {length_in_words(ruler.length, self._shared.metres)}"
            middle = self._ends(ruler).mean(0)
            label = self._labels.get(name)
            if label is None:
                self._labels[name] = self._page.client.scene.add_label(
                    name, text, position=middle, anchor="bottom-center"
                )
            else:
                if label.text != text:
                    label.text = text
                label.position = middle

    def _draw_handles(self, ruler: Ruler | None) -> None:
        if ruler is None:
            for handle in self._handles.values():
                handle.remove()
            self._handles = {}
            return
        for which, place in zip(("start", "end"), self._ends(ruler), strict=True):
            handle = self._handles.get(which)
            if handle is None:
                handle = self._handles[which] = self._page.client.scene.add_transform_controls(
                    f"{HANDLES}/{which}",
                    scale=HANDLE_SIZE * self._page.extent.radius,
                    disable_rotations=True,
                    depth_test=False,
                    translation_limits=((-MAX_COORDINATE, MAX_COORDINATE),) * 3,
                    position=place,
                )
                handle.on_update(lambda event, which=which: self._moved(event, which))
            else:
                handle.position = place

    def _moved(self, event: Any, which: str) -> None:
        """Follows a drag; its end is the change."""
        self._dragging = event.phase != "end"
        if not self._dragging:
            self._on_moved(which, np.asarray(event.target.position, np.float64))
