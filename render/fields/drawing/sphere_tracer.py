"""Sphere tracing of a distance field with counts on the device: all steps are one CUDA graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from luxel.render.fields.drawing.frame_mode import StreamOrder, frame_mode
from luxel.render.ops.field.sphere_trace import Hits, Rays, begin_trace_, step_trace_
from luxel.render.replay import Replay

SMALLEST, LARGEST = 1 << 16, 1 << 24  # rays of a workspace

# Positions [n, 3] and the number of leading ones that count (int32 [1]) to their distance, [n, 1].
DistanceLive = Callable[[Tensor, Tensor], Tensor]


class _Workspace:
    """Buffers of a trace, at fixed addresses."""

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


class DeviceSphereTracer:
    """`luxel.render.ops.field.sphere_trace.sphere_trace` of a camera's rays; the number of live rays stays on the
    device.

    Memory is retained from image to image, for the largest so far, at most `LARGEST` rays of 44 bytes each, and freed
    with the tracer. Threads take turns.

    Args:
        device: of the field.
        steps: evaluations of the field per ray, at most.
        growth: of tolerance and widening with each step.
    """

    def __init__(self, device: torch.device, steps: int, growth: float) -> None:
        self.device, self.steps, self.growth = device, steps, growth
        self._replay: Replay[None] = Replay(device)
        self._workspace: _Workspace | None = None
        self._grid: Tensor | None = None  # copied to the workspace
        self._sizes: dict[tuple[int, int], Tensor] = {}
        self._turn = threading.Lock()
        self._stream_order = StreamOrder(self.device)

    @property
    def captures(self) -> int:
        """Number of CUDA graphs captured so far."""
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
        """Starts to trace; other work may be launched before the hits are read, which waits for the device.

        Args:
            distance: gives the distance at positions.
            key: what captured work depends on besides the contents of tensors; None: nothing is captured.
            rays: of a camera, at most `LARGEST`.
            grid: as of `sphere_trace`.
            tolerance: likewise.
            pixels: widening of the tolerance with distance, in pixels.

        Yields:
            A function that returns the hits; call it once.
        """
        assert rays.cam_to_unit is not None and rays.intrinsics is not None
        with self._turn, torch.no_grad():
            self._stream_order.begin()
            workspace = self._workspace_for(rays.count, grid)
            buffers = workspace.rays
            assert buffers.cam_to_unit is not None and buffers.intrinsics is not None
            assert buffers.size is not None and buffers.pixel is not None
            buffers.cam_to_unit.copy_(rays.cam_to_unit)
            buffers.intrinsics.copy_(rays.intrinsics)
            buffers.size.copy_(self._size(rays))
            buffers.pixel.copy_(pixels / rays.intrinsics[:2].amax(0, keepdim=True))
            if grid is not self._grid:
                workspace.grid.copy_(grid)
                self._grid = grid

            def work() -> None:
                self._steps(workspace, distance, tolerance)

            if key is not None and frame_mode() == "captured":
                self._replay.run((key, id(workspace), tolerance), "trace", work)
            else:
                work()

            def hits() -> Hits:
                *alive, total = workspace.counts.tolist()  # the only wait for the device in a frame
                return Hits(workspace.hits[:total].clone(), workspace.hit_x[:total].clone(), sum(alive[:-1]))

            yield hits
            self._stream_order.end()

    def _steps(self, workspace: _Workspace, distance: DistanceLive, tolerance: float) -> None:
        """All steps: the work that is captured."""
        counts, rays = workspace.counts, workspace.rays
        counts.zero_()
        alive, other = workspace.lists
        begin_trace_(rays, workspace.grid, workspace.ray_t, alive, counts[:1], workspace.x)
        for step in range(self.steps):
            live = counts[step : step + 1]
            distances = distance(workspace.x, live).view(rays.count)
            factor = 1 + self.growth * step
            step_trace_(
                rays,
                workspace.grid,
                workspace.ray_t,
                other,
                counts[step + 1 : step + 2],
                workspace.x,
                alive,
                live,
                distances,
                workspace.hits,
                counts[self.steps + 1 :],
                workspace.hit_x,
                tolerance * factor,
                factor,
            )
            alive, other = other, alive

    def _workspace_for(self, rays: int, grid: Tensor) -> _Workspace:
        """The workspace, allocated again if it is too small or for another grid."""
        workspace = self._workspace
        if (
            workspace is None
            or workspace.rays.count < rays
            or workspace.grid.shape != grid.shape
            or workspace.grid.dtype != grid.dtype
        ):
            self._replay.forget()
            self._workspace = self._grid = None  # freed before the next is allocated
            self._workspace = workspace = _Workspace(
                1 << (max(rays, SMALLEST) - 1).bit_length(), self.steps, grid
            )
        return workspace

    def _size(self, rays: Rays) -> Tensor:
        """Width and number of the rays on the device; sent when they change."""
        key = rays.width, rays.count
        if key not in self._sizes:
            self._sizes = {key: torch.tensor(key, dtype=torch.int32).to(self.device)}
        return self._sizes[key]
