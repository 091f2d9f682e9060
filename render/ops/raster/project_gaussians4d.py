"""Stage: 4D Gaussians to screen splats, each camera at its time (kernels of the same name; reference/ in torch)."""

from __future__ import annotations

from torch import Tensor

from luxel.render.ops.raster.project_gaussians import SPLAT
from luxel.render.ops.raster.projection import GAUSSIAN_OPTIONS, Projection

PROJECTION = Projection(
    "project_gaussians4d",
    {
        "means": (3,),
        "times": (),
        "log_scales": (3,),
        "log_scale_t": (),
        "rotors": (8,),
        "opacity_logits": (),
        "sh_dc": (3,),
        "sh_rest": (None, 3),
    },
    SPLAT,
    GAUSSIAN_OPTIONS,
    cameras={"world_to_cam": (4, 4), "intrinsics": (4,), "timestamps": ()},
    moving=("world_to_cam", "timestamps"),
    lenses=True,
    shutters=True,
)
PARAMETERS = tuple(PROJECTION.parameters)


def project_gaussians4d(
    parameters: tuple[Tensor, ...],
    world_to_cam: Tensor,
    intrinsics: Tensor,
    timestamps: Tensor,
    *,
    width: int,
    height: int,
    sh_degree: int,
    near: float,
    far: float,
    dilation: float,
    antialiased: bool = False,
    with_depth: bool = False,
    with_normals: bool = False,
    statistics: Tensor | None = None,
    shutters: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Slices N 4D Gaussians at the time of each of C cameras and projects them (Duan et al. 2024, section 3).

    Args:
        parameters: the raw tensors of `luxel.render.primitives.gaussians4d.Gaussians4d`, in its order.
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4], pixels; with lenses [C, 12], see `luxel.render.geometry.lens`: mean
            and covariance on the screen are then those of images of sigma points (Wu et al. 2025, "3DGUT").
        timestamps: time of each camera, in what the Gaussians' times count in, [C]; differentiable.
        width, height, sh_degree, near, far, dilation, antialiased, with_depth, with_normals: as in
            `luxel.render.ops.raster.project_gaussians.project_gaussians`. Normals have no gradient.
        statistics: [N, 4], filled by the backward: sums over the views of the norm of d loss / d mean2d (half image
            sizes) and of |d loss of the view / d times|, times observed, largest radius relative to the image.
        shutters: rolling shutters of the cameras, [C, 8], see `luxel.render.geometry.shutter`; differentiable by the
            velocities.

    Returns:
        What `project_gaussians` returns: splats [C, N, 8], values [C, N, D], tile_counts [C, N], totals [2].

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return PROJECTION(
        (*parameters, world_to_cam, intrinsics, timestamps),
        statistics,
        shutters,
        width=width,
        height=height,
        sh_degree=sh_degree,
        near=near,
        far=far,
        dilation=dilation,
        antialiased=antialiased,
        with_depth=with_depth,
        with_normals=with_normals,
    )
