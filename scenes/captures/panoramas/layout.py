"""The directions of the views that are cut from panoramas."""

from __future__ import annotations

import numpy as np


def turns(count: int, pitch: float) -> list[np.ndarray]:
    """Rotations from the camera axes of each view to those of the panorama, both OpenCV's, [3, 3] each.

    Args:
        count: of views, at equal angles around the vertical axis.
        pitch: degrees by which they look up (first, third ...) and down.
    """
    out = []
    for index in range(count):
        yaw, up = 2 * np.pi * index / count, np.radians(pitch if index % 2 == 0 else -pitch)
        around = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
        tilt = np.array([[1, 0, 0], [0, np.cos(up), -np.sin(up)], [0, np.sin(up), np.cos(up)]])
        out.append(around @ tilt)
    return out
