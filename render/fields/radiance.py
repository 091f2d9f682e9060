"""Radiance fields (NeRF) on a hash grid, trained on posed images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.applications import CONFIGURATIONS
from luxel.render.fields.capture.exposure import Exposure
from luxel.render.fields.capture.extent import adapted_to, cascades_in, inner_box, nearest, region_of
from luxel.render.fields.capture.occupancy import Occupancy, seen_cells
from luxel.render.fields.capture.posed_images import (
    BLENDER_BOX,
    DeviceImages,
    PosedImages,
    box_of,
    mean_scores,
    views_of,
)
from luxel.render.fields.capture.sky import Sky, pixel_directions
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.drawing.frame_mode import counts_on_device
from luxel.render.fields.drawing.wavefront import WavefrontRenderer
from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.fields.nets.build import field_of, mlp_of
from luxel.render.fields.nets.point_function import Snapshot, refreshed_snapshot
from luxel.render.fields.radiance_config import RadianceConfig
from luxel.render.geometry.camera import Camera, View
from luxel.render.ops.field.colour_inputs import HARMONICS, colour_inputs
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.draw_pixels import draw_pixels
from luxel.render.ops.field.march_rays import (
    LEFT_OUT,
    RAYS,
    SAMPLES,
    Region,
    Samples,
    march_pixels,
)
from luxel.render.ops.field.visible_samples import visible_samples

FEATURES = 16  # from the density network to the colour network
MAX_DENSITY = 15.0  # before the activation
DISTORTION_UNIT = 1024.0  # steps along a ray that are a unit of length in the distortion
RAYS_OF_PART, ROWS_OF_WAVE = 1 << 21, 1 << 21  # most rays of a part of an image, most positions of a wave
FEWEST = 2  # cameras that see a cell of a whole place; others are empty
SCORED = 8  # training views to score on if none are held out


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

    With ``extent`` other than "box", it is of a whole place: rays are marched through cascades of boxes
    around that box, in
    steps that grow with the distance, and a network of the direction gives the colour behind them.

    Subclasses may set other ``cells`` and ``places``, for example for small scenes.
    """

    kind: ClassVar[str] = "radiance"
    config_type = RadianceConfig
    training_defaults = CONFIGURATIONS["radiance"].defaults
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
        self.occupancy = Occupancy(self.cells, cascades_in(config))
        self.sky = Sky(config.precise, config.seed + 3) if config.whole and config.sky else None
        # Of a step at most. Those of a whole place have many samples each, and the colour behind each is evaluated.
        self.rays = max(1, config.batch // (16 if self.sky is not None else 2))
        self.register_buffer("box", torch.tensor(BLENDER_BOX, dtype=torch.float64))
        self.register_buffer("live", torch.tensor([max(1, config.batch // 1024)], dtype=torch.int32))
        self.drawing = config.drawing
        self._exposure: Exposure | None = None
        self._region: tuple[Any, Region] | None = None
        self._snapshot: Snapshot | None = None
        self._renderer: WavefrontRenderer | None = None
        self._data: PosedImages | None = None
        self._images: DeviceImages | None = None
        self._background: Tensor | None = None

    @classmethod
    def adapt_config(cls, config: FieldConfig, data: PosedImages | Sequence[View]) -> FieldConfig:
        """With the extent that the images show, and what follows from it; see `luxel.render.fields.capture.extent`."""
        assert isinstance(config, RadianceConfig)
        return adapted_to(config, data)

    @property
    def region(self) -> Region:
        """The box, and how rays are sampled in it; read from the device when the box has changed."""
        version = self.box.data_ptr(), self.box._version
        if self._region is None or self._region[0] != version:
            self._region = version, region_of(self.config, self.box.tolist(), self.places, self.cells)
        return self._region[1]

    @property
    def scale(self) -> float:
        """1 / the unit of length of the density network: the side of the (inner) box."""
        return 1 / self.region.size

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
        if self.sky is not None and transparent:
            raise LuxelError(
                "The colour behind transparent photographs cannot be learnt.",
                "Leave --sky out, or use --masks none.",
            )
        points = None if transparent else given.points
        contracted = self.config.extent == "contracted"
        box = given.box or (
            inner_box(given.views, points, contracted) if self.config.whole else box_of(given.views, points)
        )
        if not all(low < high for low, high in zip(box[:3], box[3:], strict=True)):
            raise LuxelError(f"The box {list(box)} is empty.", "Give low x y z, then high x y z.")
        self.box.copy_(torch.tensor(box, dtype=torch.float64))
        self._data = given
        if self.config.exposure != "none":
            self._exposure = Exposure(self.config.exposure, len(given.views), device)
        if self.config.whole:
            near = max(self._images.near, nearest(given.views, given.points, self.region.size))
            self._images = self._images._replace(near=near)
            cameras = [view.camera for view in given.views]
            self.occupancy.restrict(
                seen_cells(self.region._replace(near=near), cameras, min(FEWEST, len(cameras)), device)
            )
        fixed = None if transparent and given.random_background else given.background
        fixed = fixed if self.sky is None else (0.0, 0.0, 0.0)
        self._background = None if fixed is None else torch.tensor(fixed, device=device)
        assert self.region.box is not None  # read now: a captured step must not

    def draw_batch(self, generator: torch.Generator) -> Drawn:
        """Random pixels; their number, from earlier steps, is such that visible samples fill a batch."""
        images = self._training_images()
        numbers = torch.randint(2**62, (self.rays,), generator=generator, device=generator.device)
        drawn = draw_pixels(numbers, images.pixels, images.candidates, self._background, self.live)
        return Drawn(numbers[:1], *drawn)

    def loss(self, batch: Drawn) -> Tensor:
        """The Huber loss of the colours, averaged over rays and channels, and the terms that the options add."""
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
            scale=self.scale,
            step=self.region.step,
            growth=self.region.growth,
            unit=DISTORTION_UNIT if self.config.distortion else 0.0,
        )
        rgb = seen.rgb
        if self.sky is not None:
            rgb = rgb + seen.transmittance[:, None] * self._sky_of(batch, samples)
        if self._exposure is not None:
            rgb = self._exposed(self._exposure, rgb, seen.transmittance, batch, samples)
        total = torch.nn.functional.huber_loss(rgb, batch.targets, reduction="sum", delta=self.config.huber)
        if self.config.distortion:
            given = self.loss_scalars
            weight = 3 * self.config.distortion if given is None else given[0]
            total = total + weight * seen.distortion.sum()
        rays = samples.counters[RAYS] - samples.counters[LEFT_OUT]  # rays without room have no loss
        mean = total / (3 * rays.clamp_min(1))
        return mean if self._exposure is None else mean + self._exposure.penalty()

    def auxiliary_parameters(self) -> dict[str, Tensor]:
        """The exposures of the training images, where they are learnt."""
        return {} if self._exposure is None else {"exposure": self._exposure.table}

    def _sky_of(self, batch: Drawn, samples: Samples) -> Tensor:
        """The colours behind the rays of a step, [R, 3]; 0 for rows without a ray, and for those that may lack room."""
        assert self.sky is not None
        images = self._training_images()
        directions = pixel_directions(batch.pixels, images.table, images.world_to_cam, images.intrinsics)
        return torch.where(_counting(batch, samples)[:, None], self.sky(directions), 0.0)

    def _exposed(
        self, exposure: Exposure, rgb: Tensor, transmittance: Tensor, batch: Drawn, samples: Samples
    ) -> Tensor:
        """The colours of rays as the photographs show them; where there is no ray, as they are."""
        images = self._training_images()
        views = views_of(batch.pixels, images.table)
        kept = (transmittance, batch.backgrounds) if images.pixels.shape[1] == 4 else ()
        shown = exposure.apply(rgb, views, *kept)
        return torch.where(_counting(batch, samples)[:, None], shown, rgb)

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
        return self.density(positions)[:, 0].clamp(-MAX_DENSITY, MAX_DENSITY).exp()

    def after_step(self, step: int) -> None:
        """Updates the occupancy grid when it is due."""
        if self.occupancy.due(step):
            region = self.region
            self.occupancy.update(step, lambda p: self.densities(region.to_field(p)), self.config.seed)

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The image of a camera, [H, W, 3] in [0, 1], sRGB.

        Args:
            camera: one.
            background: behind the field, [3]; None: black.
        """
        return self.layers(camera, background)[0]

    def layers(self, camera: Camera, background: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Colours [H, W, 3], alpha [H, W], and the mean distance along the ray by weight, [H, W]; as `render`."""
        if self.sky is not None:
            sky = self.sky.behind(camera)  # before the wait at the end of a frame
            colours, alpha, depth = self._march(camera, None)
            return torch.addcmul(colours, 1 - alpha[..., None], sky), alpha, depth
        return self._march(camera, background)

    def _march(self, camera: Camera, background: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """`layers` on a background of one colour."""
        own, drawing = self.region, self.drawing
        steps = {"step": own.step * drawing.steps, "growth": own.growth * drawing.steps}
        region = own._replace(near=camera.near, far=camera.far, **steps)
        behind = self.box.new_zeros(3) if background is None else background
        behind = behind.to(self.device, torch.float32)
        evaluate = self._snapshot = refreshed_snapshot(self.density, self._snapshot)

        def query(x: Tensor, directions: Tensor | None, live: Tensor | None = None) -> tuple[Tensor, Tensor]:
            assert directions is not None
            colour, density = self.colour.beside_directions(evaluate(x, live), directions, live)
            return density, colour

        bits = self.occupancy.bits_above(drawing.threshold)
        given = camera, region, bits, behind, self.scale, drawing.transmittance
        if not (
            counts_on_device(self.device)
            and evaluate.supports_live_count()
            and self.colour.joins_directions()
        ):
            return render_wavefront_polled(query, *given)
        if self._renderer is None:
            self._renderer = WavefrontRenderer(self.device, RAYS_OF_PART, ROWS_OF_WAVE)
        density_key = evaluate.key()
        key = None if density_key is None else (density_key, self.colour.weights.data_ptr())
        return self._renderer.render(query, key, *given)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Moves or converts the field; discards what was prepared on the previous device."""
        self._snapshot = self._renderer = None
        return super()._apply(fn, recurse)

    def evaluate(self) -> dict[str, float]:
        """`scores`, aligned too if exposures are learnt."""
        return self.scores(aligned=self.config.exposure != "none")

    def scores(self, aligned: bool) -> dict[str, float]:
        """Mean PSNR (dB) and SSIM over the held-out views, or some training views without any; see `mean_scores`."""
        self._training_images()
        assert self._data is not None
        views = list(self._data.held_out) or list(self._data.views)[:SCORED]
        return mean_scores(
            self.layers, views, torch.tensor(self._data.background, device=self.device), aligned
        )

    def _samples(self, batch: Drawn) -> Samples:
        """Samples of a step: the visible ones, or all."""
        raw = self.march(batch)
        return raw if self.config.rooms == 0 else self.visible(raw)

    def march(self, batch: Drawn) -> Samples:
        """Samples along the rays of a step wherever cells are occupied."""
        capacity = self.config.batch
        if self.config.rooms == 0:
            return self._marched(batch, capacity, _target_count(capacity))
        return self._marched(batch, capacity * self.config.rooms, 0)

    def visible(self, raw: Samples) -> Samples:
        """The visible ones among samples of `march`; sets the number of rays of the next step."""
        capacity = self.config.batch
        room, target = len(raw.t), _target_count(capacity)
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
            scale=self.scale,
            min_alpha=self.config.least_alpha,
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


def _counting(batch: Drawn, samples: Samples) -> Tensor:
    """Which rows of a step are rays that surely have room for their samples, bool [R]."""
    return (batch.pixels >= 0) & ((samples.ranges[:, 1] > 0) | (samples.counters[LEFT_OUT] == 0))


def _target_count(room: int) -> int:
    """Number of samples to aim for, so that few rays find no room."""
    return max(1, room - room // 16)
