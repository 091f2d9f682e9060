"""Ray marching through a box in steps of one length: the ground truth of volumes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from luxel.render.fields.drawing.rays import clip_to_box

BLOCK = 16  # steps between removals of rays that have ended
SAMPLES = 1 << 20  # positions at a time
DARK = 1e-4  # transmittance at which a ray ends


def march_uniform(
    sample: Callable[[Tensor], Tensor],
    origins: Tensor,
    directions: Tensor,
    low: Tensor,
    high: Tensor,
    step: float,
    background: Tensor,
) -> Tensor:
    """Colours of rays through a volume that emits and absorbs (Max 1995, equation 6, with constant sunlight of 1).

    A ray is sampled in the middle of steps of one length from where it enters the box; a step of density s (per unit of
    length) and albedo a gives T (1 - exp(-s step)) a, where T is the transmittance before it. No gradients.

    Args:
        sample: density and albedo [S, 4] at world positions [S, 3] within the box.
        origins, directions: unit directions, [R, 3].
        low, high: corners of the box, [3].
        step: length of a step, world units.
        background: colour behind the volume, [3].

    Returns:
        [R, 3].
    """
    colours = torch.empty_like(directions)
    with torch.no_grad():
        for part in torch.arange(len(directions), device=directions.device).split(SAMPLES // BLOCK):
            colours[part] = _march(sample, origins[part], directions[part], low, high, step, background)
    return colours


def _march(
    sample: Callable[[Tensor], Tensor],
    origins: Tensor,
    directions: Tensor,
    low: Tensor,
    high: Tensor,
    step: float,
    background: Tensor,
) -> Tensor:
    enter, leave = clip_to_box(origins, directions, low, high)
    colour = torch.zeros_like(directions)
    through = torch.ones_like(enter)
    middle = torch.arange(BLOCK, device=enter.device, dtype=enter.dtype) + 0.5
    alive = (leave > enter).nonzero()[:, 0]
    distance = enter[alive]
    while len(alive):
        at = distance[:, None] + step * middle  # [A, BLOCK]
        position = origins[alive, None] + at[..., None] * directions[alive, None]
        inside = at < leave[alive, None]
        values = sample(position.reshape(-1, 3).clamp(low, high)).reshape(*at.shape, 4)
        passed = torch.exp(-step * torch.where(inside, values[..., 0], 0.0))
        before = torch.cumprod(torch.cat([through[alive, None], passed], 1), 1)
        weight = before[:, :-1] * (1 - passed)
        colour[alive] += (weight[..., None] * values[..., 1:]).sum(1)
        through[alive] = before[:, -1]
        distance = distance + BLOCK * step
        goes_on = (distance < leave[alive]) & (before[:, -1] > DARK)
        alive, distance = alive[goes_on], distance[goes_on]
    return colour + through[:, None] * background
