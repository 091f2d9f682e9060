"""Wavefront ray marching of a field with counts on the device: some waves are one CUDA graph, which is replayed.

A wave (wavefront) is one pass over all rays that are still alive: each is marched to its next few samples, the field is
evaluated at all of them at once, colours are composited, and rays that have ended are left out of the next wave.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from luxel.render.fields.drawing.frame_mode import StreamOrder, frame_mode
from luxel.render.fields.drawing.wavefront_polled import LONGEST, PER_RAY
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_limits import MIN_TRANSMITTANCE
from luxel.render.ops.field.march_rays import Region
from luxel.render.ops.field.render_wave import begin_waves_, composite_wave_, march_wave_
from luxel.render.ops.field.wave_buffers import WaveRays, WaveSamples
from luxel.render.replay import Replay

# `luxel.render.fields.drawing.wavefront_polled.Evaluate` with the number of leading positions that count, int32 [1];
# directions are None if the renderer has none.
EvaluateLive = Callable[[Tensor, Tensor | None, Tensor], tuple[Tensor, Tensor | None]]

WAVES = 4  # of a graph; even, so that the list of live rays ends in the buffer that it began in
FRAMES = 16  # recent frames; the most graphs that one of them needed are launched for the next
SMALLEST = 1 << 16  # rays of a workspace, at least
FEWEST = 1 << 16  # rows of the field in a wave, at least


@dataclass
class _Workspace:
    """Buffers for the waves of one part of an image, at fixed addresses."""

    rays: WaveRays
    samples: WaveSamples
    part: Tensor  # width, first pixel, pixels: int32 [3]
    world_to_cam: Tensor
    intrinsics: Tensor
    background: Tensor
    occupancy: Tensor | None

    @classmethod
    def of(cls, rays: int, rows: int, directions: bool, occupancy: Tensor | None, like: Tensor) -> _Workspace:
        buffers = WaveRays.allocate(rays, WAVES, like)
        samples = WaveSamples.allocate(rows, buffers)
        return cls(
            buffers,
            samples if directions else samples._replace(directions=None),
            torch.zeros(3, dtype=torch.int32, device=like.device),
            like.new_zeros(4, 4),
            like.new_zeros(4),
            like.new_zeros(3),
            None if occupancy is None else torch.empty_like(occupancy),
        )


class WavefrontRenderer:
    """Images of one field, as `render_wavefront_polled` draws them, without waiting for the device between waves.

    An image is rendered in parts of complete rows. Each part gets as many waves as those of the last images needed; the
    number of live rays stays on the device, and a wave without any costs some microseconds. At the end of an image the
    host checks that all rays have ended, and draws a part where some have not again, with as many waves as it needs.

    Memory is retained from image to image, for the largest part so far, at most ``rays`` and ``rows``, and freed with
    the renderer. Threads take turns.

    Args:
        device: of the field.
        rays: largest part of an image.
        rows: positions at which the field is evaluated in a wave, at most.
        directions: whether the field depends on the direction.
    """

    def __init__(self, device: torch.device, rays: int, rows: int, directions: bool = True) -> None:
        self.device, self.rays, self.rows, self.directions = device, rays, rows, directions
        self.redrawn = 0  # parts rendered again so far
        self._replay: Replay[None] = Replay(device)
        self._workspace: _Workspace | None = None
        self._format: Hashable = None  # of the workspace: shape of the occupancy, dtype
        self._needed: deque[int] = deque(maxlen=FRAMES)  # graphs that the parts of the last images needed
        self._turn = threading.Lock()
        self._stream_order = StreamOrder(self.device)
        self._parts: tuple[Hashable, list[tuple[int, int]], Tensor] | None = None

    @property
    def captures(self) -> int:
        """Number of CUDA graphs captured so far."""
        return self._replay.captures

    @torch.no_grad()
    def render(
        self,
        evaluate: EvaluateLive,
        key: Hashable,
        camera: Camera,
        region: Region,
        occupancy: Tensor | None,
        background: Tensor,
        scale: float,
        min_transmittance: float = MIN_TRANSMITTANCE,
        layers: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The image of a camera.

        Args:
            evaluate: the field.
            key: what captured work depends on besides the contents of tensors; None: nothing is captured.
            camera, region, occupancy, background, scale, min_transmittance: as of `render_wavefront_polled`.
            layers: whether alpha and distance are needed.

        Returns:
            Colours [H, W, 3], alpha [H, W], and the mean distance along the ray by weight, [H, W]; without ``layers``
            the last two are empty.
        """
        with self._turn:
            self._stream_order.begin()
            workspace = self._workspace_for(camera, occupancy, background)
            workspace.world_to_cam.copy_(camera.world_to_cam)
            workspace.intrinsics.copy_(camera.intrinsics)
            workspace.background.copy_(background)
            if workspace.occupancy is not None and occupancy is not None:
                workspace.occupancy.copy_(occupancy)

            def waves() -> None:
                self._some_waves(workspace, evaluate, region, scale, min_transmittance)

            epoch = None if key is None else (key, id(workspace), region, scale, min_transmittance)
            captured = epoch is not None and frame_mode() == "captured"

            def advance() -> None:
                if captured:
                    self._replay.run(epoch, "waves", waves)
                else:
                    waves()

            image = _AssembledImage(camera, layers, background)
            self._draw(workspace, region, image, advance)
            self._stream_order.end()
            return image.tensors()

    def _draw(
        self, workspace: _Workspace, region: Region, image: _AssembledImage, advance: Callable[[], None]
    ) -> None:
        spans, parts = self._parts_of(image.width, image.height, len(workspace.rays.rgb))
        launches = max(self._needed, default=2)
        alive = workspace.part.new_zeros(len(parts), launches)
        for i, part in enumerate(parts):
            self._begin(workspace, region, part)
            for k in range(launches):
                advance()
                alive[i, k].copy_(workspace.rays.listed[WAVES])
            image.take(workspace.rays, *spans[i])
        most = 1
        for i, counts in enumerate(alive.tolist()):  # the only wait for the device in a frame
            if counts[-1] == 0:
                most = max(most, 1 + sum(count > 0 for count in counts))
                continue
            self.redrawn += 1
            self._begin(workspace, region, parts[i])
            graphs = 0
            while graphs < launches or int(workspace.rays.listed[WAVES]) > 0:
                advance()
                graphs += 1
            image.take(workspace.rays, *spans[i])
            most = max(most, graphs)
        self._needed.append(most)

    def _begin(self, workspace: _Workspace, region: Region, part: Tensor) -> None:
        """Puts the rays of a part on the list of the first wave."""
        workspace.part.copy_(part)
        workspace.rays.listed.zero_()
        view = workspace.world_to_cam, workspace.intrinsics, 0, 0, region, workspace.occupancy
        begin_waves_(workspace.rays, *view, workspace.background, part=workspace.part, wave=WAVES)

    def _some_waves(
        self,
        workspace: _Workspace,
        evaluate: EvaluateLive,
        region: Region,
        scale: float,
        min_transmittance: float,
    ) -> None:
        """The next `WAVES` waves: the work that is captured."""
        rays, samples = workspace.rays, workspace.samples
        count = len(rays.rgb)
        rays.listed[:1].copy_(rays.listed[WAVES:])
        rays.listed[1:].zero_()
        samples.requested.zero_()
        view = workspace.world_to_cam, workspace.intrinsics, 0, 0, region, workspace.occupancy
        for wave in range(WAVES):
            limits = {"most": LONGEST, "per_ray": PER_RAY, "fewest": FEWEST}
            march_wave_(wave, rays, samples, *view, listed=count, part=workspace.part, **limits)
            count_of_wave = samples.requested[wave : wave + 1]
            density, colour = evaluate(samples.positions, samples.directions, count_of_wave)
            composite_wave_(
                wave,
                rays,
                samples,
                density,
                colour,
                region,
                workspace.background,
                listed=count,
                scale=scale,
                min_transmittance=min_transmittance,
                part=workspace.part,
            )

    def _workspace_for(self, camera: Camera, occupancy: Tensor | None, background: Tensor) -> _Workspace:
        """The workspace, allocated again if it is too small or has another format."""
        needed = max(min(camera.width * camera.height, self.rays), camera.width, SMALLEST)
        buffers = None if occupancy is None else occupancy.shape, background.dtype
        if self._workspace is None or self._format != buffers or len(self._workspace.rays.rgb) < needed:
            self._replay.forget()
            self._workspace = None  # freed before the next is allocated
            rays = 1 << (needed - 1).bit_length()
            rows = min(self.rows, PER_RAY * rays)
            self._workspace = _Workspace.of(rays, rows, self.directions, occupancy, background)
            self._format = buffers
        return self._workspace

    def _parts_of(self, width: int, height: int, capacity: int) -> tuple[list[tuple[int, int]], Tensor]:
        """First pixel and pixels of each part; on the device, with the width before them, int32 [parts, 3]."""
        key = width, height, capacity
        if self._parts is None or self._parts[0] != key:
            rows = rows_per_part(width, height, min(capacity, max(self.rays, width)))
            tops = range(0, height, rows)
            spans = [(top * width, min(rows, height - top) * width) for top in tops]
            rows_of_tensor = [[width, *span] for span in spans]
            self._parts = key, spans, torch.tensor(rows_of_tensor, dtype=torch.int32).to(self.device)
        return self._parts[1:]


