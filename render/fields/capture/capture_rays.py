"""The rays of a capture that a field is trained on: their pixels, what is behind them, and how images differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.capture.exposure import Exposure
from luxel.render.fields.capture.exposure_choice import exposure_of
from luxel.render.fields.capture.extent import inner_box, nearest
from luxel.render.fields.capture.posed_images import (
    Box,
    DeviceImages,
    PosedImages,
    box_of,
    mean_scores,
    views_of,
)
from luxel.render.fields.capture.silhouettes import silhouette_box
from luxel.render.fields.capture.sky import Sky, pixel_directions
from luxel.render.fields.radiance_config import RadianceConfig
from luxel.render.geometry.camera import Camera, View
from luxel.render.ops.field.draw_pixels import draw_pixels

SCORED = 8  # training views to score on if none are held out


class RayBatch(NamedTuple):
    """Pixels of a step."""

    seed: Tensor  # of the jitter along rays, int64 [1]
    pixels: Tensor  # their numbers, int64 [R]; -1 for none
    targets: Tensor  # [R, 3]
    backgrounds: Tensor  # [R, 3]


class CaptureRays:
    """Images, masks, background, exposures and sky of a capture, as batches of rays.

    It has no state that drawing needs: `sky` is a module of the field that owns this.

    Args:
        config: the options ``extent``, ``exposure`` and ``batch``; `begin` resolves the exposure.
        sky: colours by direction behind a full scene, or None.

    Attributes:
        count: R, most rays of a step. Those of a full scene have many samples each, and the colour behind each is
            evaluated.
        exposure: of each training image, where they are learnt, after `begin`.
        background: behind images, [3], after `begin`; None: random colours.
    """

    def __init__(self, config: RadianceConfig, sky: Sky | None = None) -> None:
        self.config, self.sky = config, sky
        self.count = max(1, config.batch // (16 if sky is not None else 2))
        self.exposure: Exposure | None = None
        self.background: Tensor | None = None
        self._data: PosedImages | None = None
        self._images: DeviceImages | None = None

    @property
    def images(self) -> DeviceImages:
        """The training images on the device.

        Raises:
            LuxelError: there are none, as `begin` was not called.
        """
        if self._images is None:
            raise LuxelError("This radiance field has no images.", "Call begin with a capture first.")
        return self._images

    @property
    def cameras(self) -> list[Camera]:
        """The cameras of the training images; none before `begin`."""
        return [] if self._data is None else [view.camera for view in self._data.views]

    def begin(self, data: PosedImages | Sequence[View], device: torch.device) -> Box:
        """Takes posed images; returns the (inner) box of what they show.

        Args:
            data: posed images, or the training views alone.
            device: where the images are copied.

        Raises:
            LuxelError: there are no images, one has another size than its camera says, or the box is empty.
        """
        given = data if isinstance(data, PosedImages) else PosedImages(list(data))
        self._images = DeviceImages.read(given.views, device)
        transparent = self.transparent
        if self.sky is not None and transparent:
            raise LuxelError(
                "The colour behind transparent images cannot be learnt.",
                "Leave --sky out, or use --masks none.",
            )
        points = None if transparent else given.points
        contracted = self.config.extent == "contracted"
        if self.config.full_scene:
            box = given.box or inner_box(given.views, points, contracted)
        else:
            box = given.box or box_of(given.views, points)
            if transparent and given.box is None:
                box = silhouette_box(self._images, [view.camera for view in given.views], box)
        if not all(low < high for low, high in zip(box[:3], box[3:], strict=True)):
            raise LuxelError(f"The box {list(box)} is empty.", "Give low x y z, then high x y z.")
        self._data = given
        if self.config.exposure == "auto":
            self.config.exposure = "none" if self.config.full_scene else exposure_of(self._images)
        if self.config.exposure in ("gain", "affine"):
            self.exposure = Exposure(self.config.exposure, len(given.views), device)
        fixed = None if transparent and given.random_background else given.background
        fixed = fixed if self.sky is None else (0.0, 0.0, 0.0)
        self.background = None if fixed is None else torch.tensor(fixed, device=device)
        return box

    def begin_before_nearest(self, side: float) -> float:
        """Begins rays right before the nearest points, see `luxel.render.fields.capture.extent.nearest`.

        Args:
            side: of the inner box, world units.

        Returns:
            The depth at which rays begin, world units.
        """
        assert self._data is not None
        near = max(self.images.near, nearest(self._data.views, self._data.points, side))
        self._images = self.images._replace(near=near)
        return near

    @property
    def transparent(self) -> bool:
        """Whether images have alpha."""
        return self.images.pixels.shape[1] == 4

    def draw(self, generator: torch.Generator, live: Tensor) -> RayBatch:
        """Random pixels, of which the first ``live``, int32 [1], are rays."""
        images = self.images
        numbers = torch.randint(2**62, (self.count,), generator=generator, device=generator.device)
        batch = draw_pixels(numbers, images.pixels, images.candidates, self.background, live)
        return RayBatch(numbers[:1], *batch)

    @property
    def alters(self) -> bool:
        """Whether `shown` changes colours."""
        return self.sky is not None or self.exposure is not None

    def shown(self, rgb: Tensor, transmittance: Tensor, batch: RayBatch, counting: Tensor) -> Tensor:
        """The colours of rays as the images show them: with the sky behind, and with the exposures of the images.

        Args:
            rgb: composited on the backgrounds of the batch, [R, 3].
            transmittance: of the rays, [R].
            batch: of the step.
            counting: rows that are rays of the step, bool [R]; others stay as they are.

        Returns:
            [R, 3].
        """
        images = self.images
        if self.sky is not None:
            given = images.table, images.world_to_cam, images.intrinsics
            sky = self.sky(pixel_directions(batch.pixels, *given))
            rgb = rgb + transmittance[:, None] * torch.where(counting[:, None], sky, 0.0)
        if self.exposure is not None:
            composited = (transmittance, batch.backgrounds) if self.transparent else ()
            exposed = self.exposure.apply(rgb, views_of(batch.pixels, images.table), *composited)
            rgb = torch.where(counting[:, None], exposed, rgb)
        return rgb

    def auxiliary_parameters(self) -> dict[str, Tensor]:
        """The exposures of the training images, where they are learnt."""
        return {} if self.exposure is None else {"exposure": self.exposure.table}

    def scores(
        self, layers: Callable[[Camera, Tensor], tuple[Tensor, Tensor, Tensor]], aligned: bool
    ) -> dict[str, float]:
        """Mean PSNR (dB) and SSIM over the held-out views, else some training views; see `mean_scores`."""
        device = self.images.pixels.device
        assert self._data is not None
        views = list(self._data.held_out) or list(self._data.views)[:SCORED]
        return mean_scores(layers, views, torch.tensor(self._data.background, device=device), aligned)
