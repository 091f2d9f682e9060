"""The interface of an editing tool, and what it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives import Parameters
from luxel.viewer.edit import Document, Mode
from luxel.viewer.edit.regions import ScreenPoints
from luxel.viewer.web.editing.editor import SceneEditor
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.page import Page
from luxel.viewer.web.shading.shading import depth_map

DEPTH_SIDE = 640  # pixels, at most, of the depth that decides what is visible

Region = Callable[[Parameters], Tensor]  # a mask [N] of the primitives


@dataclass
class Workspace:
    """What the tools of one page work with.

    Args:
        page, editor: of the tools.
        mode: how a new selection joins the old one.
        through: whether regions of the screen also select what is hidden behind other primitives.
        guard: runs an action, and shows a message on the page where it fails.
    """

    page: Page
    editor: SceneEditor
    mode: Callable[[], Mode]
    through: Callable[[], bool]
    guard: Callable[[Callable[[], object]], None]

    def select(self, region: Region, title: str, mode: Mode | None = None) -> None:
        """Selects a region.

        Args:
            region: called with all rows of the scene.
            title: for undo.
            mode: instead of that of the page.
        """
        self.guard(lambda: self.editor.run(lambda document: self._select(document, region, title, mode)))

    def _select(self, document: Document, region: Region, title: str, mode: Mode | None) -> None:
        document.select(region(document.state.scene), mode or self.mode(), title)

    def on_screen(self, scene: Parameters, pose: Pose | None = None) -> ScreenPoints:
        """Centres of the scene on the screen of the page at the time that it shows.

        Args:
            scene: all rows.
            pose: of the camera; None: where it is now.
        """
        pose, stream = pose or self.page.pose(), self.page.stream
        settings = stream.settings
        camera = pose.camera(pose.width, pose.height, settings.near, settings.far).to(scene.device)
        depth = None
        if not self.through():
            small = camera.scaled(min(1.0, DEPTH_SIDE / max(camera.width, camera.height)))
            with self.page.session.borrow() as drawn:
                depth = depth_map(drawn, small, replace(settings, time=stream.time))
        return ScreenPoints(scene.centres_at(stream.time), camera, depth)


class Tool:
    """A tool of the Edit panel; one is active at a time. A subclass overrides what it needs.

    Attributes:
        name: in the list of tools.
        hint: one line on the image while the tool is active, and under the list.
        icon: of the toolbar, see viewer/web/shell/static/icons.js.
        key: that chooses the tool.
        through: whether it can select what lies behind other primitives, see `Workspace.through`.
        region_first: whether a region is set first and `select` selects it; else what is done on the image selects.
        persisted: labels of controls whose values a browser keeps over reload and reconnect.
        controls: what `build` added; visible while the tool is active.
        workspace: of the page.
    """

    name: ClassVar[str]
    hint: ClassVar[str]
    icon: ClassVar[str]
    key: ClassVar[str]
    through: ClassVar[bool] = False
    region_first: ClassVar[bool] = False
    persisted: ClassVar[tuple[str, ...]] = ()

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.page = workspace, workspace.page
        self.controls: list[Any] = []

    def build(self, gui: Any) -> None:
        """Adds the tool's own controls."""

    def stored(self) -> dict[str, Any]:
        """The controls that are listed in ``persisted``, by ``Tool/Label``."""
        labelled = {getattr(control, "label", ""): control for control in self.controls}
        return {f"{self.name}/{label}": labelled[label] for label in self.persisted}

    def start(self) -> None:
        """Called when the tool becomes active."""

    def stop(self) -> None:
        """Called when another tool becomes active, or the page is closed."""

    def select(self) -> None:
        """Selects the region of a tool with ``region_first``."""

    def refresh(self) -> None:
        """Called while the tool is active, when the document has changed."""

    def show(self, on: bool) -> None:
        """Starts or stops the tool, and shows or hides its controls."""
        for control in self.controls:
            control.visible = on
        (self.start if on else self.stop)()


def need_point(point: Any) -> Any:
    """A clicked point.

    Raises:
        LuxelError: there is none.
    """
    if point is None:
        raise LuxelError("nothing opaque enough is under the cursor.", "Click a solid part of the image.")
    return point
