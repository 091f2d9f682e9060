"""Volumes in the light of a sun with shadows, by delta tracking: single scattering without a bias of step lengths."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from luxel.render.fields.drawing.rays import clip_to_box

PATHS = 1 << 20  # followed at a time
SUN, AMBIENT = 0.8, 0.2  # strengths of the light, which together give that of constant sunlight


def track_sunlit(
    sample: Callable[[Tensor], Tensor],
    origins: Tensor,
    directions: Tensor,
    low: Tensor,
    high: Tensor,
    majorant: float,
    to_sun: Tensor,
    background: Tensor,
    paths: int,
    generator: torch.Generator,
) -> Tensor:
    """Colours of rays through a volume that absorbs, and scatters the light of a sun and of its surroundings once.

    A path along the ray ends where delta tracking finds a collision (Woodcock et al. 1965): tentative collisions are
    exponentially distributed with the density ``majorant``, and one at a position of density s is real with the
    probability s / majorant. There it has the colour albedo (`AMBIENT` + `SUN` T). The transmittance T towards the sun
    is estimated by ratio tracking (Novák et al. 2014): the product of 1 - s / majorant over tentative collisions. Both
    are unbiased; their mean over ``paths`` is returned. No gradients.

    Args:
        sample: density and albedo [S, 4] at world positions [S, 3] within the box; densities above ``majorant`` count
            as that.
        origins, directions: unit directions, [R, 3].
        low, high: corners of the box, [3].
        majorant: highest density, per unit of length, above 0.
        to_sun: unit direction, [3].
        background: colour of a path without a collision, [3].
        paths: of each ray.
        generator: on the device of the rays.

    Returns:
        [R, 3].
    """
    colours = torch.empty_like(directions)
    with torch.no_grad():
        for part in torch.arange(len(directions), device=directions.device).split(max(1, PATHS // paths)):
            starts, towards = (rows[part].repeat_interleave(paths, 0) for rows in (origins, directions))
            given = (low, high, majorant, to_sun, background, generator)
            colours[part] = _colours(sample, starts, towards, *given).view(len(part), paths, 3).mean(1)
    return colours


def _colours(
    sample: Callable[[Tensor], Tensor],
    origins: Tensor,
    directions: Tensor,
    low: Tensor,
    high: Tensor,
    majorant: float,
    to_sun: Tensor,
    background: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """The colour of one path for each ray, [R, 3]."""
    colour = background.to(directions).expand_as(directions).clone()
    enter, leave = clip_to_box(origins, directions, low, high)
    alive = (leave > enter).nonzero()[:, 0]
    distance = enter[alive]
    while len(alive):
        distance = distance + _free_flight(len(alive), majorant, distance, generator)
        inside = distance < leave[alive]
        alive, distance = alive[inside], distance[inside]
        position = (origins[alive] + distance[:, None] * directions[alive]).clamp(low, high)
        values = sample(position)
        chance = torch.rand(len(alive), dtype=distance.dtype, device=distance.device, generator=generator)
        real = chance * majorant < values[:, 0]
        light = _transmittance(sample, position[real], to_sun, low, high, majorant, generator)
        colour[alive[real]] = values[real, 1:] * (AMBIENT + SUN * light)[:, None]
        alive, distance = alive[~real], distance[~real]
    return colour


def _transmittance(
    sample: Callable[[Tensor], Tensor],
    positions: Tensor,
    to_sun: Tensor,
    low: Tensor,
    high: Tensor,
    majorant: float,
    generator: torch.Generator,
) -> Tensor:
    """Estimates of the transmittance from positions [P, 3] to the edge of the box, [P]."""
    directions = to_sun.to(positions).expand_as(positions)
    leave = clip_to_box(positions, directions, low, high)[1]
    through = torch.ones_like(leave)
    alive = torch.arange(len(positions), device=positions.device)
    distance = torch.zeros_like(leave)
    while len(alive):
        distance = distance + _free_flight(len(alive), majorant, distance, generator)
        inside = distance < leave[alive]
        alive, distance = alive[inside], distance[inside]
        density = sample((positions[alive] + distance[:, None] * directions[alive]).clamp(low, high))[:, 0]
        through[alive] *= (1 - density / majorant).clamp_min(0)
        dark = through[alive] <= 0
        alive, distance = alive[~dark], distance[~dark]
    return through


def _free_flight(count: int, majorant: float, like: Tensor, generator: torch.Generator) -> Tensor:
    """Exponentially distributed distances of the mean 1 / majorant, [count]."""
    random = torch.rand(count, dtype=like.dtype, device=like.device, generator=generator)
    return -torch.log1p(-random) / majorant
