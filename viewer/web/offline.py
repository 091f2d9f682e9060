"""A page without a browser: runs panels in scripts and tests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from luxel.viewer.web.app import OpenPage, ViewerApp
from luxel.viewer.web.navigate import Pose, orbit_point

_ids = itertools.count(1_000_000)  # beside those of browsers


class OfflineCamera:
    """The camera of an `OfflineClient`, with the attributes of viser's CameraHandle."""

    def __init__(self, pose: Pose, look_at: np.ndarray, width: int, height: int) -> None:
        self.wxyz, self.position, self.fov, self.look_at = pose.wxyz, pose.position, pose.fov_y, look_at
        self.up_direction = np.array([0.0, 0.0, 1.0])
        self.image_width, self.image_height = width, height
        self.update_timestamp, self._state = 0.0, self  # as `luxel.viewer.web.navigate.place` sets it
        self._callbacks: list[Callable[[Any], Awaitable[None]]] = []

    def on_update(self, callback: Callable[[Any], Awaitable[None]]) -> None:
        """Calls an async ``callback`` with this camera when it has moved."""
        self._callbacks.append(callback)

    async def notify(self) -> None:
        """Calls the callbacks."""
        for callback in self._callbacks:
            await callback(self)


class OfflineClient:
    """Stands in for viser's ClientHandle: controls and scene nodes are those of the server.

    Attributes:
        images: every image that was sent, uint8 [H, W, 3].
        downloads: name and content of every file that was sent.
        notifications: title and body of every notification.
    """

    def __init__(self, server: Any, camera: OfflineCamera) -> None:
        self.client_id = next(_ids)
        self.gui, self.camera = server.gui, camera
        self.scene = _Scene(server.scene, self._take)
        self.local_storage = self
        self._websock_connection: Any = self
        self.images: list[np.ndarray] = []
        self.downloads: list[tuple[str, bytes]] = []
        self.notifications: list[tuple[str, str]] = []

    def queue_message(self, message: Any) -> None:
        """Takes the messages that move the camera, whose new state is set alongside them; there is no page for
        others."""
        if not type(message).__name__.startswith("SetCamera"):
            raise TypeError(f"there is no page for a {type(message).__name__}")

    def _take(self, image: np.ndarray) -> None:
        self.images.append(image)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Reports the camera when the context ends, as a browser reports the pose that it was given."""
        yield
        asyncio.run(self.camera.notify())

    def get_item(self, key: str, timeout: float | None = None) -> None:
        """Returns at once, as no image is decoded here."""

    def send_file_download(self, filename: str, content: bytes, **options: Any) -> None:
        """Keeps the file."""
        self.downloads.append((filename, content))

    def add_notification(self, title: str, body: str, **options: Any) -> None:
        """Keeps the message."""
        self.notifications.append((title, body))


class _Scene:
    """The scene of a server, whose background images are retained and not sent."""

    def __init__(self, scene: Any, take: Callable[[np.ndarray], None]) -> None:
        self._scene, self._take = scene, take

    def set_background_image(self, image: np.ndarray, **options: Any) -> None:
        self._take(image)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scene, name)


def open_offline_page(app: ViewerApp, pose: Pose, width: int = 320, height: int = 240) -> OpenPage:
    """Opens a page of a started viewer without a browser.

    Args:
        app: after ``start()``.
        pose: of the camera.
        width, height: of the page's canvas, pixels.

    Returns:
        The page and its panels; ``page.click(0.5, 0.5)`` clicks the middle of its image.
    """
    camera = OfflineCamera(pose, orbit_point(pose, app.extent), width, height)
    return app.open_page(OfflineClient(app.server, camera))
