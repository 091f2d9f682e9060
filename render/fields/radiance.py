"""Radiance fields (NeRF) on a hash grid, trained on posed images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from luxel.render.bounds import Bounds, Positive, ShareBelow1
from luxel.render.camera import Camera, View
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.build import field_of, mlp_of
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.drawing.frame_mode import counts_on_device
from luxel.render.fields.drawing.snapshot import (
    Snapshot,
    capture_key_of,
    refreshed_snapshot,
    supports_live_count,
)
from luxel.render.fields.drawing.wavefront import WavefrontRenderer
from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.fields.occupancy import Occupancy
from luxel.render.fields.posed_images import (
    BLENDER_BOX,
    DeviceImages,
    PosedImages,
    box_of,
    read_view,
    target_of,
)
from luxel.render.metrics import psnr, ssim
from luxel.render.ops.field.colour_inputs import HARMONICS, colour_inputs
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.draw_pixels import draw_pixels
from luxel.render.ops.field.march_rays import LEFT_OUT, RAYS, SAMPLES, Region, Samples, march_pixels
from luxel.render.ops.field.visible_samples import visible_samples

FEATURES = 16  # from the density network to the colour network
MOST_DENSITY = 15.0  # before the activation
FINEST_OF_OBJECTS = (
    2048  # points along the sides of a box that one object fills (Müller et al. 2022, table 1)
)
RAYS_OF_PART, ROWS_OF_WAVE = 1 << 21, 1 << 21  # most rays of a part of an image, most positions of a wave
SCORED = 8  # training views to score on if none are held out


@dataclass
class RadianceConfig(FieldConfig):
    """A radiance field and its training."""

    marched: Annotated[int, Bounds(0, 64)] = 4
    """Batches of samples that are marched and evaluated for density alone, to fill one batch with visible samples;
    0: a step takes all samples."""
    least_alpha: ShareBelow1 = 0.0
    """With `marched`: leave out samples whose alpha is below this."""
    huber: Positive = 0.1
    """Error of a colour, in [0, 1], above which the loss grows linearly."""


class Drawn(NamedTuple):
    """Pixels of a step."""

    seed: Tensor  # of the jitter along rays, int64 [1]
    pixels: Tensor  # their numbers, int64 [R]; -1 for none
    targets: Tensor  # [R, 3]
    backgrounds: Tensor  # [R, 3]


class RadianceField(Application):
    """Density and colour at a point, seen from a direction.

    Müller et al. 2022, "Instant Neural Graphics Primitives", section 5.4: a hash grid and a network of one hidden layer
    give 16 features, of which the first is the density; they and 16 spherical harmonics of the direction go through two
    hidden layers to the colour. Samples lie in the occupied cells of a box, a 1024th of its diagonal apart. A step
    evaluates the density alone at more samples than a batch, and trains on those that are visible (unless `marched` is
    0); its number of rays is adapted to the number of samples per ray. Density is per longest side of the box.

    Subclasses may set other ``cells`` and ``places``, for example for small scenes.
    """

    kind: ClassVar[str] = "radiance"
    config_type = RadianceConfig
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 35_000,
        "hidden": 1,
        "sparse": True,
        "schedule": "shares",
        "weight_decay": 0.0,
    }
    data_type = "capture"
    surface_level = 50.0
    cells: ClassVar[int] = 128  # of the occupancy grid, along each axis
    places: ClassVar[int] = 1024  # along the diagonal of the box

    config: RadianceConfig
    box: Tensor
    live: Tensor

    def __init__(self, config: RadianceConfig) -> None:
        super().__init__(config)
        self.density = field_of(config, 3, FEATURES)
        self.density.coherent = True  # samples along rays, cells in their order
        self.colour = mlp_of(config, FEATURES + HARMONICS, 3)
        self.occupancy = Occupancy(self.cells)
        self.rays = max(1, config.batch // 2)  # of a step at most
        self.register_buffer("box", torch.tensor(BLENDER_BOX, dtype=torch.float64))
        self.register_buffer("live", torch.tensor([max(1, config.batch // 1024)], dtype=torch.int32))
        self._region: tuple[Any, Region] | None = None
        self._snapshot: Snapshot | None = None
        self._renderer: WavefrontRenderer | None = None
        self._data: PosedImages | None = None
        self._images: DeviceImages | None = None
        self._background: Tensor | None = None

    @classmethod
    def adapt_config(cls, config: FieldConfig, data: PosedImages | Sequence[View]) -> FieldConfig:
        """With a coarser finest level, unless one is given, for images with alpha, whose object fills the box."""
        views = data.views if isinstance(data, PosedImages) else data
        cut_out = len(views) > 0 and read_view(views[0])[0].shape[1] == 4
        return config.with_finest(FINEST_OF_OBJECTS) if cut_out and config.finest is None else config

    @property
    def region(self) -> Region:
        """The box, and how rays are sampled in it; read from the device when the box has changed."""
        version = self.box.data_ptr(), self.box._version
        if self._region is None or self._region[0] != version:
            region = Region.of_box(self.box.tolist(), places=self.places, resolution=self.cells)
            self._region = version, region
        return self._region[1]

    @property
    def centres(self) -> Tensor:
        """The corners of its box, [8, 3]."""
        low, high = self.region.box[:3], self.region.box[3:]
        ends = [torch.tensor(pair, device=self.device) for pair in zip(low, high, strict=True)]
        return torch.cartesian_prod(*ends)

    def begin(self, data: PosedImages | Sequence[View], device: torch.device) -> None:
        """Takes posed images.

        Args:
            data: posed images, or the training views alone.
            device: where the parameters are; the images are copied there.

        Raises:
            LuxelError: there are no images, one has another size than its camera says, or the box is empty.
        """
        given = data if isinstance(data, PosedImages) else PosedImages(list(data))
        self._images = DeviceImages.read(given.views, device)
        transparent = self._images.pixels.shape[1] == 4
        box = given.box or box_of(given.views, None if transparent else given.points)
        if not all(low < high for low, high in zip(box[:3], box[3:], strict=True)):
            raise LuxelError(f"The box {list(box)} is empty.", "Give low x y z, then high x y z.")
        self.box.copy_(torch.tensor(box, dtype=torch.float64))
        self._data = given
        fixed = None if transparent and given.random_background else given.background
        self._background = None if fixed is None else torch.tensor(fixed, device=device)
        assert self.region.box is not None  # read now: a captured step must not

    def draw_batch(self, generator: torch.Generator) -> Drawn:
        """Random pixels; their number, from earlier steps, is such that visible samples fill a batch."""
        images = self._training_images()
        numbers = torch.randint(2**62, (self.rays,), generator=generator, device=generator.device)
        drawn = draw_pixels(numbers, images.pixels, images.candidates, self._background, self.live)
        return Drawn(numbers[:1], *drawn)

    def loss(self, batch: Drawn) -> Tensor:
        """The Huber loss of the colours, averaged over rays and channels."""
        samples = self._samples(batch)
        density, colour = self.evaluate_at(samples.positions, samples.directions)
        seen = composite(
            density,
            colour,
            samples.dt,
            samples.t,
            samples.ranges,
            samples.counters,
            batch.backgrounds,
            scale=1 / self.region.size,
        )
        total = torch.nn.functional.huber_loss(
            seen.rgb, batch.targets, reduction="sum", delta=self.config.huber
        )
        rays = samples.counters[RAYS] - samples.counters[LEFT_OUT]  # rays without room have no loss
        return total / (3 * rays.clamp_min(1))

    def evaluate_at(self, positions: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Density [S] and colour [S, 3] before their activations.

        Args:
            positions: in the box as [0, 1]^3, [S, 3].
            directions: unit vectors, [S, 3].
        """
        inputs, density = colour_inputs(self.density(positions), directions)
        return density, self.colour(inputs)

    def densities(self, positions: Tensor) -> Tensor:
        """Density at positions in the box as [0, 1]^3, [N, 3] to [N], per longest side of the box."""
        return self.density(positions)[:, 0].clamp(-MOST_DENSITY, MOST_DENSITY).exp()

    def after_step(self, step: int) -> None:
        """Updates the occupancy grid when it is due."""
        if self.occupancy.due(step):
            self.occupancy.update(step, self.densities, self.config.seed)

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The image of a camera, [H, W, 3] in [0, 1], sRGB.

        Args:
            camera: one.
            background: behind the field, [3]; None: black.
        """
        return self.layers(camera, background)[0]

    def layers(self, camera: Camera, background: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Colours [H, W, 3], alpha [H, W], and the mean distance along the ray by weight, [H, W]; as `render`."""
        region = self.region._replace(near=camera.near, far=camera.far)
        behind = self.box.new_zeros(3) if background is None else background
        behind = behind.to(self.device, torch.float32)
        evaluate = self._snapshot = refreshed_snapshot(self.density, self._snapshot)

        def query(x: Tensor, directions: Tensor | None, live: Tensor | None = None) -> tuple[Tensor, Tensor]:
            assert directions is not None
            colour, density = self.colour.beside_directions(evaluate(x, live), directions, live)
            return density, colour

        given = camera, region, self.occupancy.bits, behind, 1 / self.region.size
        if not (
            counts_on_device(self.device) and supports_live_count(evaluate) and self.colour.joins_directions()
        ):
            return render_wavefront_polled(query, *given)
        if self._renderer is None:
            self._renderer = WavefrontRenderer(self.device, RAYS_OF_PART, ROWS_OF_WAVE)
        density_key = capture_key_of(evaluate)
        key = None if density_key is None else (density_key, self.colour.weights.data_ptr())
        return self._renderer.render(query, key, *given)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Moves or converts the field; discards what was prepared on the previous device."""
        self._snapshot = self._renderer = None
        return super()._apply(fn, recurse)

    def evaluate(self) -> dict[str, float]:
        """Mean PSNR (dB) and SSIM over the held-out views, or over some training views if there are none."""
        self._training_images()
        assert self._data is not None
        views = list(self._data.held_out) or list(self._data.views)[:SCORED]
        behind = torch.tensor(self._data.background, device=self.device)
        scores: list[tuple[float, float]] = []
        for view in views:
            target, weight = target_of(view, behind)
            image = self.render(view.camera.to(self.device), behind).clamp(0, 1)
            scores.append((psnr(image, target, weight), ssim(image, target, weight)))
        return {
            "psnr": sum(s[0] for s in scores) / len(scores),
            "ssim": sum(s[1] for s in scores) / len(scores),
        }

    def _samples(self, batch: Drawn) -> Samples:
        """Samples of a step: the visible ones, or all."""
        capacity = self.config.batch
        target = _target_count(capacity)
        if self.config.marched == 0:
            return self._marched(batch, capacity, target)
        room = capacity * self.config.marched
        raw = self._marched(batch, room, 0)
        if raw.t.device.type == "cpu":  # unused rows are not evaluated
            used = max(1, int(raw.counters[SAMPLES]))
            p, d, t, dt = (rows[:used] for rows in raw[:4])
            raw = raw._replace(positions=p, directions=d, t=t, dt=dt)
        with torch.no_grad():
            density = self.density(raw.positions)[:, 0]
        return visible_samples(
            raw,
            density,
            capacity=capacity,
            scale=1 / self.region.size,
            least_alpha=self.config.least_alpha,
            live=self.live,
            target=target,
            raw_target=_target_count(room),
        )

    def _marched(self, batch: Drawn, capacity: int, target: int) -> Samples:
        images = self._training_images()
        return march_pixels(
            batch.pixels,
            images.table,
            images.world_to_cam,
            images.intrinsics,
            self.region._replace(near=images.near),
            self.occupancy.bits,
            capacity=capacity,
            seed=batch.seed,
            live=self.live,
            target=target,
        )

    def _training_images(self) -> DeviceImages:
        if self._images is None:
            raise LuxelError("This radiance field has no photographs.", "Call begin with a capture first.")
        return self._images


def _target_count(room: int) -> int:
    """Number of samples to aim for, so that few rays find no room."""
    return max(1, room - room // 16)
