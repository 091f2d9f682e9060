"""Samples along rays through the occupied cells of a box or a full scene, for training and for images."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from luxel.render.fields.capture.capture_rays import RayBatch
from luxel.render.fields.capture.extent import cascades_in, region_of
from luxel.render.fields.capture.occupancy import Occupancy, observed_cells
from luxel.render.fields.capture.posed_images import BLENDER_BOX, DeviceImages
from luxel.render.fields.drawing.frame_mode import counts_on_device
from luxel.render.fields.drawing.wavefront import WavefrontRenderer
from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.fields.radiance_config import RadianceConfig
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_rays import LEFT_OUT, SAMPLES, Region, Samples, march_pixels
from luxel.render.ops.field.visible_samples import visible_samples

RAYS_OF_PART, ROWS_OF_WAVE = 1 << 21, 1 << 21  # most rays of a part of an image, most positions of a wave
FEWEST = 2  # cameras that see a cell of a full scene; others are empty

Query = Callable[..., tuple[Tensor, Tensor]]  # positions, directions, live to density and colour
Density = Callable[[Tensor], Tensor]  # positions [N, 3] in the box as [0, 1]^3 to [N]


class March(nn.Module):
    """Where rays are sampled. It knows densities alone, not the field that has them.

    Args:
        config: the options of the extent, ``batch``, ``marched``, ``least_alpha`` and those of drawing.
        cells: of the occupancy grid, along each axis.
        diagonal_samples: samples along the diagonal of the box.

    Attributes:
        box: buffer, low x, y, z, high x, y, z, float64 [6], world units.
        live: buffer, number of rays of the next step, int32 [1].
        occupancy: of the cells.
        drawing: how rays are marched for images.
    """

    box: Tensor
    live: Tensor

    def __init__(self, config: RadianceConfig, cells: int, diagonal_samples: int) -> None:
        super().__init__()
        self.config, self.cells, self.diagonal_samples = config, cells, diagonal_samples
        self.occupancy = Occupancy(cells, cascades_in(config))
        self.register_buffer("box", torch.tensor(BLENDER_BOX, dtype=torch.float64))
        self.register_buffer("live", torch.tensor([max(1, config.batch // 1024)], dtype=torch.int32))
        self.drawing = config.drawing
        self._region: tuple[Any, Region] | None = None
        self._renderer: WavefrontRenderer | None = None

    @property
    def region(self) -> Region:
        """The box, and how rays are sampled in it; read from the device when the box has changed."""
        version = self.box.data_ptr(), self.box._version
        if self._region is None or self._region[0] != version:
            self._region = (
                version,
                region_of(self.config, self.box.tolist(), self.diagonal_samples, self.cells),
            )
        return self._region[1]

    @property
    def scale(self) -> float:
        """1 / the unit of length of densities: the side of the (inner) box."""
        return 1 / self.region.size

    def begin(self, box: Sequence[float]) -> None:
        """Takes the box, of which `region` is read now: a captured step must not."""
        self.box.copy_(torch.tensor(box, dtype=torch.float64))
        assert self.region.box is not None

    def restrict(self, cameras: Sequence[Camera], near: float) -> None:
        """Leaves the cells empty that fewer than `FEWEST` cameras see beyond the depth ``near``."""
        region, device = self.region._replace(near=near), self.box.device
        self.occupancy.restrict(observed_cells(region, cameras, min(FEWEST, len(cameras)), device))

    def update(self, step: int, densities: Density) -> None:
        """Updates the occupancy after step number ``step`` (from 0), if it is due.

        Args:
            step: that has been done.
            densities: per side of the (inner) box.
        """
        if self.occupancy.due(step):
            region = self.region
            self.occupancy.update(step, lambda p: densities(region.to_field(p)), self.config.seed)

    def training_samples(self, batch: RayBatch, images: DeviceImages, density: Density) -> Samples:
        """Samples of a step: the visible ones, or all; sets the number of rays of the next step.

        Args:
            batch, images: the rays.
            density: before its activation; no gradients are needed.
        """
        raw = self.samples(batch, images)
        return raw if self.config.marched_batches == 0 else self.visible(raw, density)

    def samples(self, batch: RayBatch, images: DeviceImages) -> Samples:
        """Samples along the rays of a step wherever cells are occupied."""
        batches, capacity = self.config.marched_batches, self.config.batch
        return march_pixels(
            batch.pixels,
            images.table,
            images.world_to_cam,
            images.intrinsics,
            self.region._replace(near=images.near),
            self.occupancy.bits,
            capacity=capacity * max(1, batches),
            seed=batch.seed,
            live=self.live,
            target=_target_count(capacity) if batches == 0 else 0,
        )

    def visible(self, raw: Samples, density: Density) -> Samples:
        """The visible ones among samples of `samples`; sets the number of rays of the next step."""
        capacity = self.config.batch
        raw_capacity, target = len(raw.t), _target_count(capacity)
        if raw.t.device.type == "cpu":  # unused rows are not evaluated
            used = max(1, int(raw.counters[SAMPLES]))
            p, d, t, dt = (rows[:used] for rows in raw[:4])
            raw = raw._replace(positions=p, directions=d, t=t, dt=dt)
        with torch.no_grad():
            values = density(raw.positions)
        return visible_samples(
            raw,
            values,
            capacity=capacity,
            scale=self.scale,
            min_alpha=self.config.least_alpha,
            live=self.live,
            target=target,
            raw_target=_target_count(raw_capacity),
        )

    def layers(
        self, query: Query, camera: Camera, background: Tensor | None, *, counts: bool, key: Hashable
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Colours [H, W, 3], alpha [H, W], and the mean distance along the ray by weight, [H, W], of a camera.

        Args:
            query: density [N] before its activation and colour [N, 3] of positions and directions [N, 3]; a third
                argument has the number of leading rows that count.
            camera: one.
            background: [3]; None: black.
            counts: whether the number of rows saves work, so that it stays on the device.
            key: what captured work depends on besides the contents of tensors; None: nothing is captured.
        """
        own, drawing = self.region, self.drawing
        steps = {"step": own.step * drawing.steps, "growth": own.growth * drawing.steps}
        region = own._replace(near=camera.near, far=camera.far, **steps)
        background = self.box.new_zeros(3) if background is None else background
        background = background.to(self.box.device, torch.float32)
        bits = self.occupancy.bits_above(drawing.threshold)
        given = camera, region, bits, background, self.scale, drawing.transmittance
        if not (counts and counts_on_device(self.box.device)):
            return render_wavefront_polled(query, *given)
        if self._renderer is None:
            self._renderer = WavefrontRenderer(self.box.device, RAYS_OF_PART, ROWS_OF_WAVE)
        return self._renderer.render(query, key, *given)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Moves or converts it; discards what was prepared on the previous device."""
        self._renderer = None
        return super()._apply(fn, recurse)


def counting_rays(batch: RayBatch, samples: Samples) -> Tensor:
    """Which rows of a step are rays that surely have memory for their samples, bool [R]."""
    return (batch.pixels >= 0) & ((samples.ranges[:, 1] > 0) | (samples.counters[LEFT_OUT] == 0))


def _target_count(capacity: int) -> int:
    """Number of samples to aim for, so that few rays exceed the capacity."""
    return max(1, capacity - capacity // 16)
