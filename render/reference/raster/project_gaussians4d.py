"""4D Gaussians at one time to screen splats, for one camera."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.slice_gaussians4d import rotor_to_matrix
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.reference.raster.project_gaussians import Ellipsoids, Splats, project_ellipsoids_reference


def project_gaussians4d_reference(
    gaussians: Gaussians4d,
    camera: Camera,
    time: float | Tensor,
    *,
    sh_degree: int | None = None,
    antialiased: bool = False,
    dilation: float = 0.3,
) -> Splats:
    """Slices and projects; spherical harmonics are evaluated in the direction of the sliced mean.

    Dropped is what `project_gaussians_reference` drops of the slice, which includes all that is not visible at
    ``time``. Normals are the shortest axis of the sliced covariance and have no gradient.

    Args:
        gaussians: N Gaussians of any float type.
        camera: one camera.
        time: a number, or a tensor without dimensions; differentiable.
        sh_degree, antialiased, dilation: as in `project_gaussians_reference`.
    """

    def shape(g: Gaussians4d) -> Ellipsoids:
        cut = g.slice(time)
        opacity = torch.where(cut.visible, cut.opacity, 0.0)
        rows = (
            rotor_to_matrix(g.rotors) * torch.cat([g.log_scales, g.log_scale_t[:, None]], -1).exp()[:, None]
        )
        space, span = rows[:, :3], rows[:, 3:]
        root = space - cut.velocity[:, :, None] * span
        return Ellipsoids(cut.means, root, opacity, _shortest_axis(cut.covariance), g.sh_dc, g.sh_rest)

    return project_ellipsoids_reference(
        gaussians, shape, camera, sh_degree=sh_degree, antialiased=antialiased, dilation=dilation
    )


@torch.no_grad()
def _shortest_axis(covariance: Tensor) -> Tensor:
    """The eigenvector of the least eigenvalue, [N, 3, 3] to [N, 3]; NaN where the matrix is not finite."""
    sound = covariance.isfinite().all(-1).all(-1)
    axis = torch.linalg.eigh(torch.where(sound[:, None, None], covariance, 0.0)).eigenvectors[..., 0]
    return torch.where(sound[:, None], axis, torch.nan)
