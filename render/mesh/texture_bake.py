"""Colours of a texture from images of a surface with depth."""

from __future__ import annotations

import torch
import torch.nn.functional as nn
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.mesh.texture_atlas import GUTTER, Texels, Unwrapped, covered_texels

CHUNK = 1 << 20  # texels that are worked on at a time
SHARPNESS = 2  # power of the resolution at which an image shows a texel: its share in the mean
MIN_FACING = 0.1  # cosine below which an image does not show a texel
BYTES = 96  # of a texel, all work included


class TextureBake:
    """The mean of what images show at each texel, mostly of those that show it at the highest resolution.

    Args:
        unwrapped: mesh with the positions of its vertices in the texture.
        colours: of its vertices, for texels that no image shows, RGB in [0, 1], [V, 3].
        pixels: along each side of the texture.
        tolerance: by which depth maps may differ from the mesh, units of the vertices.

    Attributes:
        texels: that the triangles cover.
    """

    def __init__(self, unwrapped: Unwrapped, colours: Tensor, pixels: int, tolerance: float) -> None:
        self.texels: Texels = covered_texels(unwrapped, pixels)
        self._mesh, self._colours = unwrapped.mesh, colours
        self._pixels, self._tolerance = pixels, tolerance
        self._normals = unwrapped.normals
        count, device = len(self.texels.index), colours.device
        self._sums = torch.zeros(count, 3, device=device)
        self._weights = torch.zeros(count, device=device)

    @property
    def seen(self) -> float:
        """Share of the texels that an image showed."""
        return float((self._weights > 0).float().mean()) if len(self._weights) else 0.0

    def add(self, depth: Tensor, rgb: Tensor, camera: Camera) -> None:
        """Adds an image.

        A texel is visible where the depth of the image is that of the mesh, on one surface, and the mesh faces the
        camera. Its weight is a power of the pixels per unit of length along the steepest direction.

        Args:
            depth: along z in units of the vertices, [H, W]; where it is not above 0 nothing is known.
            rgb: colours in [0, 1], [H, W, 3].
            camera: of both, a pinhole.
        """
        device = self._sums.device
        images = torch.cat([depth[..., None], rgb], -1).to(device, torch.float32).movedim(-1, 0)[None]
        matrix = camera.world_to_cam.to(device, torch.float32)
        fx, fy, cx, cy = camera.intrinsics.tolist()
        size = torch.tensor([camera.width, camera.height], device=device)
        eye = camera.position.to(device, torch.float32)
        for first in range(0, len(self._weights), CHUNK):
            rows = slice(first, first + CHUNK)
            points, normals = self._points(rows)
            x = points @ matrix[:3, :3].T + matrix[:3, 3]
            z = x[:, 2]
            at = torch.stack([fx * x[:, 0] / z + cx, fy * x[:, 1] / z + cy], -1)
            grid = (2 * at / size - 1)[None, None]
            mixed, nearest = (
                nn.grid_sample(images, grid, mode, "zeros", align_corners=False)[0, :, 0]
                for mode in ("bilinear", "nearest")
            )
            facing = (normals * nn.normalize(eye - points, dim=-1)).sum(-1)
            visible = (
                (z > camera.near)
                & (nearest[0] > 0)
                & ((nearest[0] - z).abs() < self._tolerance)
                & ((mixed[0] - nearest[0]).abs() < self._tolerance / 2)
                & (facing > MIN_FACING)
            )
            weight = (facing * (fx * self._tolerance / z)).clamp_max(1e6) ** SHARPNESS
            weight = torch.where(visible, weight, 0.0)
            self._weights[rows] += weight
            self._sums[rows] += torch.where(visible[:, None], weight[:, None] * mixed[1:].T, 0.0)

    def image(self) -> Tensor:
        """The texture, RGB in [0, 1], [pixels, pixels, 3].

        Texels that no image showed have the colours of the vertices, those around charts the mean of their neighbours.
        """
        index, face, shares = self.texels
        of_corners = self._colours[self._mesh.faces.long()[face]]
        plain = (shares[..., None] * of_corners).sum(1)
        known = (self._weights > 0)[:, None]
        colours = torch.where(known, self._sums / self._weights.clamp_min(1e-30)[:, None], plain)
        pixels = self._pixels
        layers = torch.zeros(4, pixels * pixels, device=colours.device)
        layers[:3, index], layers[3, index] = colours.T, 1
        layers = layers.view(1, 4, pixels, pixels)
        for _ in range(GUTTER):
            around = nn.avg_pool2d(layers, 3, 1, 1)
            reached = around[:, 3:] > 0
            around = torch.where(reached, around / around[:, 3:].clamp_min(1e-12), 0.0)
            layers = torch.where(layers[:, 3:] > 0, layers, around)
        mean = colours.mean(0) if len(colours) else colours.new_zeros(3)
        filled = torch.where(layers[0, 3] > 0, layers[0, :3], mean[:, None, None])
        return filled.movedim(0, -1).clamp(0, 1)

    def _points(self, rows: slice) -> tuple[Tensor, Tensor]:
        """World points of texels and normals there, both [T, 3]."""
        corners = self._mesh.faces.long()[self.texels.face[rows]]
        shares = self.texels.shares[rows, :, None]
        points, normals = ((shares * of[corners]).sum(1) for of in (self._mesh.vertices, self._normals))
        return points, nn.normalize(normals, dim=-1)
