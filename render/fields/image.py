"""Image fields: positions in an image to colours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.build import field_of
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.drawing.rays import camera_rays, in_chunks

CHUNK = 1 << 20  # positions at a time outside of training


class ImageField(Application):
    """Fits an image of any size (Müller et al. 2022, section 5.1, "gigapixel image approximation").

    Positions run over the unit square whatever the image's shape, x to the right and y downwards. The loss is the
    squared error of sRGB values, of the image interpolated between pixel centres at random positions.

    Drawn by a camera it is a plane at z = 0 that faces +z, from (0, 0) at the lower left to (1, height / width).

    Attributes:
        size: buffer, width and height of the image in pixels, int64 [2].
    """

    kind = "image"
    training_defaults: ClassVar[dict[str, Any]] = {"decay_from": 2_000, "decay_every": 2_000, "ema": 0.99}
    hash_growth = 1.25992
    data_type = "image"
    up, front, flat = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), True
    size: Tensor

    def __init__(self, config: FieldConfig) -> None:
        super().__init__(config)
        self.field = field_of(config, 2, 3)
        self.register_buffer("size", torch.tensor([1, 1]))
        self._aspect = 1.0
        self._image: Tensor | None = None
        self.register_load_state_dict_post_hook(lambda *_: self._keep_aspect())

    @classmethod
    def adapt_config(cls, config: FieldConfig, data: Any) -> FieldConfig:
        """With the finest level at half the longest side of the image, unless it is given."""
        height, width = _checked(data).shape[:2]
        return config if config.finest else config.with_finest(max(16, max(height, width) // 2))

    def begin(self, data: Any, device: torch.device) -> None:
        """Takes an image.

        Args:
            data: sRGB, uint8 or float in [0, 1], [H, W, 3].
            device: where it is trained.

        Raises:
            LuxelError: it is not such an image.
        """
        image = torch.as_tensor(_checked(data))
        if image.is_floating_point():
            image = image.clamp(0, 1).mul(255).round().to(torch.uint8)
        self._image = image.to(device).contiguous()
        self.size.copy_(torch.tensor([image.shape[1], image.shape[0]]))
        self._keep_aspect()

    def draw_batch(self, generator: torch.Generator) -> Tensor:
        """Positions, uniform in the unit square, [S, 2]."""
        return torch.rand(self.config.batch, 2, generator=generator, device=self.device)

    def loss(self, batch: Tensor) -> Tensor:
        """Mean squared error at positions [S, 2]."""
        return (self.field(batch) - self._pixels_at(batch)).square().mean()

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The plane as a camera sees it from the front or, mirrored, from behind, [H, W, 3]; no gradients."""
        origins, directions = camera_rays(camera)
        with torch.no_grad():
            distance = -origins[:, 2] / directions[:, 2]
            at = origins + distance[:, None] * directions
            place = torch.stack([at[:, 0], 1 - at[:, 1] / self._aspect], -1)
            hit = (distance > 0) & ((place >= 0) & (place <= 1)).all(-1)
            colours = in_chunks(self.colours, place.nan_to_num(0.5), CHUNK)
            behind = torch.zeros(3, device=self.device) if background is None else background.to(colours)
            return torch.where(hit[:, None], colours, behind).reshape(camera.height, camera.width, 3)

    def image_size(self) -> tuple[int, int]:
        """Width and height of the image that it was trained on, in pixels."""
        width, height = self.size.tolist()
        return width, height

    def render_size(self, width: int, height: int) -> Tensor:
        """The whole image, evaluated at the centres of width x height pixels, [H, W, 3]; no gradients."""
        return torch.cat(list(self._bands(width, height)))

    def _bands(self, width: int, height: int) -> Iterator[Tensor]:
        """`render_size` a few rows at a time."""
        x = (torch.arange(width, device=self.device) + 0.5) / width
        y = (torch.arange(height, device=self.device) + 0.5) / height
        for rows in y.split(max(1, CHUNK // width)):
            with torch.no_grad():
                yield self.colours(torch.cartesian_prod(rows, x).flip(-1)).reshape(len(rows), width, 3)

    def colours(self, positions: Tensor) -> Tensor:
        """Colours in [0, 1] at positions [S, 2] in spatially coherent order, as pixels are, [S, 3]."""
        return self.field(positions, coherent=True).clamp(0, 1)

    def evaluate(self) -> dict[str, float]:
        """PSNR over all pixels, with both images rounded to 8 bits."""
        assert self._image is not None, "begin comes first"
        height, width = self._image.shape[:2]
        error = torch.zeros((), dtype=torch.float64, device=self.device)
        first = 0
        for band in self._bands(width, height):
            truth = self._image[first : first + len(band)]
            difference = band.mul(255).round() - truth.to(band.dtype)
            error += difference.square().sum(dtype=torch.float64)
            first += len(band)
        mean = float(error) / (255**2 * self._image.numel())
        return {"psnr": -10 * math.log10(max(mean, 1e-12))}

    @property
    def centres(self) -> Tensor:
        """The corners of the plane, [4, 3]."""
        corners = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], device=self.device)
        return corners * torch.tensor([1.0, self._aspect, 1.0], device=self.device)

    def _keep_aspect(self) -> None:
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
        return torch.lerp(top, bottom, part[:, 1:]) / 255


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
