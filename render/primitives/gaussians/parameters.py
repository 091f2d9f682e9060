"""3D Gaussians (Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Points
from luxel.render.ops.raster.project_gaussians import project_gaussians
from luxel.render.primitives.parameters import SH_C0, Parameters, Projected, Viewing
from luxel.render.primitives.similarity import Similarity


@dataclass
class Gaussians(Parameters):
    """N Gaussians by the raw parameters that an optimiser moves.

    Args:
        means: centres in world coordinates, [N, 3].
        quats: rotations wxyz, normalised when used, [N, 4].
        log_scales: natural logarithm of the standard deviations along the rotated axes, [N, 3].
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

    primitive, noun, planar = "gaussians", "Gaussians", True

    def __post_init__(self) -> None:
        n = self.means.shape[0]
        self.check(
            {
                "means": (n, 3),
                "quats": (n, 4),
                "log_scales": (n, 3),
                "opacity_logits": (n,),
                "sh_dc": (n, 3),
            }
        )

    @property
    def scales(self) -> Tensor:
        """Standard deviations, [N, 3], capture units."""
        return self.log_scales.exp()

    @property
    def centres(self) -> Tensor:
        """The means."""
        return self.means

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """See `luxel.render.ops.raster.project_gaussians.project_gaussians`."""
        options = view._asdict()
        del options["times"]
        tensors = tuple(self.tensors().values())
        return Projected(*project_gaussians(tensors, statistics=statistics, **options))  # pyright: ignore[reportArgumentType]

    def scaled(self, factor: float) -> Gaussians:
        """With ``factor`` times the standard deviations."""
        return replace(self, log_scales=self.log_scales + log(factor))

    def transformed(self, similarity: Similarity) -> Gaussians:
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

    @staticmethod
    def from_points(
        points: Points,
        *,
        sh_degree: int = 3,
        opacity: float = 0.1,
        scale_factor: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> Gaussians:
        """One isotropic Gaussian at each point; its standard deviation is the distance to its nearest neighbours.

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
        logit = float(np.log(opacity / (1 - opacity)))
        return Gaussians(
            means=xyz,
            quats=torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
            log_scales=distance.clamp_min(1e-7).log()[:, None].repeat(1, 3),
            opacity_logits=torch.full((n,), logit),
            sh_dc=(rgb - 0.5) / SH_C0,
            sh_rest=torch.zeros(n, (sh_degree + 1) ** 2 - 1, 3),
        ).to(device)

    @staticmethod
    def empty(sh_degree: int = 3, device: torch.device | str = "cpu") -> Gaussians:
        """No Gaussians at all."""
        return Gaussians(
            torch.zeros(0, 3, device=device),
            torch.zeros(0, 4, device=device),
            torch.zeros(0, 3, device=device),
            torch.zeros(0, device=device),
            torch.zeros(0, 3, device=device),
            torch.zeros(0, (sh_degree + 1) ** 2 - 1, 3, device=device),
        )


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
    places = np.array(xyz, np.float64)
    others = places[nearest(torch.from_numpy(places), min(neighbours, count - 1)).numpy()]
    mean_square = ((others - places[:, None]) ** 2).sum(axis=2).mean(axis=1)
    if floor is None:
        positive = mean_square[mean_square > 0]
        floor = float(np.median(positive)) * 1e-2 if positive.size else 1.0
    return np.sqrt(np.maximum(mean_square, floor)).astype(np.float32)


def quat_to_matrix(quats: Tensor) -> Tensor:
    """Rotation matrices of unnormalised quaternions wxyz, [N, 4] -> [N, 3, 3]."""
    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
    rows = [
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
