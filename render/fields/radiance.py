"""Radiance fields (NeRF) on a hash grid, trained on posed images."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from luxel.render.fields.application import Application
from luxel.render.fields.applications import CONFIGURATIONS
from luxel.render.fields.build import field_of, mlp_of
from luxel.render.fields.capture.capture_rays import CaptureRays, RayBatch
from luxel.render.fields.capture.extent import adapted_to
from luxel.render.fields.capture.march import March, counting_rays
from luxel.render.fields.capture.posed_images import PosedImages
from luxel.render.fields.capture.silhouettes import hull_cells
from luxel.render.fields.capture.sky import Sky
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.nets.point_function import Snapshot, refreshed_snapshot
from luxel.render.fields.radiance_config import RadianceConfig
from luxel.render.geometry.camera import Camera, View
from luxel.render.ops.field.colour_inputs import HARMONICS, colour_inputs
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.march_rays import LEFT_OUT, RAYS, Region, Samples

FEATURES = 16  # from the density network to the colour network
MAX_DENSITY = 15.0  # before the activation
HUBER = 0.1  # where the loss begins to grow linearly, unless the configuration says it
DISTORTION_UNIT = 1024.0  # steps along a ray that are a unit of length in the distortion
# Tensors of `March`, which field files and checkpoints have under these names.
MARCH_TENSORS = ("box", "live", "occupancy.densities", "occupancy.bits")


class RadianceField(Application):
    """Density and colour at a point, viewed from a direction.

    Müller et al. 2022, "Instant Neural Graphics Primitives", section 5.4: a hash grid and a network of one hidden layer
    give 16 features, of which the first is the density; they and 16 spherical harmonics of the direction go through two
    hidden layers to the colour. Samples lie in the occupied cells of a box, a 1024th of its diagonal apart. A step
    evaluates the density alone at more samples than a batch, and trains on those that are visible (unless `marched` is
    0); its number of rays is adapted to the number of samples per ray. Density is per longest side of the box.

    With ``extent`` other than "box", it is of a full scene: rays are marched through cascades of boxes
    around that box, in
    steps that grow with the distance, and a network of the direction gives the colour behind them.

    Subclasses may set other ``cells`` and ``diagonal_samples``, for example for small scenes.
    """

    kind: ClassVar[str] = "radiance"
    config_type = RadianceConfig
    training_defaults = CONFIGURATIONS["radiance"].defaults
    data_type = "capture"
    surface_level = 50.0
    cells: ClassVar[int] = 128  # of the occupancy grid, along each axis
    diagonal_samples: ClassVar[int] = 1024  # along the diagonal of the box

    config: RadianceConfig

    def __init__(self, config: RadianceConfig) -> None:
        super().__init__(config)
        self.density = field_of(config, 3, FEATURES)
        self.density.coherent = True  # samples along rays, cells in their order
        self.colour = mlp_of(config, FEATURES + HARMONICS, 3)
        self.march = March(config, self.cells, self.diagonal_samples)
        self.sky = Sky(config.precise, config.seed + 3) if config.full_scene and config.sky else None
        self.rays = CaptureRays(config, self.sky)
        self._snapshot: Snapshot | None = None
        self._register_state_dict_hook(_with_names_of_files)
        self._register_load_state_dict_pre_hook(_with_names_of_modules)

    @classmethod
    def adapt_config(cls, config: FieldConfig, data: PosedImages | Sequence[View]) -> FieldConfig:
        """With the extent that the images show, and what follows from it; see `luxel.render.fields.capture.extent`."""
        assert isinstance(config, RadianceConfig)
        return adapted_to(config, data)

    @property
    def region(self) -> Region:
        """The box, and how rays are sampled in it."""
        return self.march.region

    @property
    def centres(self) -> Tensor:
        """The corners of its box, [8, 3]."""
        low, high = self.region.box[:3], self.region.box[3:]
        ends = [torch.tensor(pair, device=self.device) for pair in zip(low, high, strict=True)]
        return torch.cartesian_prod(*ends)

    def begin(self, data: PosedImages | Sequence[View], device: torch.device) -> None:
        """Takes posed images; resolves `exposure` of the configuration where it is "auto".

        Cells of a box outside of the visual hull of images with alpha stay empty.

        Args:
            data: posed images, or the training views alone.
            device: where the parameters are; the images are copied there.

        Raises:
            LuxelError: there are no images, one has another size than its camera says, or the box is empty.
        """
        self.march.begin(self.rays.begin(data, device))
        if self.config.full_scene:
            near = self.rays.begin_before_nearest(self.region.size)
            self.march.restrict(self.rays.cameras, near)
        elif self.rays.transparent:
            self.march.occupancy.restrict(hull_cells(self.region, self.rays.images, self.rays.cameras))

    def draw_batch(self, generator: torch.Generator) -> RayBatch:
        """Random pixels; their number, from earlier steps, is such that visible samples fill a batch."""
        return self.rays.draw(generator, self.march.live)

    def loss(self, batch: RayBatch) -> Tensor:
        """The Huber loss of the colours, averaged over rays and channels, and the terms that the options add."""
        samples = self.samples(batch)
        density, colour = self.evaluate_at(samples.positions, samples.directions)
        composited = composite(
            density,
            colour,
            samples.dt,
            samples.t,
            samples.ranges,
            samples.counters,
            batch.backgrounds,
            scale=self.march.scale,
            step=self.region.step,
            growth=self.region.growth,
            unit=DISTORTION_UNIT if self.config.distortion else 0.0,
        )
        rgb = composited.rgb
        if self.rays.alters:
            rgb = self.rays.shown(rgb, composited.transmittance, batch, counting_rays(batch, samples))
        delta = HUBER if self.config.huber is None else self.config.huber
        total = torch.nn.functional.huber_loss(rgb, batch.targets, reduction="sum", delta=delta)
        if self.config.distortion:
            given = self.loss_scalars
            weight = 3 * self.config.distortion if given is None else given[0]
            total = total + weight * composited.distortion.sum()
        rays = samples.counters[RAYS] - samples.counters[LEFT_OUT]  # rays beyond the capacity have no loss
        mean = total / (3 * rays.clamp_min(1))
        return mean if self.rays.exposure is None else mean + self.rays.exposure.penalty()

    def samples(self, batch: RayBatch) -> Samples:
        """Samples of a step; sets the number of rays of the next one."""
        return self.march.training_samples(batch, self.rays.images, self.raw_densities)

    def auxiliary_parameters(self) -> dict[str, Tensor]:
        """The exposures of the training images, where they are learnt."""
        return self.rays.auxiliary_parameters()

    def evaluate_at(self, positions: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Density [S] and colour [S, 3] before their activations.

        Args:
            positions: in the box as [0, 1]^3, [S, 3].
            directions: unit vectors, [S, 3].
        """
        inputs, density = colour_inputs(self.density(positions), directions)
        return density, self.colour(inputs)

    def raw_densities(self, positions: Tensor) -> Tensor:
        """Density before its activation at positions in the box as [0, 1]^3, [N, 3] to [N]."""
        return self.density(positions)[:, 0]

    def densities(self, positions: Tensor) -> Tensor:
        """Density at positions in the box as [0, 1]^3, [N, 3] to [N], per longest side of the box."""
        return self.raw_densities(positions).clamp(-MAX_DENSITY, MAX_DENSITY).exp()

    def after_step(self, step: int) -> None:
        """Updates the occupancy grid when it is due."""
        self.march.update(step, self.densities)

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
            sky = self.sky.image(camera)  # before the wait at the end of a frame
            colours, alpha, depth = self._march(camera, None)
            return torch.addcmul(colours, 1 - alpha[..., None], sky), alpha, depth
        return self._march(camera, background)

    def _march(self, camera: Camera, background: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """`layers` on a background of one colour."""
        evaluate = self._snapshot = refreshed_snapshot(self.density, self._snapshot)

        def query(x: Tensor, directions: Tensor | None, live: Tensor | None = None) -> tuple[Tensor, Tensor]:
            assert directions is not None
            colour, density = self.colour.with_directions(evaluate(x, live), directions, live)
            return density, colour

        counts = evaluate.supports_live_count() and self.colour.joins_directions()
        density_key = evaluate.key()
        key = None if density_key is None else (density_key, self.colour.weights.data_ptr())
        return self.march.layers(query, camera, background, counts=counts, key=key)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Moves or converts the field; discards what was prepared on the previous device."""
        self._snapshot = None
        return super()._apply(fn, recurse)

    def evaluate(self) -> dict[str, float]:
        """`scores`, aligned too if exposures are learnt."""
        return self.scores(aligned=self.config.learns_exposure)

    def scores(self, aligned: bool) -> dict[str, float]:
        """Mean PSNR (dB) and SSIM over the held-out views, see `CaptureRays.scores`."""
        return self.rays.scores(self.layers, aligned)


def _with_names_of_files(_: Any, state: OrderedDict[str, Any], prefix: str, *__: Any) -> None:
    """Gives the tensors of `March` in a state the names, and the order, that they have in files."""
    for name in [name for name in state if name.startswith(prefix)]:
        state[prefix + name[len(prefix) :].removeprefix("march.")] = state.pop(name)
    for name in ("live", "box"):
        state.move_to_end(prefix + name, last=False)


def _with_names_of_modules(state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Gives tensors of a file the names that `_with_names_of_files` has changed; missing tensors stay missing."""
    for name in MARCH_TENSORS:
        if prefix + name in state:
            state[f"{prefix}march.{name}"] = state.pop(prefix + name)
