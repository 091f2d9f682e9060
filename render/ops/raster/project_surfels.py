"""Stage: world surfels to their images on the screen (kernels of the same name; plain torch in reference/)."""

from __future__ import annotations

from torch import Tensor

from luxel.render.ops.raster.projection import SURFEL_OPTIONS, Projection

SPLAT = 12  # floats of one screen splat, see cuda/abi

PROJECTION = Projection(
    "project_surfels",
    {
        "means": (3,),
        "quats": (4,),
        "log_scales": (2,),
        "opacity_logits": (),
        "sh_dc": (3,),
        "sh_rest": (None, 3),
    },
    SPLAT,
    SURFEL_OPTIONS,
    penalties=("opacity_penalty", "scale_penalty"),
    squares=True,
)
PARAMETERS = tuple(PROJECTION.parameters)


def project_surfels(
    parameters: tuple[Tensor, ...],
    world_to_cam: Tensor,
    intrinsics: Tensor,
    *,
    width: int,
    height: int,
    sh_degree: int,
    near: float,
    far: float,
    with_depth: bool = False,
    with_normals: bool = False,
    statistics: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Projects N surfels into C cameras (Huang et al. 2024, "2D Gaussian Splatting", section 4.2).

    A pixel at d from the image (x, y) of the centre sees the plane at (u, v) with u^2 + v^2 =
    s^2 (a d_x^2 + 2 b d_x d_y + c d_y^2) and depth z s, s = 1 / (1 + g_x d_x + g_y d_y), which is the
    intersection of eq. 8 to 10 in closed form.

    Args:
        parameters: the raw tensors of `luxel.render.primitives.surfels.Surfels`, in its order.
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4], pixels.
        width, height: image size in pixels.
        sh_degree: degree evaluated, limited by the coefficients that are stored.
        near, far: range of depths of centres rendered, 0 < near. Surfels that reach behind the camera are not.
        with_depth, with_normals: append depth of the centre (and, with both, its square), world-space normal turned to
            the camera to the values.
        statistics: [N, 4], filled by the backward as in `project_gaussians`.

    Returns:
        splats [C, N, 12] (x, y, opacity, depth, conic a, b, c, determinant of its inverse, g_x, g_y, h_x, h_y with h =
        inverse conic times g; rows of culled surfels undefined), values [C, N, D] (rgb, depth, squared depth, normal),
        tile_counts [C, N] int32 (0: culled), totals [2] int64 (visible splats, tile instances).
        Only splats and values carry gradients; depth's goes through values; determinant and h have none.

    Raises:
        ValueError: shapes, types or devices do not fit, or near is not positive.
    """
    return PROJECTION(
        (*parameters, world_to_cam, intrinsics),
        statistics,
        width=width,
        height=height,
        sh_degree=sh_degree,
        near=near,
        far=far,
        with_depth=with_depth,
        with_normals=with_normals,
    )
