"""Smooth 3D convexes (Held et al. 2025, "3D Convex Splatting: Radiance Field Rendering with 3D Smooth Convexes")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi, sqrt

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points
from luxel.render.geometry.lens import NO_LENS, NO_LENS_REMEDY
from luxel.render.geometry.shutter import NO_SHUTTER, NO_SHUTTER_REMEDY
from luxel.render.ops.raster.convex_points import FEWEST, MOST
from luxel.render.ops.raster.project_convexes import project_convexes
from luxel.render.primitives.convexes.options import STARTING_SIGMA
from luxel.render.primitives.gaussian_parameters import neighbour_distance
from luxel.render.primitives.parameters import SH_C0, Parameters, Projected, Viewing
from luxel.render.primitives.similarity import Similarity

MASK_THRESHOLD = 0.01  # a convex whose mask is not above this is not rendered


@dataclass
class Convexes(Parameters):
    """N convex hulls of K points each by the raw parameters that an optimiser moves.

    Args:
        points: corners, or points within the hull, in world coordinates, [N, K, 3], K in 3..8.
        log_delta: natural logarithm of the smoothness delta; corners are sharper where it is larger, [N].
        log_sigma: natural logarithm of the sharpness sigma, the slope of the boundary, [N].
        opacity_logits: opacity before the sigmoid, [N].
        sh_dc: spherical-harmonics coefficient of degree 0, RGB, [N, 3].
        sh_rest: coefficients of degrees 1..D, [N, (D + 1)^2 - 1, 3], D in 0..3.
        mask_logits: mask before the sigmoid; those at most 0.01 are not rendered, [N].
    """

    points: Tensor
    log_delta: Tensor
    log_sigma: Tensor
    opacity_logits: Tensor
    sh_dc: Tensor
    sh_rest: Tensor
    mask_logits: Tensor

    primitive, noun, policy = "convexes", "convexes", "convexes"
    antialiases = False
    outputs = ("colour", "alpha", "depth", "count")

    def __post_init__(self) -> None:
        shape = tuple(self.points.shape)
        if len(shape) != 3 or not FEWEST <= shape[1] <= MOST or shape[2] != 3:
            raise ValueError(f"points must be [N, {FEWEST}..{MOST}, 3], got {list(shape)}")
        n = shape[0]
        self.check(
            {
                "log_delta": (n,),
                "log_sigma": (n,),
                "opacity_logits": (n,),
                "sh_dc": (n, 3),
                "mask_logits": (n,),
            }
        )

    @property
    def points_each(self) -> int:
        """The number of points of each convex, K."""
        return self.points.shape[1]

    @property
    def deltas(self) -> Tensor:
        """Smoothness, [N]."""
        return self.log_delta.exp()

    @property
    def sigmas(self) -> Tensor:
        """Sharpness, [N]."""
        return self.log_sigma.exp()

    @property
    def masks(self) -> Tensor:
        """1 where sigmoid(mask_logits) > 0.01 and 0 elsewhere, [N]; the gradient is that of the sigmoid."""
        soft = self.mask_logits.sigmoid()
        return (soft.detach() > MASK_THRESHOLD).to(soft) + (soft - soft.detach())

    @property
    def centroids(self) -> Tensor:
        """Means of the points, world coordinates, [N, 3]."""
        return self.points.mean(1)

    @property
    def centres(self) -> Tensor:
        """The centroids."""
        return self.centroids

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """See `luxel.render.ops.raster.project_convexes.project_convexes`.

        Raises:
            ValueError: normals are requested.
            LuxelError: a camera has a lens or a rolling shutter.
        """
        if view.shutters is not None:
            raise LuxelError(NO_SHUTTER.format(noun="Convexes"), NO_SHUTTER_REMEDY)
        if view.intrinsics.shape[-1] > 4:
            raise LuxelError(NO_LENS.format(noun="Convexes"), NO_LENS_REMEDY)
        if view.with_normals:
            raise ValueError("with_normals must be False for convexes, which have no normals")
        options = view._asdict()
        for name in ("times", "dilation", "antialiased", "with_normals", "shutters"):
            del options[name]
        return Projected(*project_convexes(tuple(self.tensors().values()), statistics=statistics, **options))

    def scaled(self, factor: float) -> Convexes:
        """With the points ``factor`` times as far from their centroid; edges are as soft relative to the size."""
        middle = self.centroids[:, None]
        points = middle + factor * (self.points - middle)
        return replace(
            self,
            points=points,
            log_delta=self.log_delta - 2 * log(factor),  # L_j is a length squared
        )

    def transformed(self, similarity: Similarity) -> Convexes:
        """See `Parameters.transformed`; delta and sigma change as the projection multiplies them by the depth."""
        return replace(
            self,
            points=similarity.apply(self.points),
            log_delta=self.log_delta - log(similarity.scale),
            log_sigma=self.log_sigma - log(similarity.scale),
            sh_rest=similarity.turn_sh(self.sh_rest),
        )

    @property
    def sizes(self) -> Tensor:
        """`world_scale`."""
        return self.world_scale

    @property
    def world_scale(self) -> Tensor:
        """The largest standard deviation of the points along a world axis (of K - 1), capture units, [N]."""
        return self.points.var(1).amax(-1).sqrt()

    @staticmethod
    def from_points(
        points: Points,
        *,
        points_each: int = 6,
        sigma: float = STARTING_SIGMA["indoor"],
        sh_degree: int = 3,
        opacity: float = 0.1,
        device: torch.device | str = "cpu",
    ) -> Convexes:
        """A round convex at each point, of a size from the root mean square distance d to its three nearest neighbours.

        The K points lie on a sphere of radius 1.2 d; delta is 0.1 / d; the mask logit is 1. d^2 is at least 1e-7.

        Args:
            points: P coloured points.
            points_each: K, 3..8.
            sigma: starting sharpness, see `STARTING_SIGMA`.
            sh_degree: 0..3, the highest degree of the coefficients (those above degree 0 start at 0).
            opacity: starting opacity in (0, 1).
            device: where the parameters go.
        """
        xyz = torch.from_numpy(np.ascontiguousarray(points.xyz, dtype=np.float32))
        rgb = torch.from_numpy(np.ascontiguousarray(points.rgb)).float() / 255
        n = xyz.shape[0]
        distance = torch.from_numpy(neighbour_distance(points.xyz, floor=1e-7))
        sphere = fibonacci_sphere(points_each)
        return Convexes(
            points=xyz[:, None] + 1.2 * distance[:, None, None] * sphere.float(),
            log_delta=(0.1 / distance).log(),
            log_sigma=torch.full((n,), log(sigma)),
            opacity_logits=torch.full((n,), log(opacity / (1 - opacity))),
            sh_dc=(rgb - 0.5) / SH_C0,
            sh_rest=torch.zeros(n, (sh_degree + 1) ** 2 - 1, 3),
            mask_logits=torch.ones(n),
        ).to(device)

    @staticmethod
    def empty(points_each: int = 6, sh_degree: int = 3, device: torch.device | str = "cpu") -> Convexes:
        """No convexes at all."""
        none = Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))
        return Convexes.from_points(none, points_each=points_each, sh_degree=sh_degree, device=device)


def fibonacci_sphere(count: int) -> Tensor:
    """Directions spread evenly over the sphere: y_i = 1 - (2i + 1) / count, turned by the golden angle, float64.

    Args:
        count: how many.

    Returns:
        Unit vectors, [count, 3].
    """
    i = torch.arange(count, dtype=torch.float64)
    y = 1 - (2 * i + 1) / count
    ring, angle = (1 - y * y).sqrt(), pi * (3 - sqrt(5)) * i
    return torch.stack([ring * angle.cos(), y, ring * angle.sin()], -1)
