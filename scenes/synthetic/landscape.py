"""A synthetic photograph."""

from __future__ import annotations

import numpy as np


def landscape(width: int = 1024, height: int = 1024, seed: int = 0) -> np.ndarray:
    """A landscape with fine, aperiodic texture: sky with clouds, mountains, a reflecting lake, a meadow.

    Args:
        width, height: pixels.
        seed: of the noise.

    Returns:
        sRGB, uint8 [height, width, 3].
    """
    random = np.random.default_rng(seed)
    y, x = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / height, indexing="ij")
    horizon = 0.62
    mirrored = np.where(y > horizon + 0.1, 2 * (horizon + 0.1) - y, y)
    ripple = 0.012 * (_fractal(random, x * 6, y * 60, 5) - 0.5) * (y > horizon + 0.1)
    across, up = x + ripple, mirrored + 4 * ripple
    clouds = np.clip(3.2 * _fractal(random, across * 3, up * 7, 9) - 1.5, 0, 1)[..., None]
    blue = np.array([0.25, 0.45, 0.78]) + (np.array([0.85, 0.88, 0.9]) - [0.25, 0.45, 0.78]) * up[..., None]
    image = blue * (1 - clouds) + np.array([0.96, 0.94, 0.92]) * clouds
    for layer, (base, rough, colour) in enumerate(
        [(0.42, 0.34, (0.42, 0.47, 0.58)), (0.52, 0.26, (0.30, 0.34, 0.38)), (0.6, 0.14, (0.17, 0.26, 0.12))]
    ):
        ridge = base - rough * (_fractal(random, across * (2 + 2 * layer), 0 * up + layer, 8) - 0.4)
        rock = _fractal(random, across * 12 * (1 + layer), up * 16 * (1 + layer), 9, 0.72)
        snow = np.clip(6 * (ridge + 0.05 + 0.1 * rock - up), 0, 1)[..., None] * (layer == 0)
        ground = np.array(colour) * (0.45 + 1.1 * rock[..., None]) * (1 - snow) + 0.93 * snow
        inside = np.clip((up - ridge) * height / 1.5, 0, 1)[..., None]
        image = image * (1 - inside) + ground * inside
    water = np.clip((y - horizon - 0.1) * height / 1.5, 0, 1)[..., None]
    image *= 1 - water * (0.25 + 0.2 * y[..., None])
    grass = _fractal(random, x * 90, y * 30, 7, 0.75)[..., None]
    bank = 0.86 + 0.08 * (_fractal(random, x * 5, 0 * y, 8) - 0.5)
    near = np.clip((y - bank) * height / 2, 0, 1)[..., None]
    image = image * (1 - near) + np.array([0.34, 0.42, 0.14]) * (0.25 + 1.3 * grass) * near
    image += random.normal(0, 0.004, image.shape)  # sensor noise
    return (image.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def _fractal(
    random: np.random.Generator, x: np.ndarray, y: np.ndarray, octaves: int, gain: float = 0.5
) -> np.ndarray:
    """Fractal value noise (Perlin 1985) in [0, 1]; octaves halve the wavelength and scale the amplitude by ``gain``."""
    total, scale = np.zeros_like(x), 0.0
    for octave in range(octaves):
        table, shift = random.random((256, 256)), 256 * random.random(2)
        u, v = x * 2**octave + shift[0], y * 2**octave + shift[1]
        i, j = np.floor(u).astype(np.int64), np.floor(v).astype(np.int64)
        s, t = (part * part * (3 - 2 * part) for part in (u - i, v - j))
        i0, j0, i1, j1 = i % 256, j % 256, (i + 1) % 256, (j + 1) % 256
        top = table[i0, j0] * (1 - s) + table[i1, j0] * s
        bottom = table[i0, j1] * (1 - s) + table[i1, j1] * s
        total += gain**octave * (top * (1 - t) + bottom * t)
        scale += gain**octave
    return total / scale
