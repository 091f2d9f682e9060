"""Measures the image stream with clients that are no browsers."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from luxel.viewer.bench.view.client import Load, orbit, run_clients, summarize
from luxel.viewer.bench.view.frames import TURN
from luxel.viewer.web.app import ViewerApp
from luxel.viewer.web.navigate import Pose, first_pose, orbit_point
from luxel.viewer.web.offline import OfflineCamera, OfflineClient
from luxel.viewer.web.session import StaticSession
from luxel.viewer.web.transport.encoders import jpeg_encoder


class _Keyed(OfflineClient):
    """Takes the key of its stream as a page does."""

    key = ""

    def queue_message(self, message: Any) -> None:
        """Reads the key in the script that connects a page."""
        if key := re.search(r'luxel\?\.connect\("([\w-]+)"\)', message.source):
            self.key = key[1]


def measure_clients(
    session: StaticSession,
    *,
    clients: int,
    size: tuple[int, int],
    rate: float,
    warmup: float,
    seconds: float,
    megabits: float | None = None,
) -> dict[str, Any]:
    """Latency and images a second of clients whose cameras circle the scene.

    Args:
        session: the scene, on the device that draws it.
        clients: how many, each with a stream of its own.
        size: of the images, pixels.
        rate: cameras a second.
        warmup, seconds: before and during the measurement.
        megabits: speed of each client's link, Mbit/s; None: unlimited.
    """
    with ViewerApp(session, port=0) as app:
        start = first_pose((), app.extent)
        width, height = size
        pose = Pose(start.wxyz, start.position, start.fov_y, width, height)
        opened = [
            _Keyed(app.server, OfflineCamera(pose, orbit_point(pose, app.extent), width, height))
            for _ in range(clients)
        ]
        pages = [app.open_page(client).page for client in opened]
        matrix = np.concatenate([pose.rotation, pose.position[:, None]], 1).tolist()
        matrices = orbit(matrix, app.extent.centre.tolist(), app.extent.up.tolist(), TURN)
        view = {"fov": pose.fov_y, "width": width, "height": height}
        cameras = [{"matrix": matrix, **view} for matrix in matrices]
        address = urlsplit(app.url).netloc
        keys = [client.key for client in opened]
        measured = run_clients(Load(address, keys, cameras, rate, warmup, seconds, megabits))
        report = pages[0].stream.last_report
    with session.borrow() as scene:
        on_gpu = scene.device.type == "cuda"
    row = {"image": f"{report.width}x{report.height}", "encoder": jpeg_encoder(on_gpu)}
    return row | summarize(measured, seconds)
