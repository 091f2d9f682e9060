"""Rolling shutters, which read the rows of an image one after another while the camera moves, as rows of numbers.

A row is [8]: a linear velocity (capture units per readout) and an angular one (radians per readout) in camera axes, and
the direction a, b of the readout. A pixel is read at the time

    tau = a (x / W - 1/2) + b (y / H - 1/2)

of the readout, within [-1/2, 1/2]; the pose of a camera is that of tau = 0. A point at m in camera axes at tau = 0 is
at m + tau (v + w x m) when its row is read, to first order in the motion. The rasterizer's kernels find tau from the
image of the mean of a Gaussian by two fixed-point iterations (cuda/math/camera/shutter.h). The velocities are those of
the points, the negative of those of the camera.
"""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.geometry.readout import Readout

NUMBERS = 8  # of a row, see cuda/abi/raster.h
LINEAR, ANGULAR, DIRECTION = slice(0, 3), slice(3, 6), slice(6, 8)
VELOCITIES = slice(0, 6)
DIRECTIONS: dict[str, tuple[float, float]] = {
    "down": (0.0, 1.0),
    "up": (0.0, -1.0),
    "right": (1.0, 0.0),
    "left": (-1.0, 0.0),
}
NO_SHUTTER = "{noun} cannot use cameras with a rolling shutter."
NO_SHUTTER_REMEDY = "Train Gaussians, or leave --rolling-shutter out."


def shutter_row(velocity: Tensor, readout: Readout = "down") -> Tensor:
    """Rows of shutters, [..., 8].

    Args:
        velocity: linear and angular velocity per readout, [..., 6].
        readout: direction in which the rows or columns of an image are read.

    Raises:
        ValueError: another direction.
    """
    if readout not in DIRECTIONS:
        raise ValueError(f"readout must be one of {', '.join(DIRECTIONS)}, got {readout}")
    # Filled on the device: nothing is copied to it, which a step that is being captured could not do.
    direction = [velocity.new_full((*velocity.shape[:-1], 1), part) for part in DIRECTIONS[readout]]
    return torch.cat([velocity, *direction], -1)


def velocity_between(earlier: Tensor, later: Tensor) -> Tensor:
    """The constant velocity of points in camera axes by which one pose becomes another: the twist of their motion.

    Args:
        earlier, later: world_to_cam, [..., 4, 4], any float type.

    Returns:
        Linear and angular velocity, [..., 6], float64: later = exp(velocity) earlier. Rotations are of less than pi.
    """
    first, second = earlier.double(), later.double()
    rotation = second[..., :3, :3] @ first[..., :3, :3].mT
    translation = second[..., :3, 3] - (rotation @ first[..., :3, 3:])[..., 0]
    angular = _rotation_vector(rotation)
    angle2 = angular.square().sum(-1)[..., None, None]
    skew = _cross_matrix(angular)
    small = angle2 < 1e-8
    angle = torch.where(small, 1.0, angle2).sqrt()
    # The inverse of the left Jacobian of SO(3).
    factor = torch.where(small, 1 / 12 + angle2 / 720, (1 - 0.5 * angle / torch.tan(0.5 * angle)) / angle**2)
    inverse = torch.eye(3, dtype=first.dtype, device=first.device) - 0.5 * skew + factor * (skew @ skew)
    return torch.cat([(inverse @ translation[..., None])[..., 0], angular], -1)


def pose_at(world_to_cam: Tensor, velocity: Tensor, tau: float | Tensor) -> Tensor:
    """The pose at a time of the readout, exp(tau velocity) world_to_cam.

    Args:
        world_to_cam: [4, 4]. velocity: [6]. tau: in readouts.
    """
    twist = torch.zeros(4, 4, dtype=torch.float64, device=world_to_cam.device)
    twist[:3, :3] = _cross_matrix(velocity[ANGULAR].double())
    twist[:3, 3] = velocity[LINEAR].double()
    return (torch.linalg.matrix_exp(twist * tau) @ world_to_cam.double()).to(world_to_cam.dtype)


def _rotation_vector(rotation: Tensor) -> Tensor:
    """Axis times angle of rotations [..., 3, 3], [..., 3]."""
    anti = torch.stack(
        [
            rotation[..., 2, 1] - rotation[..., 1, 2],
            rotation[..., 0, 2] - rotation[..., 2, 0],
            rotation[..., 1, 0] - rotation[..., 0, 1],
        ],
        -1,
    )
    trace = rotation.diagonal(dim1=-2, dim2=-1).sum(-1)
    sine, cosine = 0.5 * anti.norm(dim=-1), 0.5 * (trace - 1)
    angle = torch.atan2(sine, cosine)
    small = sine < 1e-9
    return anti * torch.where(small, 0.5, 0.5 * angle / torch.where(small, 1.0, sine))[..., None]


def _cross_matrix(w: Tensor) -> Tensor:
    """The matrix of w x, [..., 3, 3]."""
    zero = torch.zeros_like(w[..., 0])
    rows = [[zero, -w[..., 2], w[..., 1]], [w[..., 2], zero, -w[..., 0]], [-w[..., 1], w[..., 0], zero]]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
