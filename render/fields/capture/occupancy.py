"""An occupancy grid of a box, updated while its field is trained, so that rays skip empty cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_rays import Region, pack_cells, unpack_cells

DECAY = 0.95
# At this density a step of a 1024th of the diagonal absorbs 1 % of the light.
THRESHOLD = 0.01 * 1024 / math.sqrt(3)
WARM_UP = 256  # steps in which updates evaluate all cells
ALL_OBSERVED = (
    1024  # steps after which cascades use the threshold alone: what is hidden retains its first density
)
EVERY = 16  # steps between updates; more often in the first 240 steps
BLOCK = 4  # cells along the sides of what `observed_cells` tests together
ROWS = 1 << 20  # positions at which the field is evaluated at a time


class Occupancy(nn.Module):
    """A grid of recent densities, and a bit for each cell whether its density is above a threshold.

    Müller et al. 2022, "Instant Neural Graphics Primitives", appendix E.2.

    Args:
        resolution: G, cells along each axis of the unit cube, a multiple of 4.
        cascades: K grids, the first of the unit cube, each of the others of a cube twice as large around the
        same centre.

    Attributes:
        observed: which cells can be occupied, bool [K, G, G, G], indexed [cascade, z, y, x]; None: all.
        densities: per cell the greatest density found so far, decaying at each update, [K G^3], the first axis fastest.
        bits: whether they are above the threshold, as `luxel.render.ops.field.march_rays.pack_cells` has them, uint8
            [K G^3 / 8]; all set at first.

    Raises:
        ValueError: the resolution is not a multiple of 4 in 4 to 1024.
    """

    densities: Tensor
    bits: Tensor

    def __init__(self, resolution: int = 128, cascades: int = 1) -> None:
        super().__init__()
        if not 4 <= resolution <= 1024 or resolution % 4:
            raise ValueError(f"Occupancy: resolution must be a multiple of 4, 4 to 1024, got {resolution}")
        self.resolution, self.cascades = resolution, cascades
        self.observed: Tensor | None = None
        self._above: tuple[object, Tensor] | None = None
        self.register_buffer("densities", torch.zeros(cascades * resolution**3))
        self.register_buffer("bits", torch.full((cascades * resolution**3 // 8,), 255, dtype=torch.uint8))

    @staticmethod
    def due(step: int) -> bool:
        """Whether there is an update after step number ``step`` (0 is the first)."""
        return step % min(EVERY, 1 + step // EVERY) == 0

    @torch.no_grad()
    def update(self, step: int, density: Callable[[Tensor], Tensor], seed: int = 0) -> None:
        """Evaluates cells again: all of them at first, later a quarter of them at random and as many occupied ones.

        Nothing waits for the device.

        Args:
            step: number of the step after which the update runs; with ``seed`` it determines the random numbers.
            density: of positions relative to the unit cube, [N, 3] to [N], in units of 1 / the side of the box.
            seed: of the random numbers.
        """
        device = self.densities.device
        generator = torch.Generator(device).manual_seed(((seed << 32) + step) % 2**64)
        everything = step < WARM_UP
        cells = None if everything else self._random_cells(generator)
        self.densities.mul_(DECAY)
        count = len(self.densities) if cells is None else len(cells)
        for first in range(0, count, ROWS):
            last = min(first + ROWS, count)
            part = torch.arange(first, last, device=device) if cells is None else cells[first:last]
            values = density(self._positions(part, generator)).to(self.densities)
            if cells is None:
                torch.maximum(self.densities[first:last], values, out=self.densities[first:last])
            else:
                self.densities.scatter_reduce_(0, part, values, "amax")
        self.refresh(self.cascades > 1 and step >= ALL_OBSERVED)

    def refresh(self, alone: bool = False) -> None:
        """Sets the bits by the densities: above the threshold, or (unless ``alone``) above the mean where that is less.

        The mean is that of the cells that can be occupied. ``alone``, the threshold halves from grid to grid, as steps
        are longer farther out.
        """
        g, part = self.resolution, len(self.bits) // self.cascades
        if self.observed is not None:
            self.densities.mul_(self.observed.flatten())
        for k, densities in enumerate(self.densities.view(self.cascades, g, g, g)):
            mean = (
                densities.mean()
                if self.observed is None
                else densities.sum() / self.observed[k].sum().clamp_min(1)
            )
            least = THRESHOLD / 2**k if alone else mean.clamp_max(THRESHOLD)
            self.bits[k * part : (k + 1) * part].copy_(pack_cells(densities > least))

    def bits_above(self, factor: float) -> Tensor:
        """The bits of cells that are also denser than the threshold times a factor; `bits` itself up to a factor of 1.

        The threshold halves from grid to grid, as in `refresh`. The result is stored until the densities change.
        """
        if factor <= 1:
            return self.bits
        key = factor, self.bits.data_ptr(), self.bits._version, self.densities._version
        if self._above is None or self._above[0] != key:
            grids = self.densities.view(self.cascades, *3 * [self.resolution])
            dense = [pack_cells(grid > factor * THRESHOLD / 2**k) for k, grid in enumerate(grids)]
            self._above = key, torch.cat(dense) & self.bits
        return self._above[1]

    def restrict(self, observed: Tensor) -> None:
        """Lets cells be occupied only where ``observed`` is set, bool [K, G, G, G], indexed [cascade, z, y, x]."""
        self.observed = observed.to(self.bits.device)
        self.bits &= torch.cat([pack_cells(grid) for grid in self.observed])

    def share(self) -> Tensor:
        """The share of cells that are occupied, a scalar on the device."""
        return self.occupied().float().mean()

    def occupied(self) -> Tensor:
        """Which cells are occupied, bool [G, G, G], indexed [z, y, x]; with cascades [K, G, G, G]."""
        if self.cascades == 1:
            return unpack_cells(self.bits)
        return torch.stack([unpack_cells(bits) for bits in self.bits.view(self.cascades, -1)])

    def _random_cells(self, generator: torch.Generator) -> Tensor:
        """Cells at random, then occupied ones at random."""
        cells, device = len(self.densities), self.densities.device
        quarter = max(1, cells // 4 // self.cascades * min(self.cascades, 2))
        anywhere = torch.randint(cells, (quarter,), device=device, generator=generator)
        upto = self.occupied().flatten().cumsum(0, dtype=torch.int32)
        number = torch.rand(quarter, device=device, generator=generator) * upto[-1]
        occupied = torch.searchsorted(upto, number.to(torch.int32), right=True)
        return torch.cat([anywhere, occupied.clamp_max(cells - 1)])

    def _positions(self, cells: Tensor, generator: torch.Generator) -> Tensor:
        """A random position in each cell, relative to the unit cube, [N, 3]."""
        g = self.resolution
        side = 2.0 ** (cells // g**3)[:, None] if self.cascades > 1 else None
        cells = cells % g**3
        corner = torch.stack([cells % g, cells // g % g, cells // (g * g)], -1)
        within = torch.rand(corner.shape, device=cells.device, generator=generator)
        position = (corner + within) / g
        return position if side is None else (position - 0.5) * side + 0.5


def observed_cells(region: Region, cameras: Sequence[Camera], fewest: int, device: torch.device) -> Tensor:
    """Cells that lie in the views of at least ``fewest`` cameras, between the near plane and infinity.

    Nothing that is not observed can be learnt. Blocks of 4 x 4 x 4 cells are tested together, by the sphere around
    them: cells near to the border of a view count as in it.

    Args:
        region: boxes, near, and resolution of the occupancy.
        cameras: one or more pinholes.
        fewest: number of cameras that must see a cell.
        device: of the result.

    Returns:
        bool [K, G, G, G], indexed [cascade, z, y, x].
    """
    along = region.resolution // BLOCK
    low, high = (torch.tensor(region.box[i : i + 3], device=device, dtype=torch.float32) for i in (0, 3))
    middle, sides = (low + high) / 2, high - low
    centre = (torch.arange(along, device=device) + 0.5) / along - 0.5
    grid = torch.stack(torch.meshgrid(centre, centre, centre, indexing="ij"), -1).flip(-1).reshape(-1, 3)
    observed: list[Tensor] = []
    for k in range(region.cascades):
        points = middle + 2.0**k * sides * grid
        radius = 2.0**k / along * float(sides.norm()) / 2
        count = torch.zeros(len(points), dtype=torch.int32, device=device)
        for camera in cameras:
            count += in_view(points, radius, camera, region.near)
        blocks = (count >= fewest).view(along, along, along)
        for axis in range(3):
            blocks = blocks.repeat_interleave(BLOCK, axis)
        observed.append(blocks)
    return torch.stack(observed)


def in_view(points: Tensor, radius: float, camera: Camera, near: float) -> Tensor:
    """Whether spheres reach into the pyramid of a camera's view, [N].

    Args:
        points: their centres, [N, 3].
        radius: of all, 0 for points.
        camera: a pinhole.
        near: depth at which the pyramid begins.
    """
    pose = camera.world_to_cam.to(points)
    local = points @ pose[:3, :3].T + pose[:3, 3]
    x, y, z = local.unbind(-1)
    fx, fy, cx, cy = (float(number) for number in camera.intrinsics)
    inside = z > near - radius
    for across, focal, centre, size in ((x, fx, cx, camera.width), (y, fy, cy, camera.height)):
        for side, edge in (
            (-1.0, -centre / focal),
            (1.0, (size - centre) / focal),
        ):  # across / z of both edges
            inside &= side * (across - edge * z) <= radius * (1 + edge * edge) ** 0.5
    return inside
