"""Surfels: flat Gaussians in space (Huang et al. 2024, "2D Gaussian Splatting")."""

from typing import TYPE_CHECKING

from luxel.render.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from luxel.render.primitives.surfels.options import SurfelLoss, SurfelRates
    from luxel.render.primitives.surfels.parameters import Surfels, neighbour_quats
    from luxel.render.primitives.surfels.spec import SPEC

__getattr__ = lazy_exports(
    __name__,
    {
        "SPEC": "spec",
        "SurfelLoss": "options",
        "SurfelRates": "options",
        "Surfels": "parameters",
        "neighbour_quats": "parameters",
    },
)
__all__ = ["SPEC", "SurfelLoss", "SurfelRates", "Surfels", "neighbour_quats"]
