"""Tools on the image: click, rectangle and polygon."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.viewer.edit import Mode
from luxel.viewer.edit.regions import MAX_CORNERS, in_sphere, visible_at
from luxel.viewer.web.editing.tool import Tool, need_point
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.page import Click

MODIFIED: dict[str | None, Mode | None] = {None: None, "shift": "add", "cmd/ctrl": "subtract"}
OUTLINE = (255, 184, 26)
OUTLINE_DEPTH = 0.05  # distance of a polygon's outline from the camera, in radii of the scene


class ClickedTool(Tool):
    """A tool that takes clicks on the image while it is chosen."""

    def start(self) -> None:
        """Listens to clicks."""
        self.page.listen(self._clicked, True)

    def stop(self) -> None:
        """Listens no more."""
        self.page.listen(self._clicked, False)

    def _clicked(self, click: Click) -> None:
        raise NotImplementedError


class ClickTool(ClickedTool):
    """Selects the primitive under the cursor, or what surrounds the point there."""

    name, hint = "Click", "Click the image; the surroundings within the radius are selected too"

    def build(self, gui: Any) -> None:
        """Adds the radius."""
        self._radius = gui.add_slider(
            "Radius", 0.0, 20.0, 0.1, 0.0, hint="Percent of the scene's radius; 0 selects one primitive"
        )
        self.controls = [self._radius]

    def _clicked(self, click: Click) -> None:
        self.workspace.guard(lambda: self._select(click))

    def _select(self, click: Click) -> None:
        radius = self._radius.value / 100 * self.page.extent.radius
        if click.sample.strongest and radius == 0:  # what contributes most to the pixel
            rows = torch.tensor([max(click.sample.strongest, key=lambda c: c.weight).index])
            self.workspace.select(lambda scene: _mask(scene, rows), "Select one")
            return
        point = need_point(click.point).tolist()
        if radius > 0:
            self.workspace.select(
                lambda scene: in_sphere(scene.centres, point, radius), "Select surroundings"
            )
            return
        shown = self.workspace.editor.run(lambda document: document.drawn(highlight=False))
        self.workspace.select(lambda _: visible_at(shown, point), "Select one")


class RectangleTool(Tool):
    """Selects within a rectangle that is dragged on the image."""

    name, hint = "Rectangle", "Drag a rectangle on the image; with Shift it is added, with Ctrl subtracted"

    def start(self) -> None:
        """Drags draw rectangles instead of turning the camera."""
        for modifier in MODIFIED:
            self.page.client.scene.on_rect_select(modifier=modifier)(self._selected)  # pyright: ignore

    def stop(self) -> None:
        """Drags turn the camera again."""
        self.page.client.scene.remove_rect_select_callback(self._selected)

    def _selected(self, event: Any) -> None:
        pose = self.page.pose()
        (u0, v0), (u1, v1) = event.screen_min, event.screen_max
        box = (u0 * pose.width, v0 * pose.height, u1 * pose.width, v1 * pose.height)
        self.workspace.select(
            lambda scene: self.workspace.on_screen(scene, pose).in_rectangle(*box),
            "Select rectangle",
            MODIFIED.get(event.modifier),
        )


class PolygonTool(ClickedTool):
    """Selects within a polygon whose corners are clicked on the image."""

    name, hint = "Polygon", "Click the corners on the image, then close the polygon"

    def build(self, gui: Any) -> None:
        """Adds the buttons."""
        self._corners: list[tuple[float, float]] = []
        self._pose: Pose | None = None
        self._outline: Any = None
        buttons = gui.add_button_group("", ["Close polygon", "Discard"])
        buttons.on_click(lambda _: self._close() if buttons.value == "Close polygon" else self._discard())
        self.controls = [buttons]

    def stop(self) -> None:
        """Discards the corners."""
        super().stop()
        self._discard()

    def _clicked(self, click: Click) -> None:
        pose = self.page.pose()
        if self._pose is None or not _same_view(pose, self._pose):  # corners hold for one view
            self._discard()
            self._pose = pose
        self._corners.append(click.pixel)
        self._draw(pose)

    def _draw(self, pose: Pose) -> None:
        """Draws the outline just before the camera."""
        half = np.tan(0.5 * pose.fov_y)
        u, v = (np.array(self._corners) / [pose.width, pose.height]).T
        local = np.stack(
            [(2 * u - 1) * half * pose.width / pose.height, (2 * v - 1) * half, np.ones_like(u)], -1
        )
        distance = OUTLINE_DEPTH * self.page.extent.radius
        points = pose.position + distance * local @ pose.rotation.T
        ends = np.concatenate([points[1:], points[:1]])
        self._outline = self.page.client.scene.add_line_segments(
            "/edit/polygon", np.stack([points, ends], 1), OUTLINE, thickness=2.0, thickness_units="screen"
        )

    def _discard(self) -> None:
        self._corners, self._pose = [], None
        if self._outline is not None:
            self._outline.remove()
            self._outline = None

    def _close(self) -> None:
        corners, pose = self._corners, self._pose
        self._discard()
        self.workspace.select(
            lambda scene: self.workspace.on_screen(scene, pose).in_polygon(need_corners(corners)),
            "Select polygon",
        )


def _mask(scene: Parameters, rows: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(scene.count, dtype=torch.bool, device=scene.device)
    mask[rows.to(scene.device)] = True
    return mask


def need_corners(corners: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a polygon.

    Raises:
        LuxelError: there are too few or too many.
    """
    if not 3 <= len(corners) <= MAX_CORNERS:
        raise LuxelError(
            f"a polygon of {len(corners)} corners.", f"Click 3 to {MAX_CORNERS:,} corners on the image."
        )
    return corners


def _same_view(a: Pose, b: Pose) -> bool:
    return (
        np.allclose(a.wxyz, b.wxyz, atol=1e-6)
        and np.allclose(a.position, b.position)
        and (a.width, a.height) == (b.width, b.height)
    )
