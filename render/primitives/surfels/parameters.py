"""Surfels: flat Gaussians in space (Huang et al. 2024, "2D Gaussian Splatting")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Points
from luxel.render.geometry.lens import NO_LENS, NO_LENS_REMEDY
from luxel.render.geometry.shutter import NO_SHUTTER, NO_SHUTTER_REMEDY
from luxel.render.ops.raster.project_surfels import project_surfels
from luxel.render.primitives.gaussians.parameters import (
    SH_C0,
    Gaussians,
    neighbour_distance,
    quat_to_matrix,
)
from luxel.render.primitives.gaussians4d.parameters import matrix_to_quat
from luxel.render.primitives.parameters import Parameters, Projected, Viewing
from luxel.render.primitives.similarity import Similarity

NEIGHBOURS = 8  # points that give the plane of a first surfel, itself included
FLATNESS = 0.01  # thickness of a Gaussian in place of a surfel, of its smaller standard deviation


@dataclass
class Surfels(Parameters):
    """N flat Gaussians by the raw parameters that an optimiser moves.

    Args:
        means: centres in world coordinates, [N, 3].
        quats: rotations wxyz, normalised when used, [N, 4]; the third rotated axis is the normal.
        log_scales: natural logarithm of the standard deviations along the first two rotated axes, [N, 2].
        opacity_logits: opacity before the sigmoid, [N].
        sh_dc: spherical-harmonics coefficient of degree 0, RGB, [N, 3].
        sh_rest: coefficients of degrees 1..D, [N, (D + 1)^2 - 1, 3], D in 0..3.
    """

    means: Tensor
    quats: Tensor
    log_scales: Tensor
    opacity_logits: Tensor
    sh_dc: Tensor
    sh_rest: Tensor

    primitive, noun, policy = "surfels", "surfels", "surfels"
    antialiases = False

    def __post_init__(self) -> None:
        n = self.means.shape[0]
        self.check(
            {
                "means": (n, 3),
                "quats": (n, 4),
                "log_scales": (n, 2),
                "opacity_logits": (n,),
                "sh_dc": (n, 3),
            }
        )

    @property
    def scales(self) -> Tensor:
        """Standard deviations along the two axes, [N, 2], capture units."""
        return self.log_scales.exp()

    @property
    def centres(self) -> Tensor:
        """The means."""
        return self.means

    @property
    def normals(self) -> Tensor:
        """The third rotated axes, unit vectors in world coordinates, [N, 3]; of either side."""
        return quat_to_matrix(self.quats)[..., 2]

    @classmethod
    def depth_moments(cls, depth: bool, normals: bool) -> int:
        """The depth of each pixel, and with normals its square; see `Parameters.depth_moments`."""
        return (1 + int(normals)) * int(depth)

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """See `luxel.render.ops.raster.project_surfels.project_surfels`.

        Raises:
            LuxelError: a camera has a lens, or a rolling shutter.
        """
        if view.intrinsics.shape[-1] > 4:
            raise LuxelError(NO_LENS.format(noun="Surfels"), NO_LENS_REMEDY)
        if view.shutters is not None:
            raise LuxelError(NO_SHUTTER.format(noun="Surfels"), NO_SHUTTER_REMEDY)
        options = view._asdict()
        for name in ("times", "dilation", "antialiased", "shutters"):
            del options[name]
        return Projected(*project_surfels(tuple(self.tensors().values()), statistics=statistics, **options))

    def scaled(self, factor: float) -> Surfels:
        """With ``factor`` times the standard deviations."""
        return replace(self, log_scales=self.log_scales + log(factor))

    def transformed(self, similarity: Similarity) -> Surfels:
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
        """The larger standard deviation of each, [N]."""
        return self.log_scales.amax(-1).exp()

    def as_gaussians(self) -> Gaussians:
        """Thin 3D Gaussians in their place, `FLATNESS` times as thick as the smaller standard deviation."""
        thickness = self.log_scales.amin(-1, keepdim=True) + log(FLATNESS)
        return Gaussians(**(self.tensors() | {"log_scales": torch.cat([self.log_scales, thickness], -1)}))

    @staticmethod
    def from_gaussians(gaussians: Gaussians) -> Surfels:
        """3D Gaussians without their smallest axis, row by row."""
        order = gaussians.log_scales.argsort(-1, descending=True)
        axes = quat_to_matrix(gaussians.quats).gather(2, order[:, None].expand(-1, 3, -1))
        normal = torch.linalg.cross(axes[..., 0], axes[..., 1])
        quats = matrix_to_quat(torch.stack([axes[..., 0], axes[..., 1], normal], -1))
        scales = gaussians.log_scales.gather(1, order[:, :2])
        return Surfels(**(gaussians.tensors() | {"quats": quats, "log_scales": scales}))

    @staticmethod
    def from_points(
        points: Points,
        *,
        sh_degree: int = 3,
        opacity: float = 0.1,
        scale_factor: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> Surfels:
        """One round surfel at each point, in the plane of the points around it.

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
        return Surfels(
            means=xyz,
            quats=neighbour_quats(points.xyz),
            log_scales=distance.clamp_min(1e-7).log()[:, None].repeat(1, 2),
            opacity_logits=torch.full((n,), float(np.log(opacity / (1 - opacity)))),
            sh_dc=(rgb - 0.5) / SH_C0,
            sh_rest=torch.zeros(n, (sh_degree + 1) ** 2 - 1, 3),
        ).to(device)

    @staticmethod
    def empty(sh_degree: int = 3, device: torch.device | str = "cpu") -> Surfels:
        """No surfels at all."""
        none = Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))
        return Surfels.from_points(none, sh_degree=sh_degree, device=device)


def neighbour_quats(xyz: np.ndarray, neighbours: int = NEIGHBOURS) -> Tensor:
    """Rotations whose third axis is the direction in which a point's nearest neighbours vary least, float32 [P, 4].

    With fewer than three points, the identity.

    Args:
        xyz: points, [P, 3].
        neighbours: how many points to fit the plane to, the point itself included.
    """
    from luxel.render.ops.train.neighbours import neighbours as nearest

    count = len(xyz)
    if count < 3:
        return torch.tensor([1.0, 0, 0, 0]).repeat(count, 1)
    places = torch.from_numpy(np.array(xyz, np.float64))
    others = nearest(places, min(neighbours, count) - 1).long()
    around = torch.cat([places[:, None], places[others]], 1)
    around = around - around.mean(1, keepdim=True)
    axes = torch.linalg.eigh(around.mT @ around).eigenvectors.flip(-1)  # of the largest variance first
    axes[..., 2] = torch.linalg.cross(axes[..., 0], axes[..., 1])
    return matrix_to_quat(axes).float()
