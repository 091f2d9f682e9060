"""3D Gaussians (Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from luxel.render.ops.raster.project_gaussians import project_gaussians
from luxel.render.primitives.gaussian_parameters import GaussianParameters
from luxel.render.primitives.parameters import SH_C0, Projected, Viewing

__all__ = ["SH_C0", "Gaussians", "quat_to_matrix"]


@dataclass
class Gaussians(GaussianParameters):
    """N Gaussians of three axes: means [N, 3], quats [N, 4], log_scales [N, 3], opacity_logits [N], sh_dc [N, 3],
    sh_rest [N, K - 1, 3], see `GaussianParameters`."""

    primitive, noun, planar = "gaussians", "Gaussians", True

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """See `luxel.render.ops.raster.project_gaussians.project_gaussians`."""
        options = view._asdict()
        del options["times"]
        tensors = tuple(self.tensors().values())
        return Projected(*project_gaussians(tensors, statistics=statistics, **options))  # pyright: ignore[reportArgumentType]


def quat_to_matrix(quats: Tensor) -> Tensor:
    """Rotation matrices of unnormalised quaternions wxyz, [N, 4] -> [N, 3, 3]."""
    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
    rows = [
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
