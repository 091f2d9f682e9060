"""Primitives: parameters, activations, and what a rasterizer needs of them. One file per primitive."""

from typing import Literal

from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.primitives.parameters import Parameters

PrimitiveName = Literal["gaussians", "gaussians4d", "convexes"]  # on the command line and in files of runs
PRIMITIVES: dict[str, type[Parameters]] = {
    kind.primitive: kind for kind in (Gaussians, Gaussians4d, Convexes)
}

__all__ = ["PRIMITIVES", "Convexes", "Gaussians", "Gaussians4d", "Parameters", "PrimitiveName"]
