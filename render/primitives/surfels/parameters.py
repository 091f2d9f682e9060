"""Surfels: flat Gaussians in space (Huang et al. 2024, "2D Gaussian Splatting")."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.lens import NO_LENS, NO_LENS_REMEDY
from luxel.render.geometry.shutter import NO_SHUTTER, NO_SHUTTER_REMEDY
from luxel.render.ops.raster.project_surfels import project_surfels
from luxel.render.primitives.gaussian_parameters import GaussianParameters
from luxel.render.primitives.gaussians.parameters import Gaussians, quat_to_matrix
from luxel.render.primitives.gaussians4d.parameters import matrix_to_quat
from luxel.render.primitives.parameters import Projected, Viewing

NEIGHBOURS = 8  # points that give the plane of a first surfel, itself included
FLATNESS = 0.01  # thickness of a Gaussian instead of a surfel, of its smaller standard deviation


@dataclass
class Surfels(GaussianParameters):
    """N flat Gaussians of two axes: means [N, 3], quats [N, 4], log_scales [N, 2], opacity_logits [N], sh_dc [N, 3],
    sh_rest [N, K - 1, 3], see `GaussianParameters`; the third rotated axis is the normal."""

    primitive, noun, policy = "surfels", "surfels", "surfels"
    antialiases = False
    axes = 2

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

    def as_gaussians(self) -> Gaussians:
        """Thin 3D Gaussians instead, `FLATNESS` times as thick as the smaller standard deviation."""
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

    @classmethod
    def quats_at(cls, xyz: np.ndarray) -> Tensor:
        """See `neighbour_quats`."""
        return neighbour_quats(xyz)


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
    positions = torch.from_numpy(np.array(xyz, np.float64))
    others = nearest(positions, min(neighbours, count) - 1).long()
    around = torch.cat([positions[:, None], positions[others]], 1)
    around = around - around.mean(1, keepdim=True)
    axes = torch.linalg.eigh(around.mT @ around).eigenvectors.flip(-1)  # of the largest variance first
    axes[..., 2] = torch.linalg.cross(axes[..., 0], axes[..., 1])
    return matrix_to_quat(axes).float()
