"""Lens models beyond those of OpenCV, as functions of directions, and their inversion.

Sources: Devernay and Faugeras 2001 (FOV), Weng et al. 1992 (thin prism), the Fisheye624 model of Project Aria
(RAD_TAN_THIN_PRISM_FISHEYE), Fitzgibbon 2001 (division), Khomutenko et al. 2016 (EUCM); nerfstudio (Apache-2.0,
``radial_and_tangential_undistort``) for the polynomial of OPENCV with k4, the coefficient of r^8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

EQUIRECTANGULAR = (
    "EQUIRECTANGULAR"  # x follows the longitude, y the latitude; cut into pinhole views when opened
)
OPENCV_K4 = "OPENCV with k4"  # of nerfstudio; COLMAP has no such model
# Names of the parameters after the principal point, in COLMAP's order.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "FOV": ("omega",),
    "THIN_PRISM_FISHEYE": ("k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1"),
    "RAD_TAN_THIN_PRISM_FISHEYE": (
        "k0", "k1", "k2", "k3", "k4", "k5", "p0", "p1", "s0", "s1", "s2", "s3",
    ),
    "DIVISION": ("k",),
    "EUCM": ("alpha", "beta"),
    OPENCV_K4: ("k1", "k2", "k3", "k4", "p1", "p2"),
}  # fmt: skip
WIDE = (
    "FOV",
    "THIN_PRISM_FISHEYE",
    "RAD_TAN_THIN_PRISM_FISHEYE",
    "EUCM",
)  # that may image 180 degrees and more
STEPS = 30  # of Newton's method
WIDEST = 0.499 * math.pi  # angle to the axis of the directions that a pinhole camera can have, radians
Plane = tuple[np.ndarray, np.ndarray]


def _fov(values: Sequence[float], x: np.ndarray, y: np.ndarray) -> Plane:
    (omega,) = values
    r = np.hypot(x, y)
    if abs(omega) < 1e-4:  # the limit of what follows
        ratio = 1 + omega * omega * (1 / 12 - r * r / 3)
    else:
        far = 2 * math.tan(0.5 * omega)
        ratio = np.where(r > 1e-12, np.arctan(far * r) / np.maximum(omega * r, 1e-300), far / omega)
    return x * ratio, y * ratio


def _equidistant(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x and y scaled to the angle to the axis, and that angle."""
    r = np.hypot(x, y)
    theta = np.arctan(r)
    ratio = np.where(r > 1e-12, theta / np.maximum(r, 1e-300), 1.0)
    return x * ratio, y * ratio, theta


def _thin_prism_fisheye(values: Sequence[float], x: np.ndarray, y: np.ndarray) -> Plane:
    k1, k2, p1, p2, k3, k4, sx1, sy1 = values
    u, v, theta = _equidistant(x, y)
    t2 = theta * theta
    radial = 1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))
    return (
        u * radial + 2 * p1 * u * v + p2 * (t2 + 2 * u * u) + sx1 * t2,
        v * radial + 2 * p2 * u * v + p1 * (t2 + 2 * v * v) + sy1 * t2,
    )


def _rad_tan_thin_prism_fisheye(values: Sequence[float], x: np.ndarray, y: np.ndarray) -> Plane:
    *k, p0, p1, s0, s1, s2, s3 = values
    u, v, theta = _equidistant(x, y)
    t2 = theta * theta
    radial = np.ones_like(theta)
    for power, coefficient in enumerate(k, start=1):
        radial = radial + coefficient * t2**power
    u, v = u * radial, v * radial
    r2 = u * u + v * v
    return (
        u + p0 * (r2 + 2 * u * u) + 2 * p1 * u * v + r2 * (s0 + s1 * r2),
        v + p1 * (r2 + 2 * v * v) + 2 * p0 * u * v + r2 * (s2 + s3 * r2),
    )


def _division(values: Sequence[float], x: np.ndarray, y: np.ndarray) -> Plane:
    (k,) = values
    ratio = 2 / (1 + np.sqrt(1 - 4 * k * (x * x + y * y)))
    return x * ratio, y * ratio


def _eucm(values: Sequence[float], x: np.ndarray, y: np.ndarray) -> Plane:
    alpha, beta = values
    depth = alpha * np.sqrt(beta * (x * x + y * y) + 1) + (1 - alpha)
    return x / depth, y / depth


def _opencv_k4(values: Sequence[float], x: np.ndarray, y: np.ndarray) -> Plane:
    k1, k2, k3, k4, p1, p2 = values
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * (k3 + r2 * k4)))
    return (
        x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
        y * radial + 2 * p2 * x * y + p1 * (r2 + 2 * y * y),
    )


_DISTORTIONS: dict[str, Callable[[Sequence[float], np.ndarray, np.ndarray], Plane]] = {
    "FOV": _fov,
    "THIN_PRISM_FISHEYE": _thin_prism_fisheye,
    "RAD_TAN_THIN_PRISM_FISHEYE": _rad_tan_thin_prism_fisheye,
    "DIVISION": _division,
    "EUCM": _eucm,
    OPENCV_K4: _opencv_k4,
}


def distorted(model: str, values: Sequence[float], directions: np.ndarray) -> np.ndarray:
    """Where a lens of focal length 1 images directions; NaN where it does not.

    Args:
        model: a key of PARAMETERS.
        values: of its parameters.
        directions: x/z and y/z, [P, 2].

    Returns:
        Positions relative to the principal point, [P, 2].
    """
    x, y = np.moveaxis(np.asarray(directions, np.float64), -1, 0)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return np.stack(_DISTORTIONS[model](values, x, y), axis=-1)


def undistorted(model: str, values: Sequence[float], positions: np.ndarray) -> np.ndarray:
    """The inverse of `distorted` by Newton's method on the angle to the axis, [P, 2] -> [P, 2].

    Positions that no direction before the camera has get some other direction: compare with `distorted`.
    """
    target = np.asarray(positions, np.float64)

    def forward(angles: np.ndarray) -> np.ndarray:
        return distorted(model, values, _directions(angles))

    radius = np.linalg.norm(target, axis=-1, keepdims=True)
    angles = target * np.minimum(1.0, np.arctan(radius) / np.maximum(radius, 1e-12))
    small = 1e-6
    across, down = np.array([small, 0]), np.array([0, small])
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for _ in range(STEPS):
            error = forward(angles) - target
            first = (forward(angles + across) - forward(angles - across)) / (2 * small)
            second = (forward(angles + down) - forward(angles - down)) / (2 * small)
            slope = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
            step = np.stack(
                [
                    (second[..., 1] * error[..., 0] - second[..., 0] * error[..., 1]) / slope,
                    (first[..., 0] * error[..., 1] - first[..., 1] * error[..., 0]) / slope,
                ],
                axis=-1,
            )
            length = np.linalg.norm(step, axis=-1, keepdims=True)
            angles = angles - np.nan_to_num(step * np.minimum(1.0, 0.3 / np.maximum(length, 1e-12)))
            far = np.linalg.norm(angles, axis=-1, keepdims=True)
            angles = angles * np.minimum(1.0, WIDEST / np.maximum(far, 1e-12))
    return _directions(angles)


def _directions(angles: np.ndarray) -> np.ndarray:
    """Directions x/z, y/z whose angles to the axis are the lengths of vectors [P, 2]."""
    theta = np.linalg.norm(angles, axis=-1, keepdims=True)
    return angles * np.where(theta > 1e-12, np.tan(theta) / np.maximum(theta, 1e-300), 1.0)
