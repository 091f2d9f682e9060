"""A surface from depth maps: truncated signed distances on a sparse grid, and marching cubes of them.

Curless and Levoy 1996, "A Volumetric Method for Building Complex Models from Range Images"; only blocks of the grid
near the surfaces are retained, as Nießner et al. 2013, "Real-time 3D Reconstruction at Scale using Voxel Hashing".
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as nn
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.mesh.cube_cases import CORNERS
from luxel.render.mesh.marching_cubes import march_cells
from luxel.render.mesh.triangles import TriangleMesh

SIDE = 8  # grid points along a block
MARGIN = 4  # spacings on either side of a surface at which distances are retained
MIN_FACING = 0.05  # cosine: surfaces that are viewed from the side count little, but not nothing
CHUNK = {"cuda": 1 << 13, "cpu": 1 << 12}  # blocks that are worked on at a time
MOSTLY = (
    0.75  # share of the blocks in an image from which on all are worked on, as leaving some out costs copies
)
BYTES = SIDE**3 * 4 * 6  # of a block: distance, weight, hidden, colour
HIDDEN_BY = 16  # truncations: what is behind a surface by less is hidden by it
MIN_SEEN = (
    0.05  # of the maps that show or hide a point; less is behind gaps of the depth, where light leaks through
)


class FusedSurface(NamedTuple):
    """A surface with colours.

    Args:
        mesh: triangles, viewed from outside anticlockwise.
        colours: of the vertices, RGB in [0, 1], [V, 3].
    """

    mesh: TriangleMesh
    colours: Tensor


class DepthFusion:
    """Fuses depth maps into a surface; first `reserve` with each of them, then `add` with each.

    Args:
        low: lowest corner of the box in which there is a surface, world coordinates, [3].
        side: longest side of the box.
        resolution: spacings of the grid along it.
        device: of all work.

    Attributes:
        spacing: between grid points, capture units.
        truncation: distances beyond it count as it, capture units.
    """

    def __init__(self, low: Tensor, side: float, resolution: int, device: torch.device) -> None:
        if resolution < 1 or not side > 0:
            raise ValueError(f"resolution must be at least 1 and side above 0, got {resolution} and {side:g}")
        self.spacing, self.truncation = side / resolution, MARGIN * side / resolution
        self._low, self._device = low.to(device, torch.float32), device
        self._span = -(-(resolution + 1) // SIDE)  # blocks along an axis
        self._keys = torch.empty(0, dtype=torch.int64, device=device)
        self._distances = self._weights = self._hidden = self._colours = torch.empty(0, device=device)

    @property
    def blocks(self) -> int:
        """Number of blocks that are reserved, of `BYTES` bytes each."""
        return len(self._keys)

    def reserve(self, depth: Tensor, camera: Camera) -> None:
        """Reserves the blocks around what a depth map shows.

        Args:
            depth: along z in capture units, [H, W]; where it is not above 0 nothing is known.
            camera: of it.
        """
        rays, known = self._rays(depth, camera)
        z = depth[known].float()
        steps = torch.linspace(-self.truncation, self.truncation, 2 * MARGIN // (SIDE // 2) + 1)
        keys = [self._keys]
        for step in steps.tolist():
            points = rays * (z + step)[:, None] + camera.position.to(rays)
            at = ((points - self._low) / self.spacing / SIDE).floor().long()
            inside = ((at >= 0) & (at < self._span)).all(1)
            keys.append(self._key(at[inside]).unique())
        self._keys = torch.cat(keys).unique()
        self._distances = self._distances[:0]

    def add(self, depth: Tensor, rgb: Tensor, camera: Camera) -> None:
        """Adds a depth map to the blocks that are reserved, weighted by how straight it looks at its surfaces.

        Args:
            depth: as `reserve` got it. Between pixels it is interpolated where they are on one surface.
            rgb: colours in [0, 1], [H, W, 3].
            camera: of both.
        """
        if len(self._distances) != len(self._keys):
            points = len(self._keys), SIDE**3
            self._distances = torch.zeros(points, device=self._device)
            self._weights = torch.zeros(points, device=self._device)
            self._hidden = torch.zeros(points, device=self._device)
            self._colours = torch.zeros(*points, 3, device=self._device)
        depth = depth.to(self._device, torch.float32)
        facing = _facing(depth, camera)
        images = torch.stack([depth, facing, *rgb.to(depth).unbind(-1)])[None]
        matrix = camera.world_to_cam.to(self._device, torch.float32)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        size = torch.tensor([camera.width, camera.height], device=self._device)
        inner = self._inner() @ matrix[:3, :3].T  # of a block's points, from its first
        starts = (self._low + self.spacing * SIDE * self._blocks(self._keys)) @ matrix[:3, :3].T + matrix[
            :3, 3
        ]
        for rows in self._in_view(starts + inner.mean(0), camera):
            x = starts[rows, None] + inner
            z = x[..., 2]
            pixels = torch.stack([fx * x[..., 0] / z + cx, fy * x[..., 1] / z + cy], -1)
            sampled = [
                nn.grid_sample(images, 2 * pixels[None] / size - 1, mode, "zeros", align_corners=False)[0]
                for mode in ("bilinear", "nearest")
            ]
            one_surface = (sampled[0][0] - sampled[1][0]).abs() < self.truncation / 2
            shown, facing, *colour = torch.where(one_surface, *sampled)
            behind = (shown - z) / self.truncation
            distance = behind * facing
            known = (z > camera.near) & (sampled[1][0] > 0)
            self._hidden[rows] += known & (behind <= -1) & (behind > -HIDDEN_BY)
            counts = known & (behind > -1) & distance.isfinite()
            added = counts * facing.clamp(min=MIN_FACING, max=1)
            weight = self._weights[rows] + added
            self._weights[rows] = weight
            share = added / weight.clamp_min(MIN_FACING)  # of the new map in the mean
            self._distances[rows] += share * (distance.clamp(max=1).nan_to_num() - self._distances[rows])
            near = (share * (distance < 1))[..., None]
            self._colours[rows] += near * (torch.stack(colour, -1) - self._colours[rows])

    def surface(self, min_weight: float = MIN_FACING) -> FusedSurface:
        """The surface where the mean distance is 0, and where not nearly all maps have another closely in front of it.

        Args:
            min_weight: maps that must have looked straight at a point of the grid, or more that did at an angle; next
                to others there is no surface.
        """
        firsts = range(0, len(self._distances), CHUNK[self._device.type])
        parts = [self._crossing(first, min_weight) for first in firsts] or [self._nothing()]
        cells, corners, colours = (torch.cat(part) for part in zip(*parts, strict=True))
        points = self._span * SIDE
        crossed = march_cells(cells, corners, 0.0, (points, points))
        faces = torch.searchsorted(crossed.edges, crossed.triangles).to(torch.int32)
        low, high = colours[crossed.cells[:, None], crossed.ends].unbind(1)
        mixed = low + crossed.share[:, None] * (high - low)
        return FusedSurface(TriangleMesh(self._low + self.spacing * crossed.positions, faces), mixed)

    def _in_view(self, centres: Tensor, camera: Camera) -> list[slice] | list[Tensor]:
        """The blocks that a camera may see, some at a time: the others are next to its image or behind it.

        Args:
            centres: of all blocks, in the axes of the camera, [B, 3].
            camera: of an image.
        """
        fx, fy, cx, cy = camera.intrinsics.tolist()
        x, y, z = centres.unbind(1)
        reach = (SIDE - 1) * self.spacing * math.sqrt(3) / 2
        visible = z > camera.near - reach
        for along, f, c, end in ((x, fx, cx, camera.width), (y, fy, cy, camera.height)):
            low, high = c + 1, end + 1 - c  # a pixel of room on either side
            visible &= f * along + low * z > -reach * math.hypot(f, low)
            visible &= high * z - f * along > -reach * math.hypot(f, high)
        rows, chunk = visible.nonzero()[:, 0], CHUNK[self._device.type]
        if len(rows) < MOSTLY * len(visible):
            return list(rows.split(chunk))
        return [slice(first, first + chunk) for first in range(0, len(visible), chunk)]

    def _rays(self, depth: Tensor, camera: Camera) -> tuple[Tensor, Tensor]:
        """Rays of the pixels of known depth, of length 1 along z, in world axes [P, 3]; and which these are, [H, W]."""
        known = (depth > 0) & depth.isfinite()
        rows, columns = known.nonzero().unbind(1)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        x, y = (columns + 0.5 - cx) / fx, (rows + 0.5 - cy) / fy
        rays = torch.stack([x, y, torch.ones_like(x)], -1).to(self._device)
        return rays @ camera.world_to_cam[:3, :3].to(rays), known

    def _key(self, blocks: Tensor) -> Tensor:
        return (blocks[..., 0] * self._span + blocks[..., 1]) * self._span + blocks[..., 2]

    def _blocks(self, keys: Tensor) -> Tensor:
        """Places of blocks, [B, 3]."""
        span = self._span
        return torch.stack([keys // span**2, keys // span % span, keys % span], -1)

    def _inner(self) -> Tensor:
        """The points of a block, from its first, capture units [512, 3]."""
        along = torch.arange(SIDE, device=self._device)
        return self.spacing * torch.cartesian_prod(along, along, along)

    def _nothing(self) -> tuple[Tensor, Tensor, Tensor]:
        empty = torch.empty(0, 8, 3, device=self._device)
        return empty[:, 0].long(), empty[..., 0], empty

    def _crossing(self, first: int, min_weight: float) -> tuple[Tensor, Tensor, Tensor]:
        """The cells of some blocks that the surface crosses [M, 3], distances [M, 8] and colours [M, 8, 3] there."""
        keys = self._keys[first : first + CHUNK[self._device.type]]
        blocks, padded = self._blocks(keys), SIDE + 1
        values = torch.full((len(keys), *[padded] * 3), torch.nan, device=self._device)
        rows = torch.full_like(values, -1, dtype=torch.int64)  # of each point among those of all blocks
        numbers = torch.arange(SIDE**3, device=self._device).view(SIDE, SIDE, SIDE)
        for offset in itertools.product((0, 1), repeat=3):
            at = blocks + torch.tensor(offset, device=self._device)
            neighbours = self._key(at)
            slot = torch.searchsorted(self._keys, neighbours).clamp(max=len(self._keys) - 1)
            there = (self._keys[slot] == neighbours) & (at < self._span).all(1)
            source = tuple(slice(0, 1) if o else slice(None) for o in offset)
            target = tuple(slice(SIDE, None) if o else slice(0, SIDE) for o in offset)
            part = slot[:, None, None, None] * SIDE**3 + numbers[source]
            rows[(slice(None), *target)] = torch.where(there[:, None, None, None], part, -1)
        known = rows >= 0
        reserved = rows[known]
        weight, hidden = (one.view(-1)[reserved] for one in (self._weights, self._hidden))
        visible = (weight >= min_weight) & (weight >= MIN_SEEN * (weight + hidden))
        values[known] = torch.where(visible, self._distances.view(-1)[reserved], torch.nan)
        spans = [slice(None, -1), slice(1, None)]
        corners = torch.stack([values[(slice(None), *(spans[c] for c in corner))] for corner in CORNERS], -1)
        inside = (corners < 0).sum(-1)
        cells = ((inside > 0) & (inside < 8) & corners.isfinite().all(-1)).nonzero()
        of_block, within = cells[:, 0], cells[:, 1:]
        at = (within[:, None] + torch.tensor(CORNERS, device=self._device)).movedim(-1, 0)
        colours = self._colours.view(-1, 3)[rows[(of_block[:, None], *at)]]
        return SIDE * blocks[of_block] + within, corners[tuple(cells.T)], colours


def _facing(depth: Tensor, camera: Camera) -> Tensor:
    """What a step of 1 along z is from the surface at a pixel, 0 to 1 or a little more off the axis, [H, W].

    That is the ray of length 1 along z times the normal, from differences of neighbours: a distance along z times it is
    the distance from the plane of the surface. At steps of depth it is small.
    """
    fx, fy, cx, cy = camera.intrinsics.tolist()
    columns = torch.arange(depth.shape[1], device=depth.device) + 0.5
    rows = torch.arange(depth.shape[0], device=depth.device) + 0.5
    y, x = torch.meshgrid((rows - cy) / fy, (columns - cx) / fx, indexing="ij")
    rays = torch.stack([x, y, torch.ones_like(x)], -1)
    points = torch.where(depth > 0, depth, torch.nan)[..., None] * rays
    across, down = _slope(points, 1), _slope(points, 0)
    normals = nn.normalize(torch.linalg.cross(across, down), dim=-1)
    return (normals * rays).sum(-1).abs().nan_to_num(0.0)


def _slope(points: Tensor, dim: int) -> Tensor:
    """Differences of neighbours along rows or columns, of those on either side where both are known, [H, W, 3]."""
    steps = points.diff(dim=dim)
    gap = torch.full_like(points.narrow(dim, 0, 1), torch.nan)
    before, after = torch.cat([gap, steps], dim), torch.cat([steps, gap], dim)
    both = before + after
    return torch.where(both.isfinite(), both, torch.where(after.isfinite(), after, before))
