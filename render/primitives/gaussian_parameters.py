"""Parameters of Gaussians in space, of as many axes as a primitive has: ellipsoids, and ellipses on surfaces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Self

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Points
from luxel.render.primitives.parameters import SH_C0, Parameters
from luxel.render.primitives.similarity import Similarity


@dataclass
class GaussianParameters(Parameters):
    """N Gaussians of A axes (`axes`) by the raw parameters that an optimiser moves.

    Args:
        means: centres in world coordinates, [N, 3].
        quats: rotations wxyz, normalised when used, [N, 4].
        log_scales: natural logarithm of the standard deviations along the first A rotated axes, [N, A].
        opacity_logits: opacity before the sigmoid, [N].
        sh_dc: spherical-harmonics coefficient of degree 0, RGB, [N, 3].
        sh_rest: coefficients of degrees 1..D, [N, K - 1, 3] with K = (D + 1)^2, D in 0..3.
    """

    means: Tensor
    quats: Tensor
    log_scales: Tensor
    opacity_logits: Tensor
    sh_dc: Tensor
    sh_rest: Tensor

    axes = 3

    def __post_init__(self) -> None:
        n = self.means.shape[0]
        self.check(
            {
                "means": (n, 3),
                "quats": (n, 4),
                "log_scales": (n, self.axes),
                "opacity_logits": (n,),
                "sh_dc": (n, 3),
            }
        )

    @property
    def scales(self) -> Tensor:
        """Standard deviations, [N, A], capture units."""
        return self.log_scales.exp()

    @property
    def centres(self) -> Tensor:
        """The means."""
        return self.means

    def scaled(self, factor: float) -> Self:
        """With ``factor`` times the standard deviations."""
        return replace(self, log_scales=self.log_scales + log(factor))

    def transformed(self, similarity: Similarity) -> Self:
        """See `Parameters.transformed`."""
        return replace(
            self,
            means=similarity.apply(self.means),
            quats=similarity.turn_quats(self.quats),
            log_scales=self.log_scales + log(similarity.scale),
            sh_rest=similarity.turn_sh(self.sh_rest),
        )

    @property
    def sizes(self) -> Tensor:
        """The largest standard deviation of each, [N]."""
        return self.log_scales.amax(-1).exp()

    @classmethod
    def quats_at(cls, xyz: np.ndarray) -> Tensor:
        """Rotations to start with at points [P, 3]: none, [P, 4]."""
        return torch.tensor([1.0, 0, 0, 0]).repeat(len(xyz), 1)

    @classmethod
    def from_points(
        cls,
        points: Points,
        *,
        sh_degree: int = 3,
        opacity: float = 0.1,
        scale_factor: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> Self:
        """A round one at each point; its standard deviation is the distance to its nearest neighbours.

        Args:
            points: P coloured points.
            sh_degree: 0..3, the highest degree of the coefficients (those above degree 0 start at 0).
            opacity: starting opacity in (0, 1).
            scale_factor: multiplies the standard deviation, `neighbour_distance`.
            device: where the parameters go.
        """
        xyz = torch.from_numpy(np.ascontiguousarray(points.xyz, dtype=np.float32))
        rgb = torch.from_numpy(np.ascontiguousarray(points.rgb)).float() / 255
        n = xyz.shape[0]
        distance = torch.from_numpy(neighbour_distance(points.xyz)) * scale_factor
        return cls(
            means=xyz,
            quats=cls.quats_at(points.xyz),
            log_scales=distance.clamp_min(1e-7).log()[:, None].repeat(1, cls.axes),
            opacity_logits=torch.full((n,), float(np.log(opacity / (1 - opacity)))),
            sh_dc=(rgb - 0.5) / SH_C0,
            sh_rest=torch.zeros(n, (sh_degree + 1) ** 2 - 1, 3),
        ).to(device)

    @classmethod
    def empty(cls, sh_degree: int = 3, device: torch.device | str = "cpu") -> Self:
        """None at all."""
        none = Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))
        return cls.from_points(none, sh_degree=sh_degree, device=device)


def neighbour_distance(xyz: np.ndarray, neighbours: int = 3, floor: float | None = None) -> np.ndarray:
    """Root mean square distance from each point to its nearest neighbours, float32 [P].

    Duplicate points count as neighbours at distance 0; if there are too few points, all are used. Of a single
    point it is 1.

    Args:
        xyz: points, [P, 3].
        neighbours: how many nearest others to average.
        floor: least mean square, capture units squared. None: a hundredth of the median of those above 0.
    """
    from luxel.render.ops.train.neighbours import neighbours as nearest

    count = len(xyz)
    if count < 2:
        return np.full(count, 1.0, np.float32)
    positions = np.array(xyz, np.float64)
    others = positions[nearest(torch.from_numpy(positions), min(neighbours, count - 1)).numpy()]
    mean_square = ((others - positions[:, None]) ** 2).sum(axis=2).mean(axis=1)
    if floor is None:
        positive = mean_square[mean_square > 0]
        floor = float(np.median(positive)) * 1e-2 if positive.size else 1.0
    return np.sqrt(np.maximum(mean_square, floor)).astype(np.float32)
