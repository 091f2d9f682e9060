"""Traces the rays of cameras to a distance field without the host's help: on a GPU as one CUDA graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from luxel.render.fields.drawing.frames import InTurn, frame_mode
from luxel.render.ops.field.sphere_trace import Hits, Rays, begin_trace_, step_trace_
from luxel.render.replay import Replay

SMALLEST, LARGEST = 1 << 16, 1 << 24  # rays that there is room for

# Positions [n, 3], of which the first so many (int32 [1]) are wanted, to their distance, [n, 1].
DistanceLive = Callable[[Tensor, Tensor], Tensor]


class _Room:
    """What rays are traced in, always in the same memory."""

    def __init__(self, rays: int, steps: int, grid: Tensor) -> None:
        device, dtype = grid.device, grid.dtype
        self.ray_t = torch.empty(rays, dtype=dtype, device=device)
        self.x, self.hit_x = (torch.zeros(rays, 3, dtype=dtype, device=device) for _ in range(2))
        self.lists = [torch.empty(rays, dtype=torch.int32, device=device) for _ in range(2)]
        self.hits = torch.empty(rays, dtype=torch.int32, device=device)
        self.counts = torch.zeros(steps + 2, dtype=torch.int32, device=device)  # alive at each step; hits
        self.grid = torch.empty_like(grid)
        self.rays = Rays(
            rays,
            cam_to_unit=self.ray_t.new_zeros(3, 4),
            intrinsics=self.ray_t.new_zeros(4),
            size=torch.zeros(2, dtype=torch.int32, device=device),
            pixel=self.ray_t.new_zeros(1),
        )


class TracePlan:
    """`luxel.render.ops.field.sphere_trace.sphere_trace` of a camera's rays, with every step on counts on the device.

    Memory is kept from picture to picture for the largest so far, of at most `LARGEST` rays, 44 bytes each, and freed
    with the plan. Threads take turns.

    Args:
        device: of the field.
        steps: most evaluations of a ray.
        growth: of tolerance and widening with each step.
    """

    def __init__(self, device: torch.device, steps: int, growth: float) -> None:
        self.device, self.steps, self.growth = device, steps, growth
        self._replay: Replay[None] = Replay(device)
        self._room: _Room | None = None
        self._grid: Tensor | None = None  # that the room has a copy of
        self._sizes: dict[tuple[int, int], Tensor] = {}
        self._turn = threading.Lock()
        self._in_turn = InTurn(self.device)

    @property
    def captures(self) -> int:
        """How many CUDA graphs have been captured."""
        return self._replay.captures

    @contextmanager
    def traced(
        self,
        distance: DistanceLive,
        key: Hashable,
        rays: Rays,
        grid: Tensor,
        *,
        tolerance: float,
        pixels: float,
    ) -> Iterator[Callable[[], Hits]]:
        """Starts to trace; other work may be launched before the hits are asked for, which waits for the device.

        Args:
            distance: gives the distance at positions.
            key: what captured work depends on in it beside the contents of tensors. None: nothing is captured.
            rays: of a camera, at most `LARGEST`.
            grid: as of `sphere_trace`.
            tolerance: likewise.
            pixels: of the widening, which is so many pixels.

        Yields:
            What gives the hits, once.
        """
        assert rays.cam_to_unit is not None and rays.intrinsics is not None
        with self._turn, torch.no_grad():
            self._in_turn.begin()
            room = self._fitting(rays.count, grid)
            held = room.rays
            assert held.cam_to_unit is not None and held.intrinsics is not None
            assert held.size is not None and held.pixel is not None
            held.cam_to_unit.copy_(rays.cam_to_unit)
            held.intrinsics.copy_(rays.intrinsics)
            held.size.copy_(self._size(rays))
            held.pixel.copy_(pixels / rays.intrinsics[:2].amax(0, keepdim=True))
            if grid is not self._grid:
                room.grid.copy_(grid)
                self._grid = grid

            def work() -> None:
                self._steps(room, distance, tolerance)

            if key is not None and frame_mode() == "captured":
                self._replay.run((key, id(room), tolerance), "trace", work)
            else:
                work()

            def hits() -> Hits:
                *alive, total = room.counts.tolist()  # the one time that the host waits
                return Hits(room.hits[:total].clone(), room.hit_x[:total].clone(), sum(alive[:-1]))

            yield hits
            self._in_turn.end()

    def _steps(self, room: _Room, distance: DistanceLive, tolerance: float) -> None:
        """What is captured."""
        counts, rays = room.counts, room.rays
        counts.zero_()
        alive, other = room.lists
        begin_trace_(rays, room.grid, room.ray_t, alive, counts[:1], room.x)
        for step in range(self.steps):
            live = counts[step : step + 1]
            found = distance(room.x, live).view(rays.count)
            factor = 1 + self.growth * step
            step_trace_(
                rays,
                room.grid,
                room.ray_t,
                other,
                counts[step + 1 : step + 2],
                room.x,
                alive,
                live,
                found,
                room.hits,
                counts[self.steps + 1 :],
                room.hit_x,
                tolerance * factor,
                factor,
            )
            alive, other = other, alive

    def _fitting(self, rays: int, grid: Tensor) -> _Room:
        """The room, made anew where it is too small or for another grid."""
        room = self._room
        if (
            room is None
            or room.rays.count < rays
            or room.grid.shape != grid.shape
            or room.grid.dtype != grid.dtype
        ):
            self._replay.forget()
            self._room = self._grid = None  # freed before there is another
            self._room = room = _Room(1 << (max(rays, SMALLEST) - 1).bit_length(), self.steps, grid)
        return room

    def _size(self, rays: Rays) -> Tensor:
        """Width and number of the rays on the device; sent when they are new."""
        key = rays.width, rays.count
        if key not in self._sizes:
            self._sizes = {key: torch.tensor(key, dtype=torch.int32).to(self.device)}
        return self._sizes[key]
