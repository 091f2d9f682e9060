"""Volume fields: positions to density and albedo."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from luxel.render.errors import LuxelError
from luxel.render.fields.application import TO_SUN, Application
from luxel.render.fields.applications import CONFIGURATIONS
from luxel.render.fields.build import field_of
from luxel.render.fields.config import FieldConfig
from luxel.render.fields.drawing.delta_tracking import track_sunlit
from luxel.render.fields.drawing.frame_mode import counts_on_device
from luxel.render.fields.drawing.rays import camera_rays
from luxel.render.fields.drawing.uniform_march import march_uniform
from luxel.render.fields.drawing.wavefront import WavefrontRenderer
from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.fields.nets.point_function import Snapshot, refreshed_snapshot
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_rays import Region, pack_cells

STEPS = 256  # along the longest side of the box, of a render of the truth
FIELD_STEPS = 64  # the same of a render of the field
DIM = 4e-3  # transmittance at which a ray of the field ends: about one of 256 grey levels
CELLS = {"cpu": 32, "cuda": 128}  # cells along an axis that rays skip if empty, by device
EMPTY = 1e-3  # share of the highest density at most in a cell that is skipped
PATHS = {"cpu": 4, "cuda": 32}  # of a pixel in the light of a sun, by device
HEADROOM = 1.05  # of the field's densities over the highest of its data
RAYS, ROWS = 1 << 21, 1 << 23  # of a part of an image, and positions in a wave, at most
CHUNK = 1 << 20  # positions at a time
DEPTH = 24.0  # optical depth of a unit of length where a grid has its highest value
GREY = 0.9  # albedo of a grid without albedo
PROBES = 1 << 18  # positions at which the highest density is searched
SCORED = {"cpu": 48, "cuda": 256}  # pixels along the sides of the views of a measurement, by device
ALBEDO_WEIGHT, FAINT = (
    0.5,
    0.02,
)  # of the loss: weight of the albedo, and the density share below which it fades

Sampler = Callable[[Tensor], Tensor]


class VolumeField(Application):
    """Fits density and albedo (Müller et al. 2022; the volumes of Mubarik et al. 2023, "NVR").

    The loss is the squared error at random positions, of the density as a share of the highest, and of the albedo in
    proportion to the density that shows it. The network's outputs are clamped at 0. In the loss, a negative output has
    no error where the target is 0, and its unclamped error elsewhere, so that its gradient does not vanish.

    Attributes:
        extent: buffer, sides of the box, whose lower corner is the origin and whose longest side is 1, [3].
        peak: buffer, density per unit of length for a result of 1, scalar.
    """

    kind = "volume"
    training_defaults = CONFIGURATIONS["volume"].defaults
    hash_growth = 1.275
    data_type = "volume"
    surface_level = 10.0
    outputs = ("colour", "shadows")
    extent: Tensor
    peak: Tensor

    def __init__(self, config: FieldConfig) -> None:
        super().__init__(config)
        self.field = field_of(config, 3, 4)
        self.register_buffer("extent", torch.ones(3))
        self.register_buffer("peak", torch.ones(()))
        self._truth: Sampler | None = None
        self._cells: Tensor | None = None
        self._marching: tuple[Region, float] | None = None
        self._snapshot: Snapshot | None = None
        self._renderer: WavefrontRenderer | None = None
        self.register_load_state_dict_post_hook(lambda *_: self._forget())

    def begin(self, data: Any, device: torch.device) -> None:
        """Takes a volume.

        Args:
            data: a grid of densities [Z, Y, X], or of density and albedo [Z, Y, X, 4], values at the centres of voxels;
                or a module that gives density (per unit of length) and albedo [S, 4] at positions [S, 3] in the unit
                cube.
            device: where it is trained.

        Raises:
            LuxelError: it is neither, is empty, or has negative or non-finite values or albedos above 1.
        """
        if isinstance(data, nn.Module):
            self._truth = data.to(device).forward  # not the module, which would become part of the field
        else:
            grid = _checked(data)
            sides = torch.tensor(grid.shape[2::-1], dtype=torch.float32)
            self.extent.copy_(sides / sides.max())
            self._truth = GridVolume(grid).to(device).forward
        generator = torch.Generator(device).manual_seed(self.config.seed)
        highest = self._truth(torch.rand(PROBES, 3, generator=generator, device=device))[:, 0].max()
        if not float(highest) > 0:
            raise LuxelError("The volume is empty: no density is above 0.", "Give another volume.")
        self.peak.copy_(highest)
        self._forget()

    def draw_batch(self, generator: torch.Generator) -> Tensor:
        """Positions, uniform in the unit cube, [S, 3]."""
        return torch.rand(self.config.batch, 3, generator=generator, device=self.device)

    def loss(self, batch: Tensor) -> Tensor:
        """Weighted squared error at positions [S, 3] of the unit cube."""
        assert self._truth is not None, "begin comes first"
        with torch.no_grad():
            target = self._truth(batch)
            density = target[:, :1] / self.peak
            target = torch.cat([density, target[:, 1:]], 1)
            weight = torch.cat(
                [torch.ones_like(density), *[ALBEDO_WEIGHT * (density / FAINT).clamp(0, 1)] * 3], 1
            )
        values = self.field(batch)
        difference = torch.where((values < 0) & (target <= 0), 0.0, values - target)
        return (weight * difference.square()).mean()

    def after_step(self, step: int) -> None:
        """Discards the occupied cells, which were computed from the previous parameters."""
        self._cells = None

    def values(self, positions: Tensor) -> Tensor:
        """Density per unit of length and albedo at positions [S, 3] along rays through the unit cube, [S, 4]."""
        values = self.field(positions, coherent=True).clamp_min(0)
        return torch.cat([values[:, :1] * self.peak, values[:, 1:].clamp_max(1)], 1)

    def render(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The volume in constant sunlight, [H, W, 3]; no gradients."""
        region, peak = self._region()
        background = self.extent.new_zeros(3) if background is None else background.to(self.extent)
        evaluate = self._snapshot = refreshed_snapshot(self.field, self._snapshot)
        given = camera.to(self.device), region, self.occupied_cells(), background, peak, DIM
        if not (counts_on_device(self.device) and evaluate.supports_live_count()):
            layers = render_wavefront_polled(
                lambda x, directions: (evaluate(x), None), *given, rays=RAYS, rows=ROWS
            )
            return layers[0].clamp(0, 1)
        if self._renderer is None:
            self._renderer = WavefrontRenderer(self.device, RAYS, ROWS, directions=False)

        def query(x: Tensor, directions: Tensor | None, live: Tensor) -> tuple[Tensor, None]:
            return evaluate(x, live), None

        return self._renderer.render(query, evaluate.key(), *given, layers=False)[0].clamp_(0, 1)

    def render_sunlit(
        self, camera: Camera, background: Tensor | None = None, to_sun: tuple[float, float, float] = TO_SUN
    ) -> Tensor:
        """The volume in the light of a sun with shadows, by `track_sunlit` with `PATHS` paths a pixel, [H, W, 3]; the
        same for the same parameters. Densities above `HEADROOM` times the highest that was trained on are cut."""
        origins, directions = camera_rays(camera.to(self.device))
        evaluate, peak, extent = self.field.snapshot(), float(self.peak), self.extent

        def sample(positions: Tensor) -> Tensor:
            values = evaluate(positions / extent).clamp_min(0)
            return torch.cat([values[:, :1] * peak, values[:, 1:].clamp_max(1)], 1)

        colours = track_sunlit(
            sample,
            origins,
            directions,
            torch.zeros_like(extent),
            extent,
            HEADROOM * peak,
            nn.functional.normalize(extent.new_tensor(to_sun), dim=0),
            extent.new_zeros(3) if background is None else background.to(extent),
            PATHS[self.device.type],
            torch.Generator(self.device).manual_seed(0),
        )
        return colours.clamp(0, 1).reshape(camera.height, camera.width, 3)

    @torch.no_grad()
    def occupied_cells(self) -> Tensor:
        """A bit for each cell of the unit cube that may hold something, as
        `luxel.render.ops.field.march_rays.pack_cells`.

        The field is evaluated in the middle of each eighth of a cell; a cell is empty where its own eighths and those
        around it are. Computed again only after the parameters have changed.
        """
        if self._cells is None:
            evaluate, fine = self.field.snapshot(), 2 * self._region()[0].resolution
            along = (torch.arange(fine, device=self.device) + 0.5).to(self.extent) / fine
            y, x = torch.meshgrid(along, along, indexing="ij")
            planes = []
            for z in along.split(max(1, CHUNK // fine**2)):
                shape = (len(z), fine, fine)
                positions = torch.stack(
                    [x.expand(shape), y.expand(shape), z[:, None, None].expand(shape)], -1
                )
                planes.append((evaluate(positions.view(-1, 3))[:, 0] > EMPTY).view(shape))
            above = torch.cat(planes).to(torch.float16 if self.device.type == "cuda" else torch.float32)
            above = nn.functional.max_pool3d(above[None, None], 4, 2, 1)[0, 0]
            self._cells = pack_cells(above > 0)
        return self._cells

    def render_truth(self, camera: Camera, background: Tensor | None = None) -> Tensor:
        """The volume that it is trained on, rendered in the same way, [H, W, 3]."""
        assert self._truth is not None, "begin comes first"
        return self._march_uniform(self._truth, camera, background)

    def evaluate(self) -> dict[str, float]:
        """PSNR of renders against those of the truth, over three views on white, and the mean error of the density."""
        assert self._truth is not None, "begin comes first"
        white = torch.ones(3, device=self.device)
        error = 0.0
        for camera in self.views(SCORED[self.device.type]):
            off = self.render(camera, white) - self.render_truth(camera, white)
            error += float(off.double().square().mean()) / 3
        generator = torch.Generator(self.device).manual_seed(1)
        positions = torch.rand(PROBES, 3, generator=generator, device=self.device)
        with torch.no_grad():
            wrong = (self.values(positions) - self._truth(positions))[:, 0].abs().mean() / self.peak
        return {"psnr": -10 * math.log10(max(error, 1e-12)), "mean_density_error": float(wrong)}

    def views(self, side: int) -> list[Camera]:
        """Three cameras around the box, of side x side pixels."""
        middle = (0.5 * self.extent).cpu()
        eyes = torch.tensor([[1.1, 0.9, 0.6], [-1.2, 0.5, 0.3], [0.2, -1.1, 1.0]]) + middle
        cameras = [Camera.look_at(eye, middle.tolist(), width=side, height=side) for eye in eyes.tolist()]
        return [camera.to(self.device) for camera in cameras]

    def densities(self, positions: Tensor) -> Tensor:
        """Density per unit of length at positions of the unit cube, [N, 3] to [N]."""
        return self.values(positions)[:, 0]

    @property
    def region(self) -> Region:
        """Its box, and how rays are sampled in it."""
        return self._region()[0]

    @property
    def centres(self) -> Tensor:
        """The corners of the box, [8, 3]."""
        return super().centres * self.extent

    def _region(self) -> tuple[Region, float]:
        """`region`, and the density for a result of 1; read from the device once."""
        if self._marching is None:
            sides = self.extent.tolist()
            resolution = CELLS[self.device.type]
            self._marching = (
                Region((0, 0, 0, *sides), 1 / FIELD_STEPS, resolution=resolution),
                float(self.peak),
            )
        return self._marching

    def _forget(self) -> None:
        """Discards what was computed from previous parameters and box."""
        self._cells = self._marching = None

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Moves or converts the field; discards what was prepared on the previous device."""
        self._forget()
        self._snapshot = self._renderer = None
        return super()._apply(fn, recurse)

    def _march_uniform(self, sample: Sampler, camera: Camera, background: Tensor | None) -> Tensor:
        origins, directions = camera_rays(camera)
        background = torch.zeros(3, device=origins.device) if background is None else background
        extent = self.extent
        low = torch.zeros_like(extent)
        colours = march_uniform(
            lambda x: sample(x / extent), origins, directions, low, extent, 1 / STEPS, background
        )
        return colours.clamp(0, 1).reshape(camera.height, camera.width, 3)


class GridVolume(nn.Module):
    """A volume on a grid, linear between the centres of its voxels.

    Args:
        grid: density and albedo, float [Z, Y, X, 4]; its highest density becomes an optical depth of `DEPTH`.
    """

    grid: Tensor

    def __init__(self, grid: Tensor) -> None:
        super().__init__()
        grid = grid.clone()
        grid[..., 0] *= DEPTH / grid[..., 0].max().clamp_min(1e-30)
        self.register_buffer("grid", grid.permute(3, 0, 1, 2)[None].contiguous())

    def forward(self, positions: Tensor) -> Tensor:
        """Density and albedo at positions [S, 3] of the unit cube (x, y, z), [S, 4]."""
        coordinates = (2 * positions - 1)[None, None, None]
        values = nn.functional.grid_sample(
            self.grid, coordinates, mode="bilinear", padding_mode="border", align_corners=False
        )
        return values[0, :, 0, 0].T


def _checked(data: Any) -> Tensor:
    """A grid of density and albedo, [Z, Y, X, 4]."""
    if not isinstance(data, np.ndarray | Tensor) or data.ndim not in (3, 4) or 0 in data.shape:
        shape = list(getattr(data, "shape", [])) or type(data).__name__
        raise LuxelError(f"A volume must be [Z, Y, X] or [Z, Y, X, 4], got {shape}.", "Give such a grid.")
    if data.ndim == 4 and data.shape[3] != 4:
        raise LuxelError(
            f"A volume with albedo must be [Z, Y, X, 4], got {list(data.shape)}.",
            "Its last axis is density, red, green, blue.",
        )
    grid = torch.as_tensor(data).float()
    if not bool(grid.isfinite().all()):
        raise LuxelError("The volume has values that are not finite.", "Replace its NaNs and infinities.")
    if not bool((grid >= 0).all()):
        raise LuxelError("The volume has negative values.", "Densities and albedos are 0 or more.")
    if grid.ndim == 3:
        return torch.cat([grid[..., None], torch.full((*grid.shape, 3), GREY)], -1)
    if float(grid[..., 1:].max()) > 1:
        raise LuxelError("The volume has albedos above 1.", "Albedos are in [0, 1].")
    return grid
