"""Camera navigation: jumps to views, their frustums, the up direction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from luxel.render.camera import View
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.panel import Panel

MAX_FRUSTUMS = 64
AXES = {sign + "xyz"[i]: float(sign + "1") * np.eye(3)[i] for i in range(3) for sign in "+-"}


class CameraPanel(Panel):
    """Moves the camera to the views of the capture and shows where they were taken."""

    title = "Camera"

    def build(self, gui: Any, order: float) -> None:
        """Adds the controls; those of views only where the session has views."""
        self._frustums: list[Any] = []
        self._frustums_lock = threading.Lock()
        if self.page.session.views:
            self._build_views(gui)
        reset = gui.add_button("Reset view")
        reset.on_click(lambda _: self.page.reset())
        up = gui.add_dropdown(
            "Up", ["scene", "this view", *AXES], hint="Axis that a horizontal drag turns about"
        )
        up.on_update(lambda _: self._set_up(up.value))

    def _build_views(self, gui: Any) -> None:
        views = self.page.session.views
        names = [view.name for view in views]
        show = gui.add_checkbox("Show cameras", False, hint="Click a camera to look from there")
        show.on_update(lambda _: self._show_frustums(show.value))
        chosen = gui.add_dropdown("View", names, initial_value=names[0])
        chosen.on_update(lambda _: self.page.go_to(views[names.index(chosen.value)]))
        step = gui.add_button_group("", ["◀ Previous", "Next ▶"])

        def move(_: Any) -> None:
            by = 1 if step.value.startswith("Next") else -1
            chosen.value = names[(names.index(chosen.value) + by) % len(names)]

        step.on_click(move)

    def _set_up(self, choice: str) -> None:
        if choice in AXES:
            direction = AXES[choice]
        elif choice == "this view":
            direction = -self.page.pose().rotation[:, 1]
        else:
            direction = self.page.extent.up
        self.page.client.camera.up_direction = direction

    def _show_frustums(self, visible: bool) -> None:
        with self._frustums_lock:
            if visible and not self._frustums:
                self._add_frustums()
            for frustum in self._frustums:
                frustum.visible = visible

    def _add_frustums(self) -> None:
        page = self.page
        shown = evenly(page.session.views, MAX_FRUSTUMS)
        scale = frustum_scale([view for _, view in shown], page.extent.radius)
        for index, view in shown:
            pose = Pose.of_camera(view.camera)
            frustum = page.client.scene.add_camera_frustum(
                f"/cameras/{index:05d}",
                fov=pose.fov_y,
                aspect=view.camera.width / view.camera.height,
                scale=scale,
                thickness=1.5,
                thickness_units="screen",
                color=(250, 150, 40),
                image=page.thumbnails(view),
                wxyz=pose.wxyz,
                position=pose.position,
                cast_shadow=False,
                receive_shadow=False,
            )
            frustum.on_click(lambda _, view=view: page.go_to(view))
            self._frustums.append(frustum)


def evenly(views: Sequence[View], limit: int) -> list[tuple[int, View]]:
    """At most ``limit`` of the views, evenly over their order, with their indices."""
    if len(views) <= limit:
        return list(enumerate(views))
    return [(int(i), views[int(i)]) for i in np.linspace(0, len(views) - 1, limit).round()]


def frustum_scale(views: Sequence[View], radius: float) -> float:
    """Size of frustums that leaves room between neighbours, a 30th to an 8th of the scene's radius."""
    if len(views) < 2:
        return radius / 8
    centres = torch.stack([view.camera.position for view in views]).double()
    apart = torch.cdist(centres, centres) + torch.diag(centres.new_full((len(views),), torch.inf))
    gap = float(apart.min(dim=1).values.median())
    return min(max(0.3 * gap, radius / 30), radius / 8)
