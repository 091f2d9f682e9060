"""Front-to-back alpha blending of the surfels of one tile (Huang et al. 2024, section 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.reference.raster.blend_gaussians import Blended, blend_reference

LOW_PASS = 0.3  # standard deviation of the low-pass filter, px; kLowPass of cuda/math/raster/surfel_policy.h


class Intersections(NamedTuple):
    """Where the rays of P pixels meet the planes of M surfels, [P, M] each."""

    square: Tensor  # u^2 + v^2
    depth: Tensor  # z


def blend_surfels_reference(
    camera: Camera,
    pixels: Tensor,
    mean2d: Tensor,
    centre: Tensor,
    tangents: Tensor,
    opacity: Tensor,
    depth: Tensor,
    values: Tensor,
    *,
    max_alpha: float = 0.99,
    chunk: int = 2048,
) -> Blended:
    """Blends M surfels, nearest first, at P pixels.

    As in `blend_gaussians_reference`, with alpha = min(max_alpha, opacity max(exp(-(u^2 + v^2) / 2), exp(-d^2 / 2))),
    d the distance from the image of the centre in units of `LOW_PASS` (eq. 11; the paper has sqrt(1/2) px). Where the
    first term is the larger one, the depth is that of the intersection, else of the centre.

    Args:
        camera: without a lens.
        pixels: centres, px, [P, 2].
        mean2d, centre, tangents, opacity, depth: the surfels, see `SurfelPlanes`.
        values: what is blended, [M, D]; the first two channels, depth and its square, are replaced by those at pixels.
        max_alpha: cap of alpha, at most 1.
        chunk: surfels taken at a time, which bounds the memory (P x chunk).
    """

    known: dict[int, tuple[Tensor, Tensor, Tensor]] = {}  # of the present part

    def meet(part: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Exponents of both terms, and the depth at the pixels."""
        if part.start not in known:
            known.clear()
            known[part.start] = compute(part)
        return known[part.start]

    def compute(part: slice) -> tuple[Tensor, Tensor, Tensor]:
        hit = intersect(camera, pixels, centre[part], tangents[part])
        plane = hit.square / 2
        filtered = (pixels[:, None] - mean2d[None, part]).square().sum(-1) / (2 * LOW_PASS**2)
        return plane, filtered, torch.where(plane < filtered, hit.depth, depth[part])

    def alpha(part: slice) -> tuple[Tensor, Tensor, Tensor]:
        plane, filtered, _ = meet(part)
        jump = (plane - filtered).abs() / (plane + filtered).clamp_min(1e-30)  # of the depth
        power = torch.where(plane < filtered, plane, filtered)
        return opacity[part] * (-power).exp(), torch.ones_like(power, dtype=torch.bool), jump

    def visible(part: slice) -> Tensor:
        z = meet(part)[2]
        rest = values[None, part, 2:].expand(len(z), -1, -1)
        return torch.cat([z[..., None], z[..., None].square(), rest], -1)

    return blend_reference(
        alpha,
        lambda part: meet(part)[2],
        visible,
        pixels,
        max_alpha=max_alpha,
        chunk=chunk,
        count=len(opacity),
        channels=values.shape[1],
    )


def intersect(camera: Camera, pixels: Tensor, centre: Tensor, tangents: Tensor) -> Intersections:
    """Meets the ray of each pixel with the plane of each surfel.

    Args:
        camera: without a lens.
        pixels: px, [P, 2].
        centre: [M, 3]. tangents: [M, 2, 3]; both in the camera's axes.
    """
    fx, fy, cx, cy = camera.intrinsics.to(pixels).unbind()
    x, y = pixels.unbind(-1)
    rays = torch.stack([(x - cx) / fx, (y - cy) / fy, torch.ones_like(x)], -1)  # depth 1
    normal = torch.linalg.cross(tangents[:, 0], tangents[:, 1])
    depth = (normal * centre).sum(-1) / (rays @ normal.T)
    away = depth[..., None] * rays[:, None] - centre
    dual = (
        torch.linalg.inv(tangents @ tangents.mT) @ tangents
    )  # the axes are orthogonal only if the pose is a rotation
    local = torch.einsum("pmc,mkc->pmk", away, dual)
    return Intersections(local.square().sum(-1), depth)
