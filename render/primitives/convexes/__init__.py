"""Smooth 3D convexes (Held et al. 2025, "3D Convex Splatting: Radiance Field Rendering with 3D Smooth Convexes")."""

from typing import TYPE_CHECKING

from luxel.render.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from luxel.render.primitives.convexes.options import STARTING_SIGMA, ConvexInit, ConvexLoss, ConvexRates
    from luxel.render.primitives.convexes.parameters import Convexes, fibonacci_sphere
    from luxel.render.primitives.convexes.spec import SPEC

__getattr__ = lazy_exports(
    __name__,
    {
        "ConvexInit": "options",
        "ConvexLoss": "options",
        "ConvexRates": "options",
        "Convexes": "parameters",
        "SPEC": "spec",
        "STARTING_SIGMA": "options",
        "fibonacci_sphere": "parameters",
    },
)
__all__ = [
    "SPEC",
    "STARTING_SIGMA",
    "ConvexInit",
    "ConvexLoss",
    "ConvexRates",
    "Convexes",
    "fibonacci_sphere",
]
