"""Stage: rays to the surface of a distance field, a wave of evaluations at a time (kernels of the same name)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

MAX_CELLS = 1024  # along an axis of the coarse grid

_RAYS = (
    "Tensor? rays, Tensor? cam_to_unit, Tensor? intrinsics, Tensor? size, Tensor? pixel, int width, "
    "int count, Tensor grid"
)
_LISTS = "Tensor(b!) next, Tensor(c!) next_count, Tensor(d!) x"
define(f"sphere_trace_begin({_RAYS}, Tensor(a!) ray_t, {_LISTS}) -> ()")
define(
    f"sphere_trace_step({_RAYS}, Tensor(a!) ray_t, {_LISTS}, Tensor alive, Tensor alive_count, Tensor distance, "
    "Tensor(e!) hits, Tensor(f!) hit_count, Tensor(g!) hit_x, float tolerance, float widening) -> ()"
)


@dataclass
class Rays:
    """Rays in the coordinates of the unit box: given, or those of a camera's pixels, row by row.

    Args:
        count: M.
        rays: origins, and directions of length 1, float32 or (CPU only) float64 [M, 6].
        cam_to_unit: without ``rays``: camera axes to the unit box, a scaled rotation and a translation, [3, 4].
        intrinsics: without ``rays``: fx, fy, cx, cy in pixels, [4].
        width: without ``rays``: of the image in pixels; M is a multiple of it.
        size: instead of ``width`` and, where there are no more of them, ``count``: both on the device, int32 [2].
        pixel: on the device, what a widening is a multiple of, [1]; None: 1.
    """

    count: int
    rays: Tensor | None = None
    cam_to_unit: Tensor | None = None
    intrinsics: Tensor | None = None
    width: int = 0
    size: Tensor | None = None
    pixel: Tensor | None = None

    def arguments(self) -> tuple[Any, ...]:
        """In the order of the operations."""
        return self.rays, self.cam_to_unit, self.intrinsics, self.size, self.pixel, self.width, self.count


class Hits(NamedTuple):
    """Where rays ended, in any order.

    Args:
        rays: numbers of the rays that hit, int32 [H].
        x: their positions in the unit box, [H, 3].
        evaluations: of the distance, how many rows.
    """

    rays: Tensor
    x: Tensor
    evaluations: int


def sphere_trace(
    rays: Rays,
    grid: Tensor,
    distance: Callable[[Tensor], Tensor],
    *,
    tolerance: float = 2e-4,
    widening: float = 0.0,
    growth: float = 0.0,
    steps: int = 32,
    look: int = 3,
) -> Hits:
    """Rays to where a distance becomes 0 (Hart 1996, "Sphere Tracing").

    A coarse grid takes rays near the surface, so that most of them are never evaluated. The host reads how many are
    left at the start and after every few steps.

    Args:
        rays: M of them.
        grid: least distance to the surface, at the centres of the cells x, y, z of the unit box, [R, R, R].
        distance: gives the distance at positions, [n, 3] to [n] or [n, 1]; negative inside.
        tolerance: a smaller distance is a hit, in sides of the box.
        widening: of the tolerance with the distance that a ray has gone: half the angle of a pixel, for example.
        growth: of both with each step: rays that graze the surface, which take the most steps, end sooner.
        steps: most evaluations of a ray; those that are not finished then count as gone.
        look: steps between two looks at how many rays are left.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    m, device, dtype = rays.count, grid.device, grid.dtype
    ray_t = torch.empty(m, dtype=dtype, device=device)
    x, hit_x = (torch.empty(m, 3, dtype=dtype, device=device) for _ in range(2))
    alive, other, hits = (torch.empty(m, dtype=torch.int32, device=device) for _ in range(3))
    counts = torch.zeros(steps + 1, dtype=torch.int32, device=device)
    hit_count = torch.zeros(1, dtype=torch.int32, device=device)
    begin_trace_(rays, grid, ray_t, alive, counts[:1], x)
    left, evaluations = int(counts[0]), 0
    for step in range(steps):
        if step and step % look == 0:
            left = int(counts[step])
        if left == 0:
            break
        distances = distance(x[:left]).reshape(left)
        evaluations += left
        step_trace_(
            rays,
            grid,
            ray_t,
            other,
            counts[step + 1 : step + 2],
            x,
            alive,
            counts[step : step + 1],
            distances,
            hits,
            hit_count,
            hit_x,
            tolerance * (1 + growth * step),
            widening * (1 + growth * step),
        )
        alive, other = other, alive
    total = int(hit_count)
    return Hits(hits[:total], hit_x[:total], evaluations)


