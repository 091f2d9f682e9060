"""A synthetic image of any size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

BAND = {"cpu": 1 << 16, "cuda": 1 << 21}  # pixels that are made at a time, by device; 400 bytes for each
NOISE = 0.004  # standard deviation of a sensor


def landscape(width: int = 1024, height: int = 1024, seed: int = 0) -> np.ndarray:
    """A landscape with fine, aperiodic texture: sky with clouds, mountains, a reflecting lake, a meadow.

    Args:
        width, height: pixels.
        seed: of the noise.

    Returns:
        sRGB, uint8 [height, width, 3].
    """
    random = np.random.default_rng(seed)
    image = _rows(random, width, height, 0, height, torch.device("cpu")).numpy()
    image += random.normal(0, NOISE, image.shape)
    return (image.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def landscape_bands(
    width: int, height: int, seed: int = 0, device: torch.device | str = "cpu"
) -> Iterator[np.ndarray]:
    """`landscape`, a few rows [R, width, 3] at a time, in memory that does not grow with its height.

    It has the same content; only the noise of the sensor is rendered anew in every band.

    Args:
        width, height: pixels.
        seed: of the noise.
        device: that computes it.
    """
    device = torch.device(device)
    generator = torch.Generator(device).manual_seed(seed)
    rows = max(1, BAND[device.type] // width)
    for top in range(0, height, rows):
        count = min(rows, height - top)
        image = _rows(np.random.default_rng(seed), width, height, top, count, device).float()
        image += NOISE * torch.randn(image.shape, generator=generator, device=device)
        yield (image.clamp_(0, 1).mul_(255).add_(0.5)).to(torch.uint8).cpu().numpy()


def _rows(
    random: np.random.Generator, width: int, height: int, top: int, rows: int, device: torch.device
) -> Tensor:
    """Some rows without noise, float64 [rows, width, 3]; the numbers that are drawn do not depend on which."""
    like = {"dtype": torch.float64, "device": device}
    y, x = torch.meshgrid(
        (torch.arange(top, top + rows, **like) + 0.5) / height,
        (torch.arange(width, **like) + 0.5) / height,
        indexing="ij",
    )
    horizon = 0.62
    mirrored = torch.where(y > horizon + 0.1, 2 * (horizon + 0.1) - y, y)
    ripple = 0.012 * (_fractal(random, x * 6, y * 60, 5) - 0.5) * (y > horizon + 0.1)
    across, up = x + ripple, mirrored + 4 * ripple
    clouds = (3.2 * _fractal(random, across * 3, up * 7, 9) - 1.5).clamp(0, 1)[..., None]
    low, high = torch.tensor([0.25, 0.45, 0.78], **like), torch.tensor([0.85, 0.88, 0.9], **like)
    image = (low + (high - low) * up[..., None]) * (1 - clouds)
    image += torch.tensor([0.96, 0.94, 0.92], **like) * clouds
    for layer, (base, rough, colour) in enumerate(
        [(0.42, 0.34, (0.42, 0.47, 0.58)), (0.52, 0.26, (0.30, 0.34, 0.38)), (0.6, 0.14, (0.17, 0.26, 0.12))]
    ):
        ridge = base - rough * (_fractal(random, across * (2 + 2 * layer), 0 * up + layer, 8) - 0.4)
        rock = _fractal(random, across * 12 * (1 + layer), up * 16 * (1 + layer), 9, 0.72)
        snow = (6 * (ridge + 0.05 + 0.1 * rock - up)).clamp(0, 1)[..., None] * (layer == 0)
        ground = torch.tensor(colour, **like) * (0.45 + 1.1 * rock[..., None]) * (1 - snow) + 0.93 * snow
        inside = ((up - ridge) * height / 1.5).clamp(0, 1)[..., None]
        image = image * (1 - inside) + ground * inside
    water = ((y - horizon - 0.1) * height / 1.5).clamp(0, 1)[..., None]
    image *= 1 - water * (0.25 + 0.2 * y[..., None])
    grass = _fractal(random, x * 90, y * 30, 7, 0.75)[..., None]
    bank = 0.86 + 0.08 * (_fractal(random, x * 5, 0 * y, 8) - 0.5)
    near = ((y - bank) * height / 2).clamp(0, 1)[..., None]
    meadow = torch.tensor([0.34, 0.42, 0.14], **like) * (0.25 + 1.3 * grass)
    return image * (1 - near) + meadow * near


def _fractal(random: np.random.Generator, x: Tensor, y: Tensor, octaves: int, gain: float = 0.5) -> Tensor:
    """Fractal value noise (Perlin 1985) in [0, 1]; octaves halve the wavelength and scale the amplitude by ``gain``."""
    total, scale = torch.zeros_like(x), 0.0
    for octave in range(octaves):
        noise, shift = random.random((256, 256)), 256 * random.random(2)
        table = torch.from_numpy(noise).to(x.device).view(-1)
        u, v = x * 2**octave + float(shift[0]), y * 2**octave + float(shift[1])
        i, j = u.floor(), v.floor()
        s, t = (part * part * (3 - 2 * part) for part in (u - i, v - j))
        i, j = i.long(), j.long()
        i0, j0, i1, j1 = i & 255, j & 255, (i + 1) & 255, (j + 1) & 255
        top = table[i0 * 256 + j0] * (1 - s) + table[i1 * 256 + j0] * s
        bottom = table[i0 * 256 + j1] * (1 - s) + table[i1 * 256 + j1] * s
        total += gain**octave * (top * (1 - t) + bottom * t)
        scale += gain**octave
    return total / scale
