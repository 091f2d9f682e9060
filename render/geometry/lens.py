"""Lenses that bend rays, fisheye or radial and tangential distortion, as rows of numbers for cameras and kernels.

A row is [8]: model (`FISHEYE` or `RADIAL`), k1, k2, k3, k4, p1, p2, limit. A direction at the angle theta to the axis
is imaged at the distance f d from the principal point, with

* fisheye (equidistant, OpenCV's): d = theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 + k4 theta^8);
* radial (Brown 1971, OpenCV's without k4 to k6): d = r (1 + k1 r^2 + k2 r^4 + k3 r^6) for r = tan(theta), and
  tangential p1, p2.

The limit is the largest theta, of radial lenses the largest r, up to which the formula holds; d increases up to it, and
beyond in proportion to theta or r. Primitives whose centre is beyond the limit are not rendered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError

if TYPE_CHECKING:
    from luxel.render.geometry.camera import Camera

NUMBERS = 8  # of a row, see cuda/abi/raster.h
RADIAL, FISHEYE = 0.0, 1.0  # models
MODEL, K1, K2, K3, K4, P1, P2, LIMIT = range(NUMBERS)
BEYOND = 1.15  # limit of a lens as a share of the angle or tangent at the farthest point of its image
MARGIN = 0.999  # share of the angle at which a lens would fold its image that is used
NO_LENS = "{noun} cannot use cameras with a fisheye or a distorted lens."
NO_LENS_REMEDY = "Open the capture with undistorted images (--lens undistort), or train Gaussians."
FARTHEST = 1000.0  # limit of r of radial lenses that never fold


def fisheye_lens(coefficients: Sequence[float] = (), limit: float = math.pi) -> Tensor:
    """The row of a fisheye with k1 to k4 (those left out are 0), float32 [8].

    Args:
        coefficients: k1 to k4.
        limit: an angle to the axis in radians beyond which nothing is rendered even where the lens is monotonic.

    Raises:
        ValueError: more than four coefficients, or a limit outside of (0, pi].
    """
    if len(coefficients) > 4 or not 0 < limit <= math.pi:
        raise ValueError(
            f"fisheye_lens: at most k1 to k4 and a limit in (0, pi], got {coefficients}, {limit}"
        )
    k = [*coefficients, *(0.0,) * (4 - len(coefficients))]
    return torch.tensor([FISHEYE, *k, 0.0, 0.0, min(limit, _monotonic_up_to(k, math.pi))])


def radial_lens(k: Sequence[float] = (), p: Sequence[float] = (0.0, 0.0), limit: float = FARTHEST) -> Tensor:
    """The row of a lens with radial and tangential distortion, float32 [8]; without arguments that of a pinhole.

    Args:
        k: k1 to k3; those left out are 0.
        p: p1, p2.
        limit: the largest tangent of the angle to the axis for which the coefficients are meant.

    Raises:
        ValueError: more coefficients, or a limit that is not positive.
    """
    if len(k) > 3 or len(p) != 2 or not 0 < limit <= FARTHEST:
        raise ValueError(f"radial_lens: at most k1 to k3, and p1, p2, got {k}, {p}, limit {limit}")
    k = [*k, *(0.0,) * (3 - len(k))]
    return torch.tensor([RADIAL, *k, 0.0, *p, min(limit, _monotonic_up_to(k, FARTHEST))])


def limit_of_image(lens: Tensor, distance: float) -> float:
    """The limit of a lens that was calibrated with an image: the theta or r of its farthest point, and 15 % more.

    What is further to the side of or behind the camera is spread over the image by its sigma points: towards the
    antipode of a fisheye along a circle, beside a radial lens by its small z.

    Args:
        lens: a row, [8].
        distance: d of the point, its distance from the principal point in focal lengths.
    """
    row = lens.double().numpy()
    x = np.linspace(0, min(row[LIMIT], 5 * distance + 1), 4096)
    return float(min(row[LIMIT], BEYOND * np.interp(distance, radial_distances(row, x), x)))


def _monotonic_up_to(k: Sequence[float], farthest: float) -> float:
    """The largest x up to which x (1 + k1 x^2 + k2 x^4 ...) increases, less a margin; at most ``farthest``."""
    slope = [1.0, *((2 * i + 3) * value for i, value in enumerate(k))]  # in powers of x^2
    roots = np.polynomial.polynomial.polyroots(np.trim_zeros(np.array(slope, np.float64), "b"))
    turns = [root.real for root in roots if abs(root.imag) < 1e-9 * max(1.0, abs(root)) and root.real > 0]
    return min([farthest, *(MARGIN * math.sqrt(turn) for turn in turns)])


def radial_distances(lens: Tensor | np.ndarray, x: np.ndarray) -> np.ndarray:
    """d of angles theta (fisheye) or of r (radial, without its tangential part); see the top of this file."""
    row = np.asarray(lens, np.float64)
    x2 = np.square(x)
    return x * (1 + x2 * (row[K1] + x2 * (row[K2] + x2 * (row[K3] + x2 * row[K4]))))


def imaged(camera: Camera) -> np.ndarray:
    """Which pixels show directions within the limit of the camera's lens, bool [H, W]; all of a pinhole.

    Of radial lenses the tangential part is left out: it is small at the limit.
    """
    if camera.lens is None:
        return np.ones((camera.height, camera.width), bool)
    distance = _distances_from_axis(camera)
    row = camera.lens.double().cpu().numpy()
    return distance <= radial_distances(row, row[LIMIT])


def _distances_from_axis(camera: Camera) -> np.ndarray:
    """d of every pixel, [H, W]."""
    fx, fy, cx, cy = camera.intrinsics.double().cpu().numpy()
    column, row = np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5
    return np.hypot((column[None] - cx) / fx, (row[:, None] - cy) / fy)


def fisheye_rays(camera: Camera) -> np.ndarray:
    """Unit directions of the pixels of a fisheye in camera axes, float64 [H, W, 3]; NaN beyond its limit.

    Raises:
        ValueError: the camera is no fisheye.
    """
    if camera.lens is None or camera.lens[MODEL] != FISHEYE:
        raise ValueError("camera must have a fisheye lens")
    fx, fy, cx, cy = camera.intrinsics.double().cpu().numpy()
    column, row = np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5
    u, v = np.broadcast_arrays((column[None] - cx) / fx, (row[:, None] - cy) / fy)
    distance = np.hypot(u, v)
    lens = camera.lens.double().cpu().numpy()
    theta = np.interp(distance, *_table(lens), right=np.nan)
    ratio = np.sin(theta) / np.maximum(distance, 1e-12)
    return np.stack([u * ratio, v * ratio, np.cos(theta)], -1)


def _table(lens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances and the angles that they belong to, for linear interpolation to about 1e-8 radians."""
    theta = np.linspace(0, lens[LIMIT], 1 << 14)
    return radial_distances(lens, theta), theta


