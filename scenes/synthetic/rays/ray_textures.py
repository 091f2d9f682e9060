"""Textures of surfaces in torch: masonry, tiles, planks, stones, print, windows, stripes, marble, paint and clouds.

All are functions of the position on the surface, band-limited to the footprint of a ray: smaller detail fades
to its mean, and edges are blurred to its width. Textures therefore look alike from near and far, and alias little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

BRICKS, TILES, PLANKS, STONES, PRINT, WINDOWS, STRIPES, MARBLE, PLAIN, CLOUDS = range(10)
LATTICE = 64  # cells after which the noise repeats
ENTRIES = 4096  # of the table of random numbers of cells
GLYPHS, ROWS, COLUMNS = 40, 7, 5  # of the invented alphabet, in dots


@dataclass(frozen=True)
class Surface:
    """How a solid looks.

    Args:
        pattern: BRICKS to CLOUDS.
        cell: size of a brick, tile, letter and so on, in object units.
        colours: three, sRGB in [0, 1]; the second varies the first, the third is that of joints, ink and frames.
        gloss: height of the highlight, 0..1.
        grain: contrast of the fine noise over all of it, 0..1.
    """

    pattern: int
    cell: float
    colours: tuple[tuple[float, float, float], ...]
    gloss: float = 0.1
    grain: float = 0.35


@dataclass
class Spots:
    """Surface points to colour: R of them.

    Args:
        point: in object space, [3, R].
        uv: along the surface, object units, [2, R].
        extent: half of the extents of uv on boxes, [2, R].
        footprint: of the ray, object units, [R].
        cell: of the surface, [R].
        seed: of the solid, int64 [R].
    """

    point: Tensor
    uv: Tensor
    extent: Tensor
    footprint: Tensor
    cell: Tensor
    seed: Tensor

    def chosen(self, index: Tensor) -> Spots:
        """The points at some indices, int64 [Q]."""
        return Spots(*(getattr(self, name)[..., index] for name in self.__dataclass_fields__))


class Textures:
    """The random numbers of the textures, and the patterns.

    Args:
        seed: of the random numbers.
        device: of all tensors.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        random = np.random.default_rng([seed, 11])
        volume = random.uniform(-1, 1, (2, LATTICE, LATTICE, LATTICE)).astype(np.float32)
        self._volume = torch.from_numpy(np.pad(volume, [(0, 0)] + [(0, 1)] * 3, "wrap"))[None].to(device)
        self._cells = torch.from_numpy(random.uniform(0, 1, (3, ENTRIES)).astype(np.float32)).to(device)
        self._glyphs = torch.from_numpy(_alphabet(random)).to(device)
        self._patterns = (
            self._bricks,
            self._tiles,
            self._planks,
            self._stones,
            self._print,
            self._windows,
            self._stripes,
            self._marble,
            self._plain,
            self._clouds,
        )

    def __call__(self, pattern: Tensor, colours: Tensor, grain: Tensor, spots: Spots) -> Tensor:
        """Albedo of surface points.

        Args:
            pattern: of each point, [R].
            colours: of its surface, [3, 3, R]: by colour, then channel.
            grain: contrast of the fine noise, [R].
            spots: the points.

        Returns:
            sRGB in [0, 1], [3, R].
        """
        vary, joint = torch.zeros_like(grain), torch.zeros_like(grain)
        for kind, paint in enumerate(self._patterns):
            index = (pattern == kind).nonzero()[:, 0]
            if len(index):
                vary[index], joint[index] = paint(spots.chosen(index))
        a, b, c = colours
        mixed = a + (b - a) * vary
        mixed = mixed + (c - mixed) * joint
        rough = self.noise(spots.point / 0.5, spots.footprint / 0.5, spots.seed, octaves=7, fall=0.95)
        tint = torch.stack([rough[0], rough[0] + 0.1 * rough[1], rough[0] - 0.12 * rough[1]])
        return (mixed * (1 + grain * tint.clamp(-1.6, 1.6))).clamp(0, 1)

    def noise(
        self, point: Tensor, footprint: Tensor, seed: Tensor, *, octaves: int = 4, fall: float = 0.6
    ) -> Tensor:
        """Two value noises of about unit variance, each of several octaves from wavelength 1 down, [2, R].

        Args:
            point: [3, R].
            footprint: below which detail fades, [R].
            seed: of the solid, [R].
            octaves: number of octaves, each with about half the wavelength of the one before.
            fall: amplitude of an octave relative to the one before.
        """
        shift = torch.stack([(seed * k % 61).float() for k in (7, 13, 29)])
        total, power, weight = torch.zeros_like(point[:2]), 0.0, 1.0
        for octave in range(octaves):
            scale = 2.03**octave
            q = point * scale + shift + 11.7 * octave
            full = torch.floor(q)
            part = q - full
            q = torch.remainder(full, LATTICE) + part * part * (3 - 2 * part)
            grid = (q * (2 / LATTICE) - 1).T[None, None, None]
            sample = F.grid_sample(self._volume, grid, mode="bilinear", align_corners=True)[0, :, 0, 0]
            total += sample * (weight * _visible(1 / scale, footprint))
            power, weight = power + weight**2, weight * fall
        return total * (2.2 / math.sqrt(power))

    def _random(self, column: Tensor, row: Tensor, seed: Tensor) -> Tensor:
        """Three uniform random numbers of cells of a grid, [3, R]."""
        index = column.long() * 7919 + row.long() * 104729 + seed * 1299709
        index = index ^ (index >> 7)
        return self._cells[:, index % ENTRIES]

    def _bricks(self, s: Spots) -> tuple[Tensor, Tensor]:
        u, v = s.uv[0] / s.cell, s.uv[1] / (0.45 * s.cell)
        row = torch.floor(v)
        u = u + 0.5 * (row % 2) + 0.1 * self._random(row, row, s.seed)[2]
        column = torch.floor(u)
        edge = torch.minimum(_edge(u) * s.cell, _edge(v) * 0.45 * s.cell)
        joint = _line(edge, 0.035 * s.cell, s.footprint)
        return self._random(column, row, s.seed)[0] * _visible(s.cell, s.footprint), joint

    def _tiles(self, s: Spots) -> tuple[Tensor, Tensor]:
        u, v = s.uv / s.cell
        column, row = torch.floor(u), torch.floor(v)
        fade = _visible(s.cell, s.footprint)
        checker = 0.5 + (((column + row) % 2) - 0.5) * fade
        vary = 0.8 * checker + 0.2 * self._random(column, row, s.seed)[0]
        return vary, _line(torch.minimum(_edge(u), _edge(v)) * s.cell, 0.02 * s.cell, s.footprint)

    def _planks(self, s: Spots) -> tuple[Tensor, Tensor]:
        v = s.uv[1] / s.cell
        row = torch.floor(v)
        u = s.uv[0] / (6 * s.cell) + self._random(row, row, s.seed)[1]
        column = torch.floor(u)
        edge = torch.minimum(_edge(u) * 6 * s.cell, _edge(v) * s.cell)
        lengths = torch.stack([s.uv[0] / (2.5 * s.cell), s.uv[1] * 6 / s.cell, column * 3.7 + row * 1.3])
        grain = self.noise(lengths, s.footprint * 6 / s.cell, s.seed, octaves=3)[0]
        vary = 0.5 * self._random(column, row, s.seed)[0] + 0.25 + 0.3 * grain
        return vary.clamp(0, 1), _line(edge, 0.025 * s.cell, s.footprint)

    def _stones(self, s: Spots) -> tuple[Tensor, Tensor]:
        """Cells of the points nearest to jittered points of a grid (Worley 1996), with joints between them."""
        u, v = s.uv / s.cell
        column, row = torch.floor(u), torch.floor(v)
        least = torch.full_like(u, 9.0)
        second, own = least.clone(), torch.zeros_like(u)
        for i in (-1, 0, 1):
            for j in (-1, 0, 1):
                x, y = column + i, row + j
                right, down, shade = self._random(x, y, s.seed)
                du, dv = x + 0.1 + 0.8 * right - u, y + 0.1 + 0.8 * down - v
                away = torch.sqrt(du * du + dv * dv)
                nearer = away < least
                second = torch.where(nearer, least, torch.minimum(second, away))
                own = torch.where(nearer, shade, own)
                least = torch.minimum(least, away)
        fade = _visible(s.cell, s.footprint)
        return 0.5 + (own - 0.5) * fade, _line(0.5 * (second - least) * s.cell, 0.05 * s.cell, s.footprint)

    def _print(self, s: Spots) -> tuple[Tensor, Tensor]:
        """A page: a heading of large letters, a coloured band and lines of small letters."""
        u, v = s.uv[0] + s.extent[0], s.extent[1] - s.uv[1]  # from the upper left corner
        wide, high = 2 * s.extent[0], 2 * s.extent[1]
        margin = 0.06 * wide
        inside = (u > margin) & (u < wide - margin) & (v > margin) & (v < high - margin)
        heading = v < 0.24 * high
        size = torch.where(heading, 0.17 * high, s.cell)
        band = (v > 0.27 * high) & (v < 0.31 * high) & inside
        top = torch.where(heading, margin, 0.35 * high)
        ink = self._letters(u - margin, v - top, size, s) * (inside & (v > top))
        return band.float(), ink

    def _letters(self, u: Tensor, v: Tensor, size: Tensor, s: Spots) -> Tensor:
        """Coverage by ink of lines of letters of a height; the mean where the footprint exceeds the dots."""
        x, y = u / (0.8 * size), v / (1.5 * size)
        column, row = torch.floor(x), torch.floor(y)
        i, j = ((x - column) * (COLUMNS + 1)).long(), ((y - row) * 1.5 * ROWS).long()
        letter, gap, _ = self._random(column, row, s.seed)
        glyph, space = (letter * GLYPHS).long(), gap < 0.18
        index = (glyph * ROWS + j.clamp(0, ROWS - 1)) * COLUMNS + i.clamp(0, COLUMNS - 1)
        dot = self._glyphs[index] * ((i < COLUMNS) & (j < ROWS) & ~space)
        return 0.25 + (dot - 0.25) * _visible(size / 4, s.footprint)

    def _windows(self, s: Spots) -> tuple[Tensor, Tensor]:
        """A grid of panes with frames; each pane mirrors a sky of its own brightness."""
        u, v = (s.uv + s.extent) / s.cell
        column, row = torch.floor(u), torch.floor(v)
        frame = _line(torch.minimum(_edge(u), _edge(v)) * s.cell, 0.07 * s.cell, s.footprint)
        rise = v - row
        return (0.6 * rise + 0.4 * self._random(column, row, s.seed)[0]).clamp(0, 1), frame

    def _stripes(self, s: Spots) -> tuple[Tensor, Tensor]:
        u, v = s.uv / s.cell
        x = u + 0.5 * v
        fade = _visible(s.cell, s.footprint)
        band = torch.floor(x)
        wide = _line((_edge(0.5 * x) - 0.25) * 2 * s.cell, torch.zeros_like(u), s.footprint)
        return self._random(band, band * 0, s.seed)[0] * fade, 0.5 + (wide - 0.5) * fade

    def _marble(self, s: Spots) -> tuple[Tensor, Tensor]:
        rough = self.noise(s.point / s.cell, s.footprint / s.cell, s.seed, octaves=6)
        vein = 1 - (rough[1].abs() / (0.06 + s.footprint / s.cell)).clamp(0, 1)
        return torch.sigmoid(5 * rough[0]), 0.8 * vein

    def _plain(self, s: Spots) -> tuple[Tensor, Tensor]:
        rough = self.noise(s.point / s.cell, s.footprint / s.cell, s.seed, octaves=2)
        return torch.sigmoid(2 * rough[0]), torch.zeros_like(rough[0])

    def _clouds(self, s: Spots) -> tuple[Tensor, Tensor]:
        stretched = s.point / s.cell * s.point.new_tensor([[1.0], [1.0], [2.2]])
        cloud = self.noise(stretched, s.footprint / s.cell, s.seed, octaves=5, fall=0.5)[0]
        height = (s.point[2] / (3 * s.cell)).clamp(0, 1)
        return 1 - height, torch.sigmoid(4 * (cloud - 0.35)) * 0.85


