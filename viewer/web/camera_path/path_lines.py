"""A camera path drawn on a page: its line, and a frustum for each keyframe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from luxel.scenes.paths import CameraPath
from luxel.viewer.web.camera_path.keyframes import Keyframe
from luxel.viewer.web.navigate import Pose

NAME = "/camera-path"  # and the number of the client: offline pages share one scene
COLOUR, CHOSEN = (214, 118, 36), (40, 130, 240)
SIZE = 0.04  # of a frustum, as a share of the scene's radius
NEAR = 2.0  # sizes of a frustum within which it is hidden: its lines would lie before the scene


class PathLines:
    """Draws keyframes and the path through them in the scene of one client.

    Args:
        client: viser ClientHandle.
        radius: of the scene, capture units.
        choose: called with the index of a keyframe whose frustum was clicked.
    """

    def __init__(self, client: Any, radius: float, choose: Callable[[int], None]) -> None:
        self._client, self._radius, self._choose = client, radius, choose
        self._name = f"{NAME}/{client.client_id}"
        self._nodes: list[Any] = []
        self._frustums: list[tuple[np.ndarray, Any]] = []  # positions [3] and viser's handles
        self._lock = threading.Lock()  # controls and clicks call from several threads

    def clear(self) -> None:
        """Removes everything."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        for node in self._nodes:
            node.remove()
        self._nodes, self._frustums = [], []

    def follow(self, position: np.ndarray) -> None:
        """Hides the frustums that a camera at a position [3] stands in, and shows the others."""
        with self._lock:
            for place, frustum in self._frustums:
                visible = bool(np.linalg.norm(place - position) > NEAR * SIZE * self._radius)
                if frustum.visible != visible:
                    frustum.visible = visible

    def draw(self, keyframes: Sequence[Keyframe], path: CameraPath | None, chosen: int) -> None:
        """Replaces what is rendered.

        Args:
            keyframes: may be empty.
            path: through them; None: no line.
            chosen: index of the keyframe that is drawn in blue.
        """
        with self._lock:
            self._draw(keyframes, path, chosen)
        self.follow(Pose.of_client(self._client.camera).position)

    def _draw(self, keyframes: Sequence[Keyframe], path: CameraPath | None, chosen: int) -> None:
        self._clear()
        scene = self._client.scene
        if path is not None:
            points = np.stack([camera.position.numpy() for camera in path.cameras]).astype(np.float32)
            segments = np.stack([points[:-1], points[1:]], axis=1)
            colours = np.broadcast_to(np.array(COLOUR, np.uint8), segments.shape)
            self._nodes.append(
                scene.add_line_segments(
                    f"{self._name}/line", segments, colours, thickness=2.0, thickness_units="screen"
                )
            )
        for index, keyframe in enumerate(keyframes):
            pose = Pose.of_camera(keyframe.camera)
            frustum = scene.add_camera_frustum(
                f"{self._name}/{index + 1}",
                fov=pose.fov_y,
                aspect=keyframe.camera.width / keyframe.camera.height,
                scale=SIZE * self._radius,
                color=CHOSEN if index == chosen else COLOUR,
                wxyz=pose.wxyz,
                position=pose.position,
            )
            frustum.on_click(lambda _, index=index: self._choose(index))
            self._nodes.append(frustum)
            self._frustums.append((pose.position, frustum))
