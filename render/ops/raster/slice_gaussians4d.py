"""4D Gaussians at one time as torch operations (Duan et al. 2024): rotor to rotation, conditional of a 4D normal.

For editing and densification; rendering has `luxel.render.ops.raster.project_gaussians4d`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MAX_EXPONENT = 16.0  # Gaussians whose exponent exceeds it are not visible


class Slice(NamedTuple):
    """N 4D Gaussians at one time: 3D Gaussians that move."""

    means: Tensor  # [N, 3] world coordinates
    covariance: Tensor  # [N, 3, 3] capture units squared
    velocity: Tensor  # [N, 3] capture units per unit of time
    opacity: Tensor  # [N] in (0, 1)
    visible: Tensor  # [N] bool, near enough in time; false where that is not a number


def slice_gaussians4d(
    means: Tensor, times: Tensor, scales: Tensor, rotors: Tensor, opacities: Tensor, time: float | Tensor
) -> Slice:
    """The conditional of each Gaussian given the time, and its share of the opacity.

    With the covariance [[A, b], [b^T, c]] of (x, y, z, t) and D = time - t: mean + v D with the velocity v = b / c,
    covariance A - b b^T / c, opacity o exp(-D^2 / (2c)). Visible is D^2 / (2c) < 16; what
    is left out has an alpha below 1/255. Covariances are formed as P P^T with P = M - v m, where M [3, 4]
    and m [4] are the rows of R S for space and time: equal to the formula, and never less than semi-definite.

    Args:
        means, times: centres in world coordinates and in time, [N, 3], [N].
        scales: standard deviations along the rotated axes, [N, 4].
        rotors: see `rotor_to_quats`, [N, 8].
        opacities: in (0, 1), [N].
        time: a number, or a tensor without dimensions; differentiable.
    """
    root = rotor_to_matrix(rotors) * scales[:, None, :]
    space, span = root[:, :3], root[:, 3]
    variance = (span * span).sum(-1)
    velocity = (space @ span[:, :, None])[..., 0] / variance[:, None]
    part = space - velocity[:, :, None] * span[:, None, :]
    later = time - times
    exponent = later * later / (2 * variance)
    return Slice(
        means=means + velocity * later[:, None],
        covariance=part @ part.mT,
        velocity=velocity,
        opacity=opacities * (-exponent).exp(),
        visible=exponent.detach() < MAX_EXPONENT,
    )


def rotor_to_quats(rotors: Tensor) -> tuple[Tensor, Tensor]:
    """The left and right unit quaternions l, r (wxyz) of rotors, [N, 8] to [N, 4] twice.

    l = (s + p; -yz + xt, xz + yt, -xy + zt), r = (s - p; -yz - xt, xz - yt, -xy - zt), each divided by its length:
    that makes the element a proper rotor of unit length. Not a number where either is 0.
    """
    s, xy, xz, yz, xt, yt, zt, p = rotors.unbind(-1)
    left = torch.stack([s + p, -yz + xt, xz + yt, -xy + zt], -1)
    right = torch.stack([s - p, -yz - xt, xz - yt, -xy - zt], -1)
    return left / left.norm(dim=-1, keepdim=True), right / right.norm(dim=-1, keepdim=True)


def rotor_to_matrix(rotors: Tensor) -> Tensor:
    """Rotations of (x, y, z, t), [N, 8] to [N, 4, 4]: R v = l v conj(r), v read as the quaternion t + xi + yj + zk."""
    left, right = rotor_to_quats(rotors)
    a, b, c, d = left.unbind(-1)
    # Matrices act on (x, y, z, w): the product l q, and the product q conj(r).
    times_left = [[a, -d, c, b], [d, a, -b, c], [-c, b, a, d], [-b, -c, -d, a]]
    a, b, c, d = right.unbind(-1)
    times_right = [[a, -d, c, -b], [d, a, -b, -c], [-c, b, a, -d], [b, c, d, a]]
    return _stack(times_left) @ _stack(times_right)


def _stack(rows: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
