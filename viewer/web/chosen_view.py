"""The view of the capture that a page is at: one piece of state for its lists, buttons, frustums and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from luxel.render.geometry.camera import View, poses_of
from luxel.viewer.web.navigate import Pose

SAME = 1e-6  # of `ChosenView.apart`: views this close have one camera, at several times of a dynamic scene


class ChosenView:
    """The view that a page has gone to or, where its camera was moved since, the nearest one.

    Its methods may be called from any thread.

    Args:
        views: of the capture, V of them; may be none.
    """

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        self._poses = poses_of(views)
        self._indices = {view.name: index for index, view in enumerate(views)}
        self._index = 0
        self._callbacks: list[Callable[[], object]] = []

    @property
    def view(self) -> View | None:
        """The chosen view; None: there are no views."""
        return self._views[self._index] if self._views else None

    def on_change(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` after each change of `view`."""
        self._callbacks.append(callback)

    def choose(self, view: View) -> None:
        """Makes a view the chosen one; nothing happens for one of another capture."""
        index = self._indices.get(view.name)
        if index is not None and self._views[index] is view:
            self._take(index)

    def neighbour(self, by: int) -> View:
        """The view so many places after the chosen one, in the order of the capture; the first follows the last.

        Raises:
            ValueError: there are no views.
        """
        if not self._views:
            raise ValueError("a capture without views has no neighbours")
        return self._views[(self._index + by) % len(self._views)]

    def follow(self, pose: Pose, radius: float) -> None:
        """Chooses the view nearest to a camera; of views with one camera the chosen one stays.

        Args:
            pose: of the page.
            radius: of the scene, capture units; as far counts like a turn by one radian.
        """
        if not self._views:
            return
        apart = self.apart(pose, radius)
        nearest = int(np.argmin(apart))
        if apart[nearest] < apart[self._index] - SAME:
            self._take(nearest)

    def apart(self, pose: Pose, radius: float) -> np.ndarray:
        """How far the views are from a camera: distance in radii plus turn of the direction of view in radians, [V]."""
        distances = np.linalg.norm(self._poses[:, :3, 3] - pose.position, axis=1) / radius
        return distances + self._turns(pose)

    def turned(self, pose: Pose) -> float:
        """Angle between the directions of view of a camera and of the chosen view, radians; 0: there are no views."""
        return float(self._turns(pose)[self._index]) if self._views else 0.0

    def _turns(self, pose: Pose) -> np.ndarray:
        return np.arccos(np.clip(self._poses[:, :3, 2] @ pose.rotation[:, 2], -1, 1))

    def _take(self, index: int) -> None:
        if index != self._index:
            self._index = index
            for callback in self._callbacks:
                callback()
