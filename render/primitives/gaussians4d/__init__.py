"""4D Gaussians with rotors (Duan et al. 2024, "4D-Rotor Gaussian Splatting", arXiv 2402.03307)."""

from luxel.render.primitives.gaussians4d.options import Gaussians4dInit, Gaussians4dLoss, Gaussians4dRates
from luxel.render.primitives.gaussians4d.parameters import Gaussians4d, matrix_to_quat
from luxel.render.primitives.gaussians4d.spec import SPEC

__all__ = [
    "SPEC",
    "Gaussians4d",
    "Gaussians4dInit",
    "Gaussians4dLoss",
    "Gaussians4dRates",
    "matrix_to_quat",
]
