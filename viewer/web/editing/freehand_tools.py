"""Tools that are drawn on the image with the mouse, a pen or a finger: lasso, polygon and brush."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.viewer.edit.regions import ScreenPoints
from luxel.viewer.web.editing.stroke_messages import (
    MAX_RADIUS,
    MIN_RADIUS,
    BrushRadius,
    StrokeCancelled,
    StrokeMessage,
    StrokePart,
)
from luxel.viewer.web.editing.stroke_server import STROKES
from luxel.viewer.web.editing.tool import Tool
from luxel.viewer.web.navigate import Pose


class FreehandTool(Tool):
    """A tool whose strokes are drawn by a script in the page; meanwhile drags do not turn the camera."""

    shape: ClassVar[str]
    through = True

    def start(self) -> None:
        """Starts the script."""
        self._view: tuple[list[Any], ScreenPoints, Pose] | None = None
        self._key = STROKES.start(self.page.client, self.receive, shape=self.shape, **self.options())

    def stop(self) -> None:
        """Stops it."""
        STROKES.stop(self.page.client, self._key)
        self._view = None

    def options(self) -> dict[str, Any]:
        """What the script needs to know besides the shape."""
        return {}

    def receive(self, message: StrokeMessage) -> None:
        """Takes a message of the page."""
        if isinstance(message, StrokePart):
            self.workspace.guard(lambda: self.draw(message))

    @abstractmethod
    def draw(self, part: StrokePart) -> None:
        """Selects by a part of a stroke."""
        ...

    def screen(self) -> tuple[ScreenPoints, Pose]:
        """Centres on the screen and the camera; those of the stroke before while neither view nor scene change."""
        workspace, pose = self.workspace, self.page.pose()
        scene, masks = workspace.editor.run(lambda document: (document.state.scene, document.state.masks))
        near, far = self.page.stream.settings.near, self.page.stream.settings.far
        view = [scene, masks["hidden"], masks["deleted"], *pose.position.tolist(), *pose.wxyz.tolist()]
        view += [pose.fov_y, pose.width, pose.height, self.page.stream.time, workspace.through(), near, far]
        if self._view is None or not _same(self._view[0], view):
            self._view = (view, workspace.on_screen(scene, pose), pose)
        return self._view[1], self._view[2]


class LassoTool(FreehandTool):
    """Selects within an outline that is drawn on the image."""

    name, shape, icon, key = "Lasso", "lasso", "lasso", "l"
    hint = "Draw around what is to be selected; Shift adds, Alt or Ctrl subtracts"
    title = "Lasso"

    def draw(self, part: StrokePart) -> None:
        """Selects within the outline."""
        if len(part.points) < 3:
            raise LuxelError("the outline is too short.", "Draw around what is to be selected.")
        screen, pose = self.screen()
        corners = [(u * pose.width, v * pose.height) for u, v in part.points]
        self.workspace.select(lambda _: screen.in_polygon(corners), self.title, part.mode)


class PolygonTool(LassoTool):
    """Selects within a polygon whose corners are clicked on the image."""

    name, shape, icon, key = "Polygon", "polygon", "polygon", "p"
    hint = "Click the corners; Enter or a click on the first one closes; Shift adds, Alt or Ctrl subtracts"
    title = "Select polygon"


@dataclass
class _Stroke:
    """A stroke that is being painted, and what it has touched, bool [N]."""

    number: int
    screen: ScreenPoints
    pose: Pose
    mask: Tensor


class BrushTool(FreehandTool):
    """Selects what a brush touches; the selection is shown while the stroke is painted."""

    name, shape, icon, key = "Brush", "brush", "brush", "b"
    persisted = ("Brush radius",)
    hint = "Paint on the image; Shift adds, Alt or Ctrl subtracts; [ and ] change the radius"

    def build(self, gui: Any) -> None:
        """Adds the radius."""
        self._stroke: _Stroke | None = None
        self._key: str | None = None
        self._page_radius: float | None = None  # as the page has it
        self._radius = gui.add_slider(
            "Brush radius", MIN_RADIUS, MAX_RADIUS, 1, 30, hint="Pixels; keys [ and ]"
        )
        self._radius.on_update(lambda _: self._resized())
        self.controls = [self._radius]

    def options(self) -> dict[str, Any]:
        """The radius."""
        self._page_radius = float(self._radius.value)
        return {"radius": self._page_radius, "least": MIN_RADIUS, "most": MAX_RADIUS}

    def _resized(self) -> None:
        if float(self._radius.value) != self._page_radius:
            STROKES.change(self.page.client, self._key, **self.options())

    def stop(self) -> None:
        """Gives up a stroke that has not ended."""
        super().stop()
        self._give_up()

    def receive(self, message: StrokeMessage) -> None:
        """Takes a part of a stroke, its end, or another radius."""
        if isinstance(message, BrushRadius):
            self._page_radius = float(round(message.pixels))
            self._radius.value = round(message.pixels)
        elif isinstance(message, StrokeCancelled):
            if self._stroke is not None and self._stroke.number == message.number:
                self._give_up()
        else:
            super().receive(message)

    def _give_up(self) -> None:
        if self._stroke is not None:
            self._stroke = None
            self.workspace.editor.show()

    def draw(self, part: StrokePart) -> None:
        """Adds a part to the stroke; the last one makes an edit of it."""
        stroke = self._stroke
        if stroke is None or stroke.number != part.number:
            screen, pose = self.screen()
            stroke = _Stroke(part.number, screen, pose, torch.zeros_like(screen.counts))
        self._stroke = None if part.last else stroke
        points = [(u * stroke.pose.width, v * stroke.pose.height) for u, v in part.points]
        stroke.mask |= stroke.screen.near_stroke(points, part.radius * stroke.pose.height)
        mode, editor = part.mode or self.workspace.mode(), self.workspace.editor
        if not part.last:
            editor.preview_selection(stroke.mask, mode)
        elif not editor.run(lambda document: document.select(stroke.mask, mode, "Brush")):
            editor.show()  # instead of the preview


def _same(a: list[Any], b: list[Any]) -> bool:
    """Whether two descriptions of a view are equal; tensors and scenes must be the same objects."""
    return all(
        x is y or (isinstance(x, float | int) and isinstance(y, float | int) and x == y)
        for x, y in zip(a, b, strict=True)
    )
