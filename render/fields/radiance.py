"""A radiance field (NeRF) on a hash grid, trained on photographs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from luxel.render.camera import Camera, View
from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.fields.build import field_of, mlp_of
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.drawing.frames import planned
from luxel.render.fields.drawing.frozen import Frozen, key_of, renewed, supports_live_count
from luxel.render.fields.drawing.wave_plan import WavePlan
from luxel.render.fields.drawing.waves import render_waves
from luxel.render.fields.occupancy import Occupancy
from luxel.render.fields.photographs import BLENDER_BOX, Capture, Photographs, box_of, read_view, target_of
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
RAYS_OF_PART, ROWS_OF_WAVE = 1 << 21, 1 << 21  # of a picture, and of the field; 0.7 GB
JUDGED = 8  # views that it is trained on, where none are held out


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
    hidden layers to the colour. Samples lie in the occupied cells of a box, a 1024th of its diagonal apart. A step is
    of those that can be seen, which the density alone tells first; how many rays it has follows from how many samples
    they need. Density is counted by the longest side of the box.

    A subclass with other ``cells`` and ``places`` is for small scenes.
    """

    kind: ClassVar[str] = "radiance"
    cells: ClassVar[int] = 128  # of the occupancy grid, along each axis
    places: ClassVar[int] = 1024  # along the diagonal of the box

    box: Tensor
    live: Tensor

    def __init__(self, config: FieldConfig) -> None:
        super().__init__(config)
        self.density = field_of(config, 3, FEATURES)
        self.density.coherent = True  # samples along rays, cells in their order
        self.colour = mlp_of(config, FEATURES + HARMONICS, 3)
        self.occupancy = Occupancy(self.cells)
        self.rays = max(1, config.batch // 2)  # of a step at most
        self.register_buffer("box", torch.tensor(BLENDER_BOX, dtype=torch.float64))
        self.register_buffer("live", torch.tensor([max(1, config.batch // 1024)], dtype=torch.int32))
        self._region: tuple[Any, Region] | None = None
        self._frozen: Frozen | None = None
        self._plan: WavePlan | None = None
        self._capture: Capture | None = None
        self._photographs: Photographs | None = None
        self._background: Tensor | None = None

    @classmethod
    def suited(cls, config: FieldConfig, data: Capture | Sequence[View]) -> FieldConfig:
        """With a coarser finest level, unless it is given, where what is cut out fills the box."""
        views = data.views if isinstance(data, Capture) else data
        cut_out = len(views) > 0 and read_view(views[0])[0].shape[1] == 4
        return config.with_finest(FINEST_OF_OBJECTS) if cut_out and config.finest is None else config

    @property
    def region(self) -> Region:
        """Where it is sampled; read from the device where it has changed."""
        version = self.box.data_ptr(), self.box._version
        if self._region is None or self._region[0] != version:
            found = Region.of_box(self.box.tolist(), places=self.places, resolution=self.cells)
            self._region = version, found
        return self._region[1]

    @property
    def centres(self) -> Tensor:
        """The corners of its box, [8, 3]."""
        low, high = self.region.box[:3], self.region.box[3:]
        ends = [torch.tensor(pair, device=self.device) for pair in zip(low, high, strict=True)]
        return torch.cartesian_prod(*ends)

    def begin(self, data: Capture | Sequence[View], device: torch.device) -> None:
        """Takes photographs.

        Args:
            data: a capture, or its views alone.
            device: where the parameters are; the photographs are sent there.

        Raises:
            LuxelError: there are no photographs, one has another size than its camera says, or the box is empty.
        """
        capture = data if isinstance(data, Capture) else Capture(list(data))
        self._photographs = Photographs.read(capture.views, device)
        transparent = self._photographs.pixels.shape[1] == 4
        box = capture.box or box_of(capture.views, None if transparent else capture.points)
        if not all(low < high for low, high in zip(box[:3], box[3:], strict=True)):
            raise LuxelError(f"The box {list(box)} is empty.", "Give low x y z, then high x y z.")
        self.box.copy_(torch.tensor(box, dtype=torch.float64))
        self._capture = capture
        fixed = None if transparent and capture.random_background else capture.background
        self._background = None if fixed is None else torch.tensor(fixed, device=device)
        assert self.region.box is not None  # read now: a captured step must not

    def draw_batch(self, generator: torch.Generator) -> Drawn:
        """Random pixels, as many as the last steps have shown to fill a batch of samples that can be seen."""
        shown = self._shown()
        numbers = torch.randint(2**62, (self.rays,), generator=generator, device=generator.device)
        drawn = draw_pixels(numbers, shown.pixels, shown.candidates, self._background, self.live)
        return Drawn(numbers[:1], *drawn)

    def loss(self, batch: Drawn) -> Tensor:
        """The mean over rays of Huber's loss of their colours."""
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
        rays = samples.counters[RAYS] - samples.counters[LEFT_OUT]  # those without room teach nothing
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
        """Density at positions in the box as [0, 1]^3, [N, 3] to [N], by the longest side of the box."""
        return self.density(positions)[:, 0].clamp(-MOST_DENSITY, MOST_DENSITY).exp()

    def after_step(self, step: int) -> None:
        """Looks anew at what is occupied, now and then."""
        if self.occupancy.due(step):
            self.occupancy.update(step, self.densities, self.config.seed)

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """What a camera sees, [H, W, 3] in [0, 1], sRGB as the photographs.

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
        evaluate = self._frozen = renewed(self.density, self._frozen)

        def query(x: Tensor, directions: Tensor | None, live: Tensor | None = None) -> tuple[Tensor, Tensor]:
            assert directions is not None
            colour, density = self.colour.beside_directions(evaluate(x, live), directions, live)
            return density, colour

        given = camera, region, self.occupancy.bits, behind, 1 / self.region.size
        if not (planned(self.device) and supports_live_count(evaluate) and self.colour.joins_directions()):
            return render_waves(query, *given)
        if self._plan is None:
            self._plan = WavePlan(self.device, RAYS_OF_PART, ROWS_OF_WAVE)
        density_key = key_of(evaluate)
        key = None if density_key is None else (density_key, self.colour.weights.data_ptr())
        return self._plan.render(query, key, *given)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Also where it goes to another device."""
        self._frozen = self._plan = None
        return super()._apply(fn, recurse)

    def evaluate(self) -> dict[str, float]:
        """Mean PSNR (dB) and SSIM over the held-out views, or over some that it is trained on."""
        self._shown()
        assert self._capture is not None
        views = list(self._capture.held_out) or list(self._capture.views)[:JUDGED]
        behind = torch.tensor(self._capture.background, device=self.device)
        scores: list[tuple[float, float]] = []
        for view in views:
            wanted, weight = target_of(view, behind)
            found = self.render(view.camera.to(self.device), behind).clamp(0, 1)
            scores.append((psnr(found, wanted, weight), ssim(found, wanted, weight)))
        return {
            "psnr": sum(s[0] for s in scores) / len(scores),
            "ssim": sum(s[1] for s in scores) / len(scores),
        }

    def _samples(self, batch: Drawn) -> Samples:
        """Samples of a step: those that can be seen, or all."""
        capacity = self.config.batch
        target = _nearly(capacity)
        if self.config.marched == 0:
            return self._marched(batch, capacity, target)
        room = capacity * self.config.marched
        raw = self._marched(batch, room, 0)
        if raw.t.device.type == "cpu":  # which does without the rows that hold nothing
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
            raw_target=_nearly(room),
        )

    def _marched(self, batch: Drawn, capacity: int, target: int) -> Samples:
        shown = self._shown()
        return march_pixels(
            batch.pixels,
            shown.table,
            shown.world_to_cam,
            shown.intrinsics,
            self.region._replace(near=shown.near),
            self.occupancy.bits,
            capacity=capacity,
            seed=batch.seed,
            live=self.live,
            target=target,
        )

    def _shown(self) -> Photographs:
        if self._photographs is None:
            raise LuxelError("This radiance field has no photographs.", "Call begin with a capture first.")
        return self._photographs


def _nearly(room: int) -> int:
    """How many samples are to fill it, so that rarely a ray has none."""
    return max(1, room - room // 16)