def rows_per_part(width: int, height: int, rays: int) -> int:
    """Rows of a part of at most ``rays`` rays: parts of about equal size, in full tiles of 8 rows if possible."""
    most = max(1, min(height, rays // width))
    parts = -(-height // most)
    even = -(-height // parts)
    tiles = -(-even // 8) * 8
    return tiles if tiles <= most else even


class _AssembledImage:
    """An image that is assembled from parts."""

    def __init__(self, camera: Camera, layers: bool, like: Tensor) -> None:
        self.width, self.height = camera.width, camera.height
        count = self.width * self.height
        self.colours = like.new_empty(count, 3)
        self.alpha, self.depth = (like.new_empty(count if layers else 0) for _ in range(2))

    def take(self, rays: WaveRays, first: int, count: int) -> None:
        """Copies the pixels of a part."""
        end = first + count
        self.colours[first:end].copy_(rays.rgb[:count])
        if len(self.alpha):
            torch.neg(rays.transmittance[:count], out=self.alpha[first:end]).add_(1)
            self.depth[first:end].copy_(rays.depth[:count])

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Colours, alpha and distance of the full image."""
        shape = self.height, self.width
        flat = shape if len(self.alpha) else (0, 0)
        return self.colours.view(*shape, 3), self.alpha.view(flat), self.depth.view(flat)
