"""Options of panoramas, and the directions of the views that are cut from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from luxel.render.bounds import Bounds, Options

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class PanoramaOptions(Options):
    """How panoramas of 360 by 180 degrees are recognised, and which pinhole views are cut from each."""

    projection: Literal["auto", "equirectangular", "perspective"] = "auto"
    """auto: images of twice their height in width whose metadata says equirectangular; equirectangular: all of
    them; perspective: none."""
    views: Annotated[int, Bounds(3, 64)] = 8
    """Views around the vertical axis that are cut from a panorama."""
    fov: Annotated[float, Bounds(30, 120)] = 90.0
    """Field of view of each, in degrees; the overlap of neighbours is this minus 360 / views."""
    pitch: Annotated[float, Bounds(0, 80)] = 20.0
    """Degrees by which the views look up and down in turn."""
    nadir: Annotated[float, Bounds(0, 90)] = 60.0
    """Degrees below the horizon from which pixels do not count, where the operator or a tripod is; 90: all count."""


def turns(count: int, pitch: float) -> list[np.ndarray]:
    """Rotations from the camera axes of each view to those of the panorama, both OpenCV's, [3, 3] each.

    Args:
        count: of views, at equal angles around the vertical axis.
        pitch: degrees by which they look up (first, third ...) and down.
    """
    import numpy as np

    out = []
    for index in range(count):
        yaw, up = 2 * np.pi * index / count, np.radians(pitch if index % 2 == 0 else -pitch)
        around = np.array([[np.cos(yaw), 0, np.sin(yaw)], [0, 1, 0], [-np.sin(yaw), 0, np.cos(yaw)]])
        tilt = np.array([[1, 0, 0], [0, np.cos(up), -np.sin(up)], [0, np.sin(up), np.cos(up)]])
        out.append(around @ tilt)
    return out
