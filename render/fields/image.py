"""Image fields: positions in an image to colours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.applications import CONFIGURATIONS
from luxel.render.fields.build import field_of
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.data.high_dynamic_range import HdrImage, relative_squared_error, tone_mapped
from luxel.render.fields.data.tiled_image import TiledImage, TileOptions, TilePool, TileSamples
from luxel.render.fields.drawing.rays import camera_rays, in_chunks
from luxel.render.geometry.camera import Camera

CHUNK = 1 << 20  # positions at a time outside of training


class ImageField(Application):
    """Fits an image of any size (Müller et al. 2022, section 5.1, "gigapixel image approximation").

    Positions run over the unit square whatever the image's shape, x to the right and y downwards. The loss is the
    squared error of sRGB values, of the image interpolated between pixel centres at random positions.

    Rendered by a camera it is a plane at z = 0 that faces +z, from (0, 0) at the lower left to (1, height / width).

    Attributes:
        size: buffer, width and height of the image in pixels, int64 [2].
        tiles: how much of a `TiledImage` is on the device at a time. Set it before `begin`.
    """

    kind = "image"
    training_defaults = CONFIGURATIONS["image"].defaults
    hash_growth = 1.25992
    data_type = "image"
    up, front, flat = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), True
    size: Tensor

    def __init__(self, config: FieldConfig) -> None:
        super().__init__(config)
        self.field = field_of(config, 2, 3)
        self.register_buffer("size", torch.tensor([1, 1]))
        self._aspect = 1.0
        self.tiles = TileOptions()
        self._image: Tensor | None = None
        self._pool: TilePool | None = None
        self.register_load_state_dict_post_hook(lambda *_: self._store_aspect())

    @classmethod
    def adapt_config(cls, config: FieldConfig, data: Any) -> FieldConfig:
        """With the finest level at half the longest side of the image, unless it is given."""
        if isinstance(data, HdrImage):
            config, data = replace(config, linear=True), data.pixels
        height, width = (
            (data.height, data.width) if isinstance(data, TiledImage) else _checked(data).shape[:2]
        )
        return config if config.finest else config.with_finest(max(16, max(height, width) // 2))

    def begin(self, data: Any, device: torch.device) -> None:
        """Takes an image.

        Args:
            data: sRGB, uint8 or float in [0, 1], [H, W, 3]; or a `TiledImage`, of which only some tiles are in memory
                at a time; or an `HdrImage`, with a configuration that is ``linear``.
            device: where it is trained.

        Raises:
            LuxelError: it is not such an image.
        """
        self._image = self._pool = None
        if isinstance(data, HdrImage) != self.config.linear:
            names = ("HDR images", "other images") if self.config.linear else ("other images", "HDR images")
            raise LuxelError(f"The field is one of {names[0]}, not of {names[1]}.", "Start a new run.")
        if isinstance(data, HdrImage):
            self._image = torch.from_numpy(np.ascontiguousarray(data.pixels, np.float32)).to(device)
            self.size.copy_(torch.tensor([self._image.shape[1], self._image.shape[0]]))
            self._store_aspect()
            return
        if isinstance(data, TiledImage):
            self._pool = TilePool(data, self.tiles, self.config.seed, device)
            self.size.copy_(torch.tensor([data.width, data.height]))
            self._store_aspect()
            return
        image = torch.as_tensor(_checked(data))
        if image.is_floating_point():
            image = image.clamp(0, 1).mul(255).round().to(torch.uint8)
        self._image = image.to(device).contiguous()
        self.size.copy_(torch.tensor([image.shape[1], image.shape[0]]))
        self._store_aspect()

    def before_step(self, step: int) -> None:
        """Replaces some of the tiles of an image on disk."""
        if self._pool is not None:
            self._pool.advance(step)

    def draw_batch(self, generator: torch.Generator) -> Tensor | TileSamples:
        """Positions, uniform in the unit square, [S, 2]; of an image on disk in its present tiles, with colours."""
        if self._pool is not None:
            return self._pool.draw(self.config.batch, generator)
        return torch.rand(self.config.batch, 2, generator=generator, device=self.device)

    def loss(self, batch: Tensor | TileSamples) -> Tensor:
        """Mean squared error at positions [S, 2]; of an HDR image the relative one."""
        if isinstance(batch, TileSamples):
            return (self.field(batch.positions) - batch.targets).square().mean()
        if self.config.linear:
            return relative_squared_error(self.field(batch), self._pixels_at(batch))
        return (self.field(batch) - self._pixels_at(batch)).square().mean()

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The plane as a camera sees it from the front or, mirrored, from behind, [H, W, 3]; no gradients."""
        origins, directions = camera_rays(camera)
        with torch.no_grad():
            distance = -origins[:, 2] / directions[:, 2]
            at = origins + distance[:, None] * directions
            position = torch.stack([at[:, 0], 1 - at[:, 1] / self._aspect], -1)
            hit = (distance > 0) & ((position >= 0) & (position <= 1)).all(-1)
            colours = in_chunks(self.colours, position.nan_to_num(0.5), CHUNK)
            background = torch.zeros(3, device=self.device) if background is None else background.to(colours)
            return torch.where(hit[:, None], colours, background).reshape(camera.height, camera.width, 3)

    def image_size(self) -> tuple[int, int]:
        """Width and height of the image that it was trained on, in pixels."""
        width, height = self.size.tolist()
        return width, height

    def bands(
        self, width: int, height: int, window: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    ) -> Iterator[Tensor]:
        """As `Application.bands`, evaluated at the centres of the pixels; no gradients."""
        left, top, right, bottom = window
        x = (torch.arange(width, device=self.device, dtype=torch.float64) + 0.5) / width * (
            right - left
        ) + left
        y = (torch.arange(height, device=self.device, dtype=torch.float64) + 0.5) / height * (
            bottom - top
        ) + top
        for rows in y.float().split(max(1, CHUNK // width)):
            with torch.no_grad():
                positions = torch.cartesian_prod(rows, x.float()).flip(-1)
                yield self.colours(positions).reshape(len(rows), width, 3)

    def colours(self, positions: Tensor) -> Tensor:
        """Colours in [0, 1] at positions [S, 2] in spatially coherent order, as pixels are, [S, 3].

        Those of an HDR image are tone mapped.
        """
        colours = self.field(positions, coherent=True)
        return tone_mapped(colours, self.exposure) if self.config.linear else colours.clamp(0, 1)

    def evaluate(self) -> dict[str, float]:
        """PSNR over all pixels, with both images rounded to 8 bits; of an HDR image tone mapped at its exposure."""
        width, height = self.image_size()
        error = torch.zeros((), dtype=torch.float64, device=self.device)
        for band, truth in zip(self.bands(width, height), self._truth(), strict=True):
            difference = band.mul(255).round() - truth.to(band)
            error += difference.square().sum(dtype=torch.float64)
        mean = float(error) / (255**2 * 3 * width * height)
        return {"psnr": -10 * math.log10(max(mean, 1e-12))}

    def _truth(self) -> Iterator[Tensor]:
        """The image that it is trained on, in the bands of `bands`."""
        if self._pool is not None:
            return (torch.from_numpy(band) for band in self._pool.image.bands(CHUNK))
        assert self._image is not None, "begin comes first"
        bands = self._image.split(max(1, CHUNK // self._image.shape[1]))
        if self.config.linear:
            return (tone_mapped(band, self.exposure).mul(255).round() for band in bands)
        return iter(bands)

    @property
    def centres(self) -> Tensor:
        """The corners of the plane, [4, 3]."""
        corners = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], device=self.device)
        return corners * torch.tensor([1.0, self._aspect, 1.0], device=self.device)

    def _store_aspect(self) -> None:
        """Copies height over width of the plane to the host, so that drawing does not wait for the device."""
        width, height = self.size.tolist()
        self._aspect = height / width

    def _pixels_at(self, positions: Tensor) -> Tensor:
        """The image at positions [S, 2], linear between the centres of pixels, [S, 3]."""
        assert self._image is not None, "begin comes first"
        height, width = self._image.shape[:2]
        at = positions * self.size - 0.5
        low = at.floor()
        part = at - low
        x0, y0 = (low[:, i].long().clamp(0, n - 1) for i, n in enumerate((width, height)))
        x1, y1 = ((low[:, i].long() + 1).clamp(0, n - 1) for i, n in enumerate((width, height)))
        flat = self._image.view(-1, 3)
        top = torch.lerp(_at(flat, y0 * width + x0), _at(flat, y0 * width + x1), part[:, :1])
        bottom = torch.lerp(_at(flat, y1 * width + x0), _at(flat, y1 * width + x1), part[:, :1])
        return torch.lerp(top, bottom, part[:, 1:]) / (1 if self.config.linear else 255)


def _at(flat: Tensor, index: Tensor) -> Tensor:
    return flat.index_select(0, index).float()


def _checked(data: Any) -> np.ndarray | Tensor:
    """The image, after validation."""
    if not isinstance(data, np.ndarray | Tensor) or data.ndim != 3 or data.shape[2] != 3 or 0 in data.shape:
        shape = list(getattr(data, "shape", [])) or type(data).__name__
        raise LuxelError(f"An image must be [H, W, 3], got {shape}.", "Give an image in colour.")
    image = torch.as_tensor(data)
    if image.dtype != torch.uint8 and not image.is_floating_point():
        raise LuxelError(f"An image must be of bytes or floats, got {image.dtype}.", "Convert it.")
    if image.is_floating_point() and not bool(image.isfinite().all()):
        raise LuxelError("The image has values that are not finite.", "Replace its NaNs and infinities.")
    return data
