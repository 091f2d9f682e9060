"""Stage: world Gaussians to screen splats (kernels of the same name; plain torch in reference/)."""

from __future__ import annotations

from torch import Tensor

from luxel.render.ops.raster.projection import GAUSSIAN_OPTIONS, Projection

SPLAT = 8  # floats of one screen splat, see cuda/abi/raster.h
PROJECTION = Projection(
    "project_gaussians",
    {
        "means": (3,),
        "quats": (4,),
        "log_scales": (3,),
        "opacity_logits": (),
        "sh_dc": (3,),
        "sh_rest": (None, 3),
    },
    SPLAT,
    GAUSSIAN_OPTIONS,
    penalties=("opacity_penalty", "scale_penalty"),
    lenses=True,
    shutters=True,
)
PARAMETERS = tuple(PROJECTION.parameters)


def project_gaussians(
    parameters: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor],
    world_to_cam: Tensor,
    intrinsics: Tensor,
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
    """Projects N Gaussians into C cameras (EWA splatting, Zwicker et al. 2002; Kerbl et al. 2023).

    Args:
        parameters: the raw tensors of `Gaussians`, in its order.
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4], pixels; with lenses [C, 12], see `luxel.render.geometry.lens`: mean
            and covariance on the screen are then those of images of sigma points (Wu et al. 2025, "3DGUT").
        width, height: image size in pixels.
        sh_degree: degree evaluated, limited by the coefficients that are stored.
        near, far: range of depths rendered, 0 < near.
        dilation: added to the diagonal of the screen covariance, px^2.
        antialiased: preserve the integral of the dilated splat (Mip-Splatting, Yu et al. 2024).
        with_depth, with_normals: append depth, world-space normal to the values.
        statistics: [N, 4], filled by the backward: sums of the norm of d loss / d mean2d (half image sizes), of
            its per-pixel absolute version, times observed, largest radius relative to the image.
        shutters: rolling shutters of the cameras, [C, 8], see `luxel.render.geometry.shutter`; differentiable by the
            velocities.

    Returns:
        splats [C, N, 8] (x, y, opacity, depth, conic a, b, c, radius; rows of culled Gaussians undefined),
        values [C, N, D] (rgb, depth, normal), tile_counts [C, N] int32 (0: culled), totals [2] int64
        (visible splats, tile instances).
        Only splats and values carry gradients; depth's goes through values, radius has none.

    Raises:
        ValueError: shapes, types or devices do not fit, or near is not positive.
    """
    return PROJECTION(
        (*parameters, world_to_cam, intrinsics),
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
