"""4D Gaussians at one time: the plain torch functions of the primitive itself are what kernels are compared with."""

from luxel.render.primitives.gaussians4d.slicing import (
    MAX_EXPONENT,
    Slice,
    rotor_to_matrix,
    rotor_to_quats,
)
from luxel.render.primitives.gaussians4d.slicing import slice_gaussians4d as slice_gaussians4d_reference

__all__ = ["MAX_EXPONENT", "Slice", "rotor_to_matrix", "rotor_to_quats", "slice_gaussians4d_reference"]
