"""4D Gaussians with rotors (Duan et al. 2024, "4D-Rotor Gaussian Splatting", arXiv 2402.03307)."""

from typing import TYPE_CHECKING

from luxel.render.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from luxel.render.primitives.gaussians4d.options import Gaussians4dInit, Gaussians4dLoss, Gaussians4dRates
    from luxel.render.primitives.gaussians4d.parameters import Gaussians4d, matrix_to_quat
    from luxel.render.primitives.gaussians4d.spec import SPEC

__getattr__ = lazy_exports(
    __name__,
    {
        "Gaussians4d": "parameters",
        "Gaussians4dInit": "options",
        "Gaussians4dLoss": "options",
        "Gaussians4dRates": "options",
        "SPEC": "spec",
        "matrix_to_quat": "parameters",
    },
)
__all__ = ["SPEC", "Gaussians4d", "Gaussians4dInit", "Gaussians4dLoss", "Gaussians4dRates", "matrix_to_quat"]
