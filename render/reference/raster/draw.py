"""The reference rasterizer of any primitive."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.primitives.parameters import Parameters
from luxel.render.primitives.surfels import Surfels
from luxel.render.reference.raster.rasterize import ReferenceFrame, rasterize_reference
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference
from luxel.render.reference.raster.rasterize_gaussians4d import rasterize_gaussians4d_reference
from luxel.render.reference.raster.rasterize_surfels import rasterize_surfels_reference


def draw_reference(
    scene: Parameters, camera: Camera, time: float | Tensor | None = None, **options: Any
) -> ReferenceFrame:
    """Renders primitives by their reference rasterizer, to which ``options`` are passed.

    Raises:
        TypeError: there is no reference for the primitives, or they are 4D Gaussians without a time.
    """
    if isinstance(scene, Gaussians):
        return rasterize_reference(scene, camera, **options)
    if isinstance(scene, Gaussians4d) and time is not None:
        return rasterize_gaussians4d_reference(scene, camera, time, **options)
    if isinstance(scene, Convexes):
        return rasterize_convexes_reference(scene, camera, **options)
    if isinstance(scene, Surfels):
        return rasterize_surfels_reference(scene, camera, **options)
    raise TypeError(f"there is no reference for {type(scene).__name__} at time {time}")
