"""3D Gaussians (Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering")."""

from typing import TYPE_CHECKING

from luxel.render.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from luxel.render.primitives.gaussians.options import GaussianLoss, GaussianRates
    from luxel.render.primitives.gaussians.parameters import (
        SH_C0,
        Gaussians,
        quat_to_matrix,
    )
    from luxel.render.primitives.gaussians.spec import SPEC

__getattr__ = lazy_exports(
    __name__,
    {
        "GaussianLoss": "options",
        "GaussianRates": "options",
        "Gaussians": "parameters",
        "SH_C0": "parameters",
        "SPEC": "spec",
        "quat_to_matrix": "parameters",
    },
)
__all__ = [
    "SH_C0",
    "SPEC",
    "GaussianLoss",
    "GaussianRates",
    "Gaussians",
    "quat_to_matrix",
]
