"""Other shapes for the same primitives, for inspection: opaque bodies, points, footprints.

Nothing is rasterized differently: the rows on the screen are changed between projection and binning, by a function for
each policy of the tile rasterizer (`SOLIDS`, `FOOTPRINTS`). So all primitives with this policy have the outputs.
A shape never becomes larger than the splat that the projection has counted tiles for.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import torch
from torch import Tensor

from luxel.render.primitives import Gaussians, Parameters, Surfels
from luxel.render.primitives.parameters import Projected, Viewing

SURFACE = 1.5  # standard deviations from the centre at which a Gaussian has its surface
SOLID_OPACITY = 1e30  # before the cap on alpha: the border of a body is 4 % of its radius wide
FAINT_OPACITY = 1.5 / 255  # above the cut-off of alpha, and so low that about 2,000 layers fit into a pixel
HARD_EDGE = 1e3  # factor on the sharpness of convexes
MARGIN = 1.001  # shapes are this much smaller, so that rounding adds no tile
POINT_SIGMA = -30.0  # log of a standard deviation that is far below a pixel at any distance
POINT_DILATION = 0.2  # px^2: a point is a disc of about three pixels
GOLDEN = 0.6180339887498949  # fractions of its multiples are spread evenly


def solid_gaussians(splats: Tensor, reach: float = SURFACE) -> Tensor:
    """Rows x, y, opacity, depth, conic, radius of opaque ellipses with a radius of ``reach`` standard deviations, or
    as far as alpha was above 1/255 where that is nearer."""
    power = torch.log(255 * splats[..., 2]).clamp(1e-3, 0.5 * reach**2)  # at the surface
    return _gaussian_rows(splats, SOLID_OPACITY, log(255 * SOLID_OPACITY) / power)


def gaussian_footprints(splats: Tensor) -> Tensor:
    """Rows of Gaussians that reach as far as before, but hardly hide what is behind."""
    power = torch.log(255 * splats[..., 2]).clamp_min(1e-3)  # at the border, where alpha is 1/255
    return _gaussian_rows(splats, FAINT_OPACITY, log(255 * FAINT_OPACITY) / power)


def _gaussian_rows(splats: Tensor, opacity: float, sharper: Tensor) -> Tensor:
    rows = splats.clone()
    rows[..., 2] = opacity
    rows[..., 4:7] *= MARGIN * sharper[..., None]
    return rows


def solid_convexes(splats: Tensor) -> Tensor:
    """Rows x, y, opacity, depth, delta, sigma, ... of opaque convexes with a hard border."""
    return _convex_rows(splats, 1.0)


def convex_footprints(splats: Tensor) -> Tensor:
    """Rows of convexes that hardly hide what is behind; their soft border is left out."""
    return _convex_rows(splats, FAINT_OPACITY)


def _convex_rows(splats: Tensor, opacity: float) -> Tensor:
    rows = splats.clone()
    rows[..., 2] = opacity
    rows[..., 5] *= HARD_EDGE
    return rows


# By the policy of the tile rasterizer: rows on the screen, [C, N, R], to rows of the shape; surfels: thin Gaussians.
SOLIDS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussians": solid_gaussians,
    "convexes": solid_convexes,
    "surfels": solid_gaussians,
}
FOOTPRINTS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussians": gaussian_footprints,
    "convexes": convex_footprints,
    "surfels": gaussian_footprints,
}


class Reshaped:
    """Primitives whose rows on the screen are changed after the projection; everything else is theirs.

    Args:
        scene: primitives.
        change: a projection to the projection that is rendered.
    """

    def __init__(self, scene: Parameters, change: Callable[[Projected], Projected]) -> None:
        self._scene, self._change = scene, change

    def project(self, view: Viewing, statistics: Tensor | None) -> Projected:
        """The changed projection."""
        return self._change(self._scene.project(view, statistics))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scene, name)


def solids(scene: Any, time: float) -> Any:
    """The primitives as opaque bodies, each of one colour and a brightness of its own that tells neighbours apart."""

    def change(projected: Projected) -> Projected:
        count = projected.values.shape[1]
        index = torch.arange(count, device=projected.values.device, dtype=torch.float64)
        brightness = (0.6 + 0.4 * (index * GOLDEN).frac()).to(projected.values)
        values = projected.values.clone()
        values[..., :3] *= brightness[:, None]
        return projected._replace(splats=SOLIDS[scene.policy](projected.splats), values=values)

    return Reshaped(_drawn(scene), change)


def footprints(scene: Any, time: float) -> Any:
    """The primitives as far as they reach, nearly transparent: their number per pixel is the overdraw."""

    def change(projected: Projected) -> Projected:
        return projected._replace(splats=FOOTPRINTS[scene.policy](projected.splats))

    return Reshaped(_drawn(scene), change)


def _drawn(scene: Any) -> Any:
    """The primitives, or Gaussians instead."""
    return scene.as_gaussians() if isinstance(scene, Surfels) else scene


def points(scene: Any, time: float) -> Any:
    """The centres of the primitives as opaque discs of a few pixels, in their colour of degree 0."""
    positions, colours = scene.centres, scene.sh_dc
    if scene.moves:
        cut = scene.slice(time) if hasattr(scene, "slice") else scene.at(time)
        positions = cut.means
        if hasattr(cut, "visible"):
            positions, colours = positions[cut.visible], colours[cut.visible]
        else:
            colours = cut.sh_dc
    count = len(positions)
    centres = Gaussians(
        means=positions,
        quats=positions.new_tensor([1.0, 0, 0, 0]).expand(count, 4).contiguous(),
        log_scales=positions.new_full((count, 3), POINT_SIGMA),
        opacity_logits=positions.new_full((count,), 8.0),
        sh_dc=colours,
        sh_rest=positions.new_zeros(count, 0, 3),
    )

    def change(projected: Projected) -> Projected:
        return projected._replace(splats=solid_gaussians(projected.splats, reach=4.0))

    return Reshaped(centres, change)


def reshapes(primitives: type[Parameters]) -> bool:
    """Whether there are other shapes for a class of primitives."""
    return primitives.policy in SOLIDS
