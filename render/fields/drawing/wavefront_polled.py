"""Wavefront ray marching of a field; the host reads the number of live rays from the device wave by wave."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.march_limits import MIN_TRANSMITTANCE
from luxel.render.ops.field.march_rays import MAX_RAY_SAMPLES, Region
from luxel.render.ops.field.render_wave import begin_waves_, composite_wave_, march_wave_
from luxel.render.ops.field.wave_buffers import WaveRays, WaveSamples

# Positions [S, 3] in [0, 1]^3 and directions [S, 3] to density [S] and colour [S, 3] before their activations; or to
# both as they are, [S, 4], and None.
Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]]

RAYS = 1 << 20  # of a part of an image
PER_RAY = 8  # samples of a ray in a wave, about
FEWEST, MOST = 1 << 14, 1 << 20  # rows of the field in a wave; on a CPU a sixteenth of the latter
LONGEST = 64  # samples of a ray in a wave, at most


class _Counts:
    """Counts on the device that the host reads one wave late, so that neither waits for the other."""

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers
        self.pinned = numbers.device.type == "cuda"
        self.host = torch.zeros(len(numbers), dtype=numbers.dtype, device="cpu", pin_memory=self.pinned)
        self.events: dict[int, torch.cuda.Event] = {}

    def send(self, which: int) -> None:
        """Starts to copy a count to the host, after the work of this stream so far."""
        self.host[which].copy_(self.numbers[which], non_blocking=True)
        if self.pinned:
            self.events[which] = torch.cuda.Event()
            self.events[which].record(torch.cuda.current_stream(self.numbers.device))

    def get(self, which: int) -> int:
        """A count that was sent; waits for its arrival."""
        if which in self.events:
            self.events.pop(which).synchronize()
        return int(self.host[which])


@torch.no_grad()
def render_wavefront_polled(
    evaluate: Evaluate,
    camera: Camera,
    region: Region,
    occupancy: Tensor | None,
    background: Tensor,
    scale: float,
    min_transmittance: float = MIN_TRANSMITTANCE,
    rays: int = RAYS,
    rows: int = MOST,
) -> tuple[Tensor, Tensor, Tensor]:
    """The image of a camera by wavefront ray marching; see `luxel.render.fields.drawing.wavefront`.

    Args:
        evaluate: the field; also called with padding rows whose results are ignored.
        camera: one, on the device.
        region, occupancy: as in `luxel.render.ops.field.march_rays.march_rays`.
        background: [3].
        scale: 1 / the unit of length of the density.
        min_transmittance: a ray ends when its transmittance is below this.
        rays: of a part of the image.
        rows: positions at which the field is evaluated in a wave, at most; on a CPU a sixteenth of that.

    Returns:
        Colours [H, W, 3], alpha [H, W], and the mean distance along the ray by weight, [H, W].
    """
    height, width = camera.height, camera.width
    image = background.new_empty(height * width, 5)
    view = camera.world_to_cam.to(background), camera.intrinsics.to(background), width
    for first in range(0, height * width, rays):
        count = min(rays, height * width - first)
        part = (*view, first, region, occupancy)
        ended = _march_to_end(evaluate, part, count, region, background, scale, min_transmittance, rows)
        part = image[first : first + count]
        part[:, :3], part[:, 3], part[:, 4] = ended.rgb, 1 - ended.transmittance, ended.depth
    image = image.view(height, width, 5)
    return image[..., :3], image[..., 3], image[..., 4]


def _march_to_end(
    evaluate: Evaluate,
    part: tuple[Tensor, Tensor, int, int, Region, Tensor | None],
    count: int,
    region: Region,
    background: Tensor,
    scale: float,
    min_transmittance: float,
    most: int,
) -> WaveRays:
    """Marches the rays of some pixels until all have ended."""
    rays = WaveRays.allocate(count, MAX_RAY_SAMPLES, background)
    begin_waves_(rays, *part, background)
    counts = _Counts(rays.listed)
    counts.send(0)
    alive = counts.get(0)  # as of the last wave but one, from the second on
    most = most if background.device.type == "cuda" else most // 16
    samples = WaveSamples.allocate(max(1, min(most, max(FEWEST, PER_RAY * alive))), rays)
    for wave in range(rays.waves):
        if wave > 1:
            alive = counts.get(wave - 1)
        if alive == 0:
            break
        rows = min(len(samples.t), max(FEWEST, PER_RAY * alive))
        assert samples.directions is not None
        given = samples._replace(
            positions=samples.positions[:rows], directions=samples.directions[:rows], t=samples.t[:rows]
        )
        march_wave_(wave, rays, given, *part, listed=alive, most=LONGEST)
        assert given.directions is not None
        density, colour = evaluate(given.positions, given.directions)
        composite_wave_(
            wave,
            rays,
            given,
            density,
            colour,
            region,
            background,
            listed=alive,
            scale=scale,
            min_transmittance=min_transmittance,
        )
        counts.send(wave + 1)
    return rays
