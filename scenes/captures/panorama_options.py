"""Options of panoramas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from luxel.render.bounds import Bounds, Options


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
