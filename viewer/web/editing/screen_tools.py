"""Tools on the image: click and rectangle."""

from __future__ import annotations

from typing import Any

import torch

from luxel.render.primitives import Parameters
from luxel.viewer.edit import Mode
from luxel.viewer.edit.regions import in_sphere, visible_at
from luxel.viewer.web.editing.tool import Tool, need_point
from luxel.viewer.web.page import Click

MODIFIED: dict[str | None, Mode | None] = {None: None, "shift": "add", "cmd/ctrl": "subtract"}


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
    icon, key = "click", "v"
    persisted = ("Radius",)

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

    name, hint = "Rectangle", "Drag a rectangle on the image; Shift adds, Ctrl subtracts"
    icon, key = "rectangle", "r"
    through = True

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


def _mask(scene: Parameters, rows: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(scene.count, dtype=torch.bool, device=scene.device)
    mask[rows.to(scene.device)] = True
    return mask