def begin_trace_(rays: Rays, grid: Tensor, ray_t: Tensor, alive: Tensor, count: Tensor, x: Tensor) -> None:
    """Starts rays, and lists those that get near the surface, in any order; nothing waits for the device.

    Args:
        rays: M of them at most.
        grid: as of `sphere_trace`.
        ray_t: written: the distance along each ray so far, [M].
        alive, count: are written: numbers of the rays that are alive, int32 [M], and how many, int32 [1], 0 before.
        x: is written: their positions, [M, 3].

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    torch.ops.luxel.sphere_trace_begin(*rays.arguments(), grid, ray_t, alive, count, x)


def step_trace_(
    rays: Rays,
    grid: Tensor,
    ray_t: Tensor,
    alive: Tensor,
    count: Tensor,
    x: Tensor,
    before: Tensor,
    count_before: Tensor,
    distance: Tensor,
    hits: Tensor,
    hit_count: Tensor,
    hit_x: Tensor,
    tolerance: float,
    widening: float,
) -> None:
    """A step of the rays whose distance is known; nothing waits for the device.

    Args:
        rays, grid, ray_t, alive, count, x: as of `begin_trace_`.
        before, count_before: the rays that are alive before the step, as the step before has listed them.
        distance: of those, [up to M]; no more rays are advanced.
        hits, hit_count, hit_x: numbers of the rays that have hit, int32 [M], how many, int32 [1], and their positions,
            [M, 3]; added to.
        tolerance, widening: as of `sphere_trace`; the latter is times ``rays.pixel``.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    given = *rays.arguments(), grid, ray_t, alive, count, x, before, count_before, distance
    torch.ops.luxel.sphere_trace_step(*given, hits, hit_count, hit_x, tolerance, widening)


def _check(rays: Rays, grid: Tensor, ray_t: Tensor, x: Tensor, lists: dict[str, Tensor]) -> dict[str, Any]:
    """The fields of the argument struct that both share."""
    stage, dtype, device, m = "sphere_trace", grid.dtype, grid.device, rays.count
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{stage}: grid must be float32 or float64, got {dtype}")
    if not 0 <= m < 2**31:
        raise ValueError(f"{stage}: rays.count must be 0 to 2^31 - 1, got {m}")
    side = grid.shape[0] if grid.dim() == 3 else 0
    if not 1 <= side <= MAX_CELLS:
        raise ValueError(
            f"{stage}: grid must be [R, R, R] with R of 1 to {MAX_CELLS}, got {list(grid.shape)}"
        )
    wide = rays.width >= 1 or rays.size is not None
    if rays.rays is None and (rays.cam_to_unit is None or rays.intrinsics is None or not wide):
        raise ValueError(f"{stage}: rays or a camera must be given, got neither")
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "rays": (rays.rays, dtype, (m, 6)),
        "cam_to_unit": (rays.cam_to_unit, dtype, (3, 4)),
        "intrinsics": (rays.intrinsics, dtype, (4,)),
        "size": (rays.size, torch.int32, (2,)),
        "pixel": (rays.pixel, dtype, (1,)),
        "grid": (grid, dtype, (side, side, side)),
        "ray_t": (ray_t, dtype, (m,)),
        "x": (x, dtype, (m, 3)),
    }
    for name, tensor in lists.items():
        expected[name] = tensor, torch.int32, (1,) if name.endswith("count") else (m,)
    require(stage, device, expected)

    def contiguous(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.contiguous()

    given = {
        name: contiguous(getattr(rays, name))
        for name in ("rays", "cam_to_unit", "intrinsics", "size", "pixel")
    }
    sizes = {"width": rays.width, "count": m, "resolution": side}
    return {**given, **sizes, "grid": grid.contiguous(), "ray_t": ray_t, "x": x, **lists}


def _rays(given: tuple[Any, ...]) -> Rays:
    rays, cam_to_unit, intrinsics, size, pixel, width, count = given
    return Rays(count, rays, cam_to_unit, intrinsics, width, size, pixel)


def _begin(*given: Any) -> None:
    *rays, grid, ray_t, following, next_count, x = given
    arguments = _check(_rays(tuple(rays)), grid, ray_t, x, {"next": following, "next_count": next_count})
    if len(ray_t):
        library_for(grid.device).call("sphere_trace_begin", grid.device, grid.dtype, **arguments)


def _step(*given: Any) -> None:
    *start, alive, alive_count, distance, hits, hit_count, hit_x, tolerance, widening = given
    *rays, grid, ray_t, following, next_count, x = start
    lists = {"next": following, "next_count": next_count, "alive": alive, "alive_count": alive_count}
    lists |= {"hits": hits, "hit_count": hit_count}
    arguments = _check(_rays(tuple(rays)), grid, ray_t, x, lists)
    m, limit = len(ray_t), distance.shape[0] if distance.dim() == 1 else -1
    if not 0 <= limit <= m:
        raise ValueError(f"sphere_trace: distance must be [0 to {m}], got {list(distance.shape)}")
    dtype = grid.dtype
    require(
        "sphere_trace",
        grid.device,
        {"distance": (distance, dtype, (limit,)), "hit_x": (hit_x, dtype, (m, 3))},
    )
    arguments |= {"distance": distance.contiguous(), "limit": limit, "hit_x": hit_x}
    arguments |= {"tolerance": tolerance, "widening": widening}
    if limit:
        library_for(grid.device).call("sphere_trace_step", grid.device, dtype, **arguments)


def _fake(*_: Any) -> None:
    return None


register_implementation("sphere_trace_begin", _begin, _fake)
register_implementation("sphere_trace_step", _step, _fake)
