"""Front-to-back alpha blending of the splats of one tile (Kerbl et al. 2023, eq. 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.reference.raster.bin_splats import TILE

MIN_ALPHA = 1 / 255  # splats fainter than this at a pixel are skipped
MIN_TRANSMITTANCE = 1e-4  # a pixel ends before it would fall to this


class Blended(NamedTuple):
    """The result of blending the splats of a tile at P pixels."""

    image: Tensor  # [P, D] sum of weight times value, no background
    transmittance: Tensor  # [P] what is left for the background
    median_depth: Tensor  # [P] depth of the splat at which transmittance falls to 1/2, 0 where none does
    count: Tensor  # [P] int32, splats that contributed
    margin: Tensor  # [P] least relative distance of a compared value from its threshold; no gradient


def blend_gaussians_reference(
    pixels: Tensor,
    mean2d: Tensor,
    conic: Tensor,
    opacity: Tensor,
    depth: Tensor,
    values: Tensor,
    *,
    max_alpha: float = 0.99,
    chunk: int = 4096,
) -> Blended:
    """Blends M splats, nearest first, at P pixels.

    image = sum_i T_i alpha_i value_i with T_i = prod_{j<i} (1 - alpha_j) and
    alpha_i = min(max_alpha, opacity exp(-power)). No gradient where alpha is capped.

    Args:
        pixels: centres, px, [P, 2].
        mean2d, conic, opacity, depth: the splats, [M, 2], [M, 3], [M], [M].
        values: what is blended, [M, D].
        max_alpha: cap of alpha, at most 1.
        chunk: splats taken at a time, which bounds the memory (P x chunk).
    """

    def alpha(part: slice) -> tuple[Tensor, Tensor]:
        dx, dy = (pixels[:, None] - mean2d[None, part]).unbind(-1)
        a, b, c = conic[part].unbind(-1)
        power = (a * dx * dx + c * dy * dy) / 2 + b * dx * dy
        return opacity[part] * (-power).exp(), power >= 0

    return blend_reference(alpha, depth, values, pixels, max_alpha=max_alpha, chunk=chunk)


def blend_reference(
    alpha_of: Callable[[slice], tuple[Tensor, ...]],
    depth: Tensor | Callable[[slice], Tensor],
    values: Tensor | Callable[[slice], Tensor],
    pixels: Tensor,
    *,
    max_alpha: float,
    chunk: int,
    count: int | None = None,
    channels: int | None = None,
) -> Blended:
    """Blends M splats of any primitive, nearest first, at P pixels.

    Args:
        alpha_of: given which splats, their alpha before the cap and whether it is valid, [P, m] each; and optionally
            the relative distance of a compared value of their own from its threshold.
        depth, values: the splats, [M], [M, D]; or functions that give those at the pixels, [P, m], [P, m, D].
        pixels: centres, px, [P, 2].
        max_alpha: cap of alpha, at most 1; no gradient where it holds.
        chunk: splats taken at a time.
        count, channels: M and D, where depth and values are functions.
    """
    left = torch.ones_like(pixels[:, 0])
    count = depth.shape[0] if isinstance(depth, Tensor) else count
    channels = values.shape[1] if isinstance(values, Tensor) else channels
    assert count is not None and channels is not None, "functions do not say how many there are"
    image = pixels.new_zeros(pixels.shape[0], channels)
    median, margin = torch.zeros_like(left), torch.full_like(left, torch.inf)
    contributors = torch.zeros_like(left, dtype=torch.int32)
    unmasked = left  # transmittance as if pixels never ended: once at 1e-4 it stays there
    for start in range(0, count, chunk):
        part = slice(start, start + chunk)
        raw, sound, *jumps = alpha_of(part)
        with torch.no_grad():
            visible = (raw >= MIN_ALPHA) & sound
            after = unmasked[:, None] * (1 - torch.where(visible, raw.clamp_max(max_alpha), 0.0)).cumprod(1)
            used = visible & (after > MIN_TRANSMITTANCE)
            before = torch.cat([unmasked[:, None], after[:, :-1]], 1)
            alive = before > MIN_TRANSMITTANCE
            crosses = used & (before > 0.5) & (after <= 0.5)
            here = depth[part].expand_as(raw) if isinstance(depth, Tensor) else depth(part)
            first = here.gather(1, crosses.int().argmax(1, keepdim=True))[:, 0]
            median = torch.where(crosses.any(1), first, median)
            contributors = contributors + used.sum(1, dtype=torch.int32)
            distance = torch.stack(
                [
                    torch.where(alive, (raw / MIN_ALPHA - 1).abs(), torch.inf),
                    torch.where(visible & alive, (raw / max_alpha - 1).abs(), torch.inf),
                    torch.where(visible & alive, (after / MIN_TRANSMITTANCE - 1).abs(), torch.inf),
                    torch.where(visible & alive, (after / 0.5 - 1).abs(), torch.inf),
                    *(torch.where(visible & alive, jump, torch.inf) for jump in jumps),
                ]
            )
            margin = margin.minimum(distance.amin((0, 2)))
            unmasked = after[:, -1]
        alpha = torch.where(used, raw.clamp_max(max_alpha), 0.0)
        inclusive = left[:, None] * (1 - alpha).cumprod(1)
        exclusive = torch.cat([left[:, None], inclusive[:, :-1]], 1)
        weights = exclusive * alpha
        if isinstance(values, Tensor):
            image = image + weights @ values[part]
        else:
            image = image + (weights[..., None] * values(part)).sum(1)
        left = inclusive[:, -1]
    return Blended(image, left, median, contributors, margin)


def tile_pixels(tile: int, width: int, like: Tensor) -> Tensor:
    """The pixel centres of a tile (row-major number) of an image, [TILE * TILE, 2], rows first."""
    row, column = divmod(tile, -(-width // TILE))
    along = torch.arange(TILE, device=like.device, dtype=like.dtype) + 0.5
    y, x = torch.meshgrid(along + row * TILE, along + column * TILE, indexing="ij")
    return torch.stack([x, y], -1).reshape(-1, 2)
