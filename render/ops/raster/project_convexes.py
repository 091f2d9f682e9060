"""Stage: world convexes to polygons on the screen (kernels of the same name; plain torch in reference/)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from luxel.render.ops.raster.convex_points import FEWEST, MOST
from luxel.render.ops.raster.projection import POLYGON_OPTIONS, Projection

SPLAT = 28  # floats of one screen splat, see cuda/abi


def _points_each(named: Mapping[str, Tensor]) -> dict[str, int]:
    return {"points_each": named["points"].shape[1]}


PROJECTION = Projection(
    "project_convexes",
    {
        "points": (None, 3),
        "log_delta": (),
        "log_sigma": (),
        "opacity_logits": (),
        "sh_dc": (3,),
        "sh_rest": (None, 3),
        "mask_logits": (),
    },
    SPLAT,
    POLYGON_OPTIONS,
    more=_points_each,
    penalties=("raw_moments", "mask_penalty"),
)
PARAMETERS = tuple(PROJECTION.parameters)


def project_convexes(
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
    statistics: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Projects N convexes into C cameras (Held et al. 2025, "3D Convex Splatting", section 3).

    Each convex becomes the convex hull of its projected points. What is dropped, and where no gradient passes, is
    described in `luxel.render.reference.raster.project_convexes.project_convexes_reference`.

    Args:
        parameters: the raw tensors of `luxel.render.primitives.convexes.Convexes`, in its order.
        world_to_cam: [C, 4, 4]. intrinsics: [C, 4], pixels.
        width, height: image size in pixels.
        sh_degree: degree evaluated, limited by the coefficients that are stored.
        near, far: range of depths rendered, 0 < near.
        with_depth: append the depth of the centroid to the values.
        statistics: [N, 4], filled by the backward: sum of d loss / d sigma with its sign (sigma activated), nothing,
            times observed, largest distance of a point from the centroid on the screen relative to the image.

    Returns:
        splats [C, N, 28] (x, y of the centroid, opacity after the mask, depth of the centroid, delta z, sigma z, number
        of edges, reach, box, then up to 8 corners relative to the centroid, see cuda/abi/raster.h; rows of culled
        convexes undefined), values [C, N, D] (rgb, depth), tile_counts [C, N] int32 (0: culled), totals [2] int64
        (visible splats, tile instances).
        Of the splats opacity, delta z, sigma z and corners carry gradients, and the values do; depth's goes through
        values.

    Raises:
        ValueError: shapes, types or devices do not fit, or near is not positive.
    """
    if parameters[0].dim() == 3 and not FEWEST <= parameters[0].shape[1] <= MOST:
        expected = f"[N, {FEWEST}..{MOST}, 3]"
        raise ValueError(f"project_convexes: points must be {expected}, got {list(parameters[0].shape)}")
    return PROJECTION(
        (*parameters, world_to_cam, intrinsics),
        statistics,
        width=width,
        height=height,
        sh_degree=sh_degree,
        near=near,
        far=far,
        with_depth=with_depth,
    )
