"""Spherical harmonics of directions."""

from __future__ import annotations

from torch import Tensor, nn

from luxel.render.ops.field.spherical_harmonics import sh_basis


class SphericalHarmonicsEncoding(nn.Module):
    """The real spherical harmonics of a direction, the first degree^2 of them.

    In the order and with the signs of `luxel.render.ops.field.spherical_harmonics.sh_basis`.

    Args:
        degree: 1 to 4, one above the highest degree of the polynomials: 4 has 16 numbers, up to cubic ones.

    Attributes:
        width: degree^2.

    Raises:
        ValueError: degree out of range.
    """

    def __init__(self, degree: int = 4) -> None:
        super().__init__()
        if not 1 <= degree <= 4:
            raise ValueError(f"SphericalHarmonicsEncoding: degree must be 1 to 4, got {degree}")
        self.degree, self.width = degree, degree**2

    def forward(self, directions: Tensor) -> Tensor:
        """Encodes directions.

        Args:
            directions: unit vectors, [..., 3].

        Returns:
            [..., degree^2].

        Raises:
            ValueError: directions is not [..., 3].
        """
        if directions.shape[-1] != 3:
            raise ValueError(
                f"SphericalHarmonicsEncoding: directions must be [..., 3], got {list(directions.shape)}"
            )
        return sh_basis(directions, self.degree - 1)