def project_points(camera: Camera, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where a single camera images points, as one ray each; the rasterizer's kernels have the same formulas.

    Args:
        camera: a single camera, with or without a lens; its tensors are used in the type of the points.
        points: world coordinates, [P, 3].

    Returns:
        Pixels [P, 2], depths [P] (z, of a fisheye the distance), and whether each point is between near and far plane
        and within the limit of the lens, bool [P]. Positions of other points have no meaning.
    """
    matrix = camera.world_to_cam.to(points)
    x, y, z = (points @ matrix[:3, :3].mT + matrix[:3, 3]).unbind(-1)
    fx, fy, cx, cy = camera.intrinsics.to(points).unbind()
    depth = z
    if camera.lens is None:
        inside, u, v = z > 0, x / z, y / z
    else:
        lens = camera.lens.to(points)
        if float(camera.lens[MODEL]) == FISHEYE:
            depth = torch.stack([x, y, z], -1).norm(dim=-1)
            theta = torch.atan2(torch.hypot(x, y), z)
            inside = theta < lens[LIMIT]
        else:
            inside = (z > 0) & (torch.hypot(x, y) < lens[LIMIT] * z)
        u, v = image_through(lens, x, y, z)
    visible = inside & (depth > camera.near) & (depth < camera.far)
    return torch.stack([fx * u + cx, fy * v + cy], -1), depth, visible


def image_through(
    lens: Tensor, x: Tensor, y: Tensor, z: Tensor, min_depth: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Where a lens of focal length 1 images points in camera axes; differentiable.

    Beyond the limit positions grow in proportion to the angle (fisheye) or to its tangent (radial).

    Args:
        lens: a row, [8]. x, y, z: of one shape.
        min_depth: of radial lenses: lesser z count as that.
    """
    k1, k2, k3, k4, p1, p2, limit = lens.unbind()[1:]
    if float(lens[MODEL]) == FISHEYE:
        squared = x * x + y * y
        on_axis = squared == 0
        radius = torch.where(on_axis, 1.0, squared).sqrt()
        theta = torch.atan2(radius, z)
        t = theta.minimum(limit)
        t2 = t * t
        d = t * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))
        d = torch.where(theta > limit, d * theta / limit, d)
        ratio = torch.where(on_axis, 1 / torch.where(on_axis, z, 1.0), d / radius)
        return x * ratio, y * ratio
    bound = z if min_depth is None else z.maximum(min_depth)
    u, v = x / bound, y / bound
    squared = u * u + v * v
    beyond = squared > limit * limit
    scale = torch.where(beyond, torch.where(beyond, squared, 1.0).sqrt() / limit, 1.0)
    a, b = u / scale, v / scale
    r2 = a * a + b * b
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    across = a * radial + 2 * p1 * a * b + p2 * (r2 + 2 * a * a)
    down = b * radial + p1 * (r2 + 2 * b * b) + 2 * p2 * a * b
    return across * scale, down * scale


def require_pinhole(camera: Camera, what: str) -> None:
    """Refuses cameras with a lens.

    Args:
        camera: one or several.
        what: cannot use it, at the beginning of the message.

    Raises:
        LuxelError: the camera has a lens.
    """
    if camera.lens is not None:
        raise LuxelError(NO_LENS.format(noun=what), NO_LENS_REMEDY)