def _alphabet(random: np.random.Generator) -> np.ndarray:
    """Letters of two to four strokes along rows and columns of dots, float32 [GLYPHS * ROWS * COLUMNS]."""
    glyphs = np.zeros((GLYPHS, ROWS, COLUMNS), np.float32)
    for glyph in glyphs:
        glyph[:, random.choice([0, 0, 2])] = 1
        for row in random.choice([0, 3, ROWS - 1], random.integers(1, 4), replace=False):
            glyph[row, : random.integers(3, COLUMNS + 1)] = 1
        if random.uniform() < 0.6:
            begin = random.choice([0, 3])
            glyph[begin : begin + random.integers(4, ROWS + 1), COLUMNS - 1] = 1
    return glyphs.ravel()


def _edge(x: Tensor) -> Tensor:
    """Distance to the nearest integer."""
    return (x - torch.round(x)).abs()


def _line(distance: Tensor, half: Tensor, footprint: Tensor) -> Tensor:
    """Coverage of a footprint by a line at a distance; half width 0: by the half plane of distances below 0."""
    cover = ((half - distance) / footprint + 0.5).clamp(0, 1)
    return cover * torch.where(half > 0, (2 * half / footprint).clamp(0, 1), 1)


def _visible(length: Tensor | float, footprint: Tensor) -> Tensor:
    """Remaining contrast of detail of a length: 1 above three footprints, 0 below one."""
    return (0.5 * (length / footprint - 1)).clamp(0, 1)
