"""An image of a volume in plain torch: each small step an operation over all rays that are alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from luxel.render.reference.field.march_rays import pixel_rays_reference


def render_waves_reference(
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    world_to_cam: Tensor,
    intrinsics: Tensor,
    width: int,
    height: int,
    box: Sequence[float],
    step: float,
    occupied: Tensor,
    background: Tensor,
    *,
    near: float = 0.0,
    scale: float = 1.0,
    min_transmittance: float = 1e-4,
) -> tuple[Tensor, Tensor, Tensor]:
    """The image of a camera, one sample along every ray at a time, each of these a separate operation:

    pixel coordinates, rays, their intersection with the box; then, until no ray is left, the cell that each ray is in,
    the distance to the next cell where it is empty, else the field and compositing, and compaction of the live rays.

    Args:
        evaluate: positions [S, 3] in [0, 1]^3 and directions [S, 3] to density [S] and colour [S, 3] before exp and
            sigmoid.
        world_to_cam, intrinsics: of the camera, [4, 4], [4].
        width, height: of the image.
        box: low x, y, z, high x, y, z.
        step: between places along a ray.
        occupied: bool [G, G, G], indexed [z, y, x].
        background: [3].
        near: distance along a ray before which it has no samples.
        scale: 1 / the unit of length in which density is counted.
        min_transmittance: a ray ends where its transmittance falls below.

    Returns:
        rgb [H W, 3], transmittance [H W], depth [H W].
    """
    pixels = torch.arange(width * height, device=background.device)
    views = torch.tensor([[0, width]], device=background.device)
    origins, directions = pixel_rays_reference(pixels, views, world_to_cam[None], intrinsics[None])
    low, high = (background.new_tensor(part) for part in (box[:3], box[3:]))
    origin, direction = (origins - low) / (high - low), directions / (high - low)
    held = torch.where(direction < 0, direction.clamp_max(-1e-9), direction.clamp_min(1e-9))
    ends = torch.stack([-origin / held, (1 - origin) / held])
    begin = ends.amin(0).amax(-1).clamp_min(near)
    end = ends.amax(0).amin(-1)
    resolution = occupied.shape[0]
    position = torch.zeros_like(begin)
    rgb, total, depth = torch.zeros_like(origins), torch.zeros_like(begin), torch.zeros_like(begin)
    alive = (begin < end).nonzero()[:, 0]
    while True:
        t = begin[alive] + (position[alive] + 0.5) * step
        inside = t < end[alive]
        alive, t = alive[inside], t[inside]
        if len(alive) == 0:
            break
        points = origin[alive] + t[:, None] * direction[alive]
        cells = (points * resolution).long().clamp(0, resolution - 1)
        full = occupied[cells[:, 2], cells[:, 1], cells[:, 0]]
        edges = (cells + (held[alive] > 0)) / resolution
        leaves = ((edges - origin[alive]) / held[alive]).amin(-1)
        beyond = ((leaves - begin[alive]) / step - 0.5).ceil()
        here = position[alive]
        position[alive] = torch.where(full, here + 1, torch.maximum(beyond, here + 1))

        hit, at = alive[full], t[full]
        density, colour = evaluate(points[full].clamp(0, 1), directions[hit])
        optical = scale * density.clamp(-15, 15).exp() * step
        reached = (-total[hit]).exp()
        weight = reached * -torch.expm1(-optical)
        rgb[hit] += weight[:, None] * colour.sigmoid()
        depth[hit] += weight * at
        total[hit] += optical
        alive = alive[(-total[alive]).exp() >= min_transmittance]
    transmittance = (-total).exp()
    return rgb + transmittance[:, None] * background, transmittance, depth
