"""Draws a field in waves that the host does not look at: on a GPU some waves are one CUDA graph, which is replayed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.fields.drawing.frames import InTurn, frame_mode
from luxel.render.fields.drawing.waves import LONGEST, PER_RAY
from luxel.render.ops.field.composite import MIN_TRANSMITTANCE
from luxel.render.ops.field.march_rays import Region
from luxel.render.ops.field.render_wave import (
    WaveRays,
    WaveSamples,
    begin_waves_,
    composite_wave_,
    march_wave_,
)
from luxel.render.replay import Replay

# As `luxel.render.fields.drawing.waves.Evaluate`, with how many of the positions are wanted, int32 [1];
# directions are None where the plan has none.
EvaluateLive = Callable[[Tensor, Tensor | None, Tensor], tuple[Tensor, Tensor | None]]

WAVES = 4  # of a graph; even, so that a list ends where it began
FRAMES = 16  # whose waves say how many the next frame gets
SMALLEST = 1 << 16  # rays that there is room for, at least
FEWEST = 1 << 16  # rows of the field in a wave that take hardly longer than none


@dataclass
class _Room:
    """What the waves of a part of a picture work on, always in the same memory."""

    rays: WaveRays
    samples: WaveSamples
    part: Tensor  # width, first pixel, pixels: int32 [3]
    world_to_cam: Tensor
    intrinsics: Tensor
    background: Tensor
    occupancy: Tensor | None

    @classmethod
    def of(cls, rays: int, rows: int, directions: bool, occupancy: Tensor | None, like: Tensor) -> _Room:
        held = WaveRays.room(rays, WAVES, like)
        samples = WaveSamples.room(rows, held)
        return cls(
            held,
            samples if directions else samples._replace(directions=None),
            torch.zeros(3, dtype=torch.int32, device=like.device),
            like.new_zeros(4, 4),
            like.new_zeros(4),
            like.new_zeros(3),
            None if occupancy is None else torch.empty_like(occupancy),
        )


class WavePlan:
    """Pictures of one field, as `luxel.render.fields.drawing.waves.render_waves` draws them; that one waits
    for the device.

    A picture is drawn in parts of whole rows. Each gets as many waves as the parts of the last pictures needed, on
    counts that stay on the device; waves that find no ray left cost some microseconds. At the end of a picture the host
    looks whether all rays were finished. A part that was not is drawn again, with as many waves as it takes.

    Memory is kept from picture to picture for the largest part so far, at most ``rays`` and ``rows``, and freed with
    the plan. Threads take turns.

    Args:
        device: of the field.
        rays: of a part of the picture, at most.
        rows: of the field in a wave, at most.
        directions: whether the field asks for them.
    """

    def __init__(self, device: torch.device, rays: int, rows: int, directions: bool = True) -> None:
        self.device, self.rays, self.rows, self.directions = device, rays, rows, directions
        self.redrawn = 0  # parts so far
        self._replay: Replay[None] = Replay(device)
        self._room: _Room | None = None
        self._kind: Hashable = None  # of field that the room is for
        self._needed: deque[int] = deque(maxlen=FRAMES)  # graphs of the parts of the last pictures
        self._turn = threading.Lock()
        self._in_turn = InTurn(self.device)
        self._parts: tuple[Hashable, list[tuple[int, int]], Tensor] | None = None

    @property
    def captures(self) -> int:
        """How many CUDA graphs have been captured."""
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
        """What a camera sees of a field.

        Args:
            evaluate: the field.
            key: what captured work depends on in it beside the contents of tensors. None: nothing is captured.
            camera, region, occupancy, background, scale, min_transmittance: as of `render_waves`.
            layers: whether alpha and distance are asked for.

        Returns:
            Colours [H, W, 3], alpha [H, W], and the mean distance along the ray by weight, [H, W]; without ``layers``
            the last two are empty.
        """
        with self._turn:
            self._in_turn.begin()
            room = self._fitting(camera, occupancy, background)
            room.world_to_cam.copy_(camera.world_to_cam)
            room.intrinsics.copy_(camera.intrinsics)
            room.background.copy_(background)
            if room.occupancy is not None and occupancy is not None:
                room.occupancy.copy_(occupancy)

            def waves() -> None:
                self._some_waves(room, evaluate, region, scale, min_transmittance)

            epoch = None if key is None else (key, id(room), region, scale, min_transmittance)
            captured = epoch is not None and frame_mode() == "captured"

            def advance() -> None:
                if captured:
                    self._replay.run(epoch, "waves", waves)
                else:
                    waves()

            picture = _Picture(camera, layers, background)
            self._draw(room, region, picture, advance)
            self._in_turn.end()
            return picture.tensors()

    def _draw(self, room: _Room, region: Region, picture: _Picture, advance: Callable[[], None]) -> None:
        places, parts = self._parts_of(picture.width, picture.height, len(room.rays.rgb))
        planned = max(self._needed, default=2)
        left = room.part.new_zeros(len(parts), planned)
        for i, part in enumerate(parts):
            self._begin(room, region, part)
            for k in range(planned):
                advance()
                left[i, k].copy_(room.rays.listed[WAVES])
            picture.take(room.rays, *places[i])
        most = 1
        for i, counts in enumerate(left.tolist()):  # the one time that the host waits
            if counts[-1] == 0:
                most = max(most, 1 + sum(count > 0 for count in counts))
                continue
            self.redrawn += 1
            self._begin(room, region, parts[i])
            graphs = 0
            while graphs < planned or int(room.rays.listed[WAVES]) > 0:
                advance()
                graphs += 1
            picture.take(room.rays, *places[i])
            most = max(most, graphs)
        self._needed.append(most)

    def _begin(self, room: _Room, region: Region, part: Tensor) -> None:
        """Lists the rays of a part where the first wave finds them."""
        room.part.copy_(part)
        room.rays.listed.zero_()
        view = room.world_to_cam, room.intrinsics, 0, 0, region, room.occupancy
        begin_waves_(room.rays, *view, room.background, part=room.part, wave=WAVES)

    def _some_waves(
        self, room: _Room, evaluate: EvaluateLive, region: Region, scale: float, min_transmittance: float
    ) -> None:
        """What is captured: it goes on where the last ones ended."""
        rays, samples = room.rays, room.samples
        count = len(rays.rgb)
        rays.listed[:1].copy_(rays.listed[WAVES:])
        rays.listed[1:].zero_()
        samples.requested.zero_()
        view = room.world_to_cam, room.intrinsics, 0, 0, region, room.occupancy
        for wave in range(WAVES):
            limits = {"most": LONGEST, "per_ray": PER_RAY, "fewest": FEWEST}
            march_wave_(wave, rays, samples, *view, listed=count, part=room.part, **limits)
            asked = samples.requested[wave : wave + 1]
            density, colour = evaluate(samples.positions, samples.directions, asked)
            composite_wave_(
                wave,
                rays,
                samples,
                density,
                colour,
                region,
                room.background,
                listed=count,
                scale=scale,
                min_transmittance=min_transmittance,
                part=room.part,
            )

    def _fitting(self, camera: Camera, occupancy: Tensor | None, background: Tensor) -> _Room:
        """The room, made anew where it is too small or for something else."""
        wanted = max(min(camera.width * camera.height, self.rays), camera.width, SMALLEST)
        kind = None if occupancy is None else occupancy.shape, background.dtype
        if self._room is None or self._kind != kind or len(self._room.rays.rgb) < wanted:
            self._replay.forget()
            self._room = None  # freed before there is another
            rays = 1 << (wanted - 1).bit_length()
            rows = min(self.rows, PER_RAY * rays)
            self._room = _Room.of(rays, rows, self.directions, occupancy, background)
            self._kind = kind
        return self._room

    def _parts_of(self, width: int, height: int, room: int) -> tuple[list[tuple[int, int]], Tensor]:
        """First pixel and pixels of each part; on the device, with the width before them, int32 [parts, 3]."""
        key = width, height, room
        if self._parts is None or self._parts[0] != key:
            rows = rows_of_part(width, height, min(room, max(self.rays, width)))
            tops = range(0, height, rows)
            places = [(top * width, min(rows, height - top) * width) for top in tops]
            rows_of_tensor = [[width, *place] for place in places]
            self._parts = key, places, torch.tensor(rows_of_tensor, dtype=torch.int32).to(self.device)
        return self._parts[1:]


def rows_of_part(width: int, height: int, rays: int) -> int:
    """Rows of a part of so many rays at most: about as many in each, whole tiles where that can be."""
    most = max(1, min(height, rays // width))
    parts = -(-height // most)
    even = -(-height // parts)
    tiles = -(-even // 8) * 8
    return tiles if tiles <= most else even


class _Picture:
    """A picture that is put together from parts."""

    def __init__(self, camera: Camera, layers: bool, like: Tensor) -> None:
        self.width, self.height = camera.width, camera.height
        count = self.width * self.height
        self.colours = like.new_empty(count, 3)
        self.alpha, self.depth = (like.new_empty(count if layers else 0) for _ in range(2))

    def take(self, rays: WaveRays, first: int, count: int) -> None:
        """The pixels of a part."""
        end = first + count
        self.colours[first:end].copy_(rays.rgb[:count])
        if len(self.alpha):
            torch.neg(rays.transmittance[:count], out=self.alpha[first:end]).add_(1)
            self.depth[first:end].copy_(rays.depth[:count])

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the whole."""
        shape = self.height, self.width
        flat = shape if len(self.alpha) else (0, 0)
        return self.colours.view(*shape, 3), self.alpha.view(flat), self.depth.view(flat)
