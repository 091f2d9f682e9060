"""Stage: an image of a field in waves, all but the evaluation of the field (kernels of the same name)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.march_limits import MIN_TRANSMITTANCE
from luxel.render.ops.field.march_rays import Region
from luxel.render.ops.field.wave_buffers import STATE, WaveRays, WaveSamples
from luxel.render.ops.registry import aligned, define, register_implementation, require

_CAMERA = (
    "Tensor? part, Tensor world_to_cam, Tensor intrinsics, Tensor? occupancy, int resolution, float[] box, float step, "
    "float near, float far, int cascades, bool contracted, float growth"
)
_IMAGE = "Tensor(f!) rgb, Tensor(g!) transmittance, Tensor(h!) depth"

define(
    "begin_waves_(Tensor(a!) state, Tensor(b!) next_list, Tensor(c!) next_listed, "
    f"{_IMAGE}, {_CAMERA}, Tensor background, int width, int first_pixel) -> ()"
)
define(
    "march_wave_(Tensor(a!) state, Tensor list, Tensor listed, Tensor(b!) samples, Tensor(c!) positions, "
    f"Tensor(d!)? directions, Tensor(e!) t, Tensor(f!) ranges, {_CAMERA}, int width, int first_pixel, int rays, "
    "int most, int per_ray, int fewest) -> ()"
)
define(
    "composite_wave_(Tensor(a!) state, Tensor list, Tensor listed, Tensor(b!) next_list, Tensor(c!) next_listed, "
    f"Tensor ranges, Tensor density, Tensor? colour, Tensor t, {_IMAGE}, Tensor? part, Tensor background, "
    "int rays, float step, float growth, float scale, float min_transmittance) -> ()"
)


def begin_waves_(
    rays: WaveRays,
    world_to_cam: Tensor,
    intrinsics: Tensor,
    width: int,
    first_pixel: int,
    region: Region,
    occupancy: Tensor | None,
    background: Tensor,
    part: Tensor | None = None,
    wave: int = 0,
) -> None:
    """Starts the rays of N pixels: those that meet no occupied cell are background, the others are listed.

    Args:
        rays: is written.
        world_to_cam, intrinsics: of the camera, [4, 4], [4].
        width: of its image in pixels.
        first_pixel: number of the first ray's pixel, row by row.
        region, occupancy: as in `luxel.render.ops.field.march_rays.march_rays`.
        background: [3].
        part: instead of ``width``, ``first_pixel`` and N, up to it: these three on the device, int32 [3]. The pixels
            are those of complete rows; rays have their numbers along tiles of 8 x 8 of them, but ``rgb``,
            ``transmittance`` and ``depth`` are row by row all the same.
        wave: number of the first wave.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    torch.ops.luxel.begin_waves_(
        rays.state,
        rays.lists[wave % 2],
        rays.listed[wave : wave + 1],
        rays.rgb,
        rays.transmittance,
        rays.depth,
        part,
        *_camera(world_to_cam, intrinsics, region, occupancy),
        background,
        width,
        first_pixel,
    )


def march_wave_(
    wave: int,
    rays: WaveRays,
    samples: WaveSamples,
    world_to_cam: Tensor,
    intrinsics: Tensor,
    width: int,
    first_pixel: int,
    region: Region,
    occupancy: Tensor | None,
    *,
    listed: int,
    most: int,
    part: Tensor | None = None,
    per_ray: int = 0,
    fewest: int = 1,
) -> None:
    """The next samples of the rays that go on, min(most, S / their number) of each at most.

    Args:
        wave: its number, from 0.
        rays, samples: are written.
        world_to_cam, intrinsics, width, first_pixel, region, occupancy, part: as in `begin_waves_`.
        listed: as many rays as may go on, at least.
        most: samples of a ray.
        per_ray, fewest: where the former is above 0, S counts as max(fewest, per_ray * their number) if that is less.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    torch.ops.luxel.march_wave_(
        rays.state,
        rays.lists[wave % 2],
        rays.listed[wave : wave + 1],
        samples.requested[wave : wave + 1],
        samples.positions,
        samples.directions,
        samples.t,
        samples.ranges,
        part,
        *_camera(world_to_cam, intrinsics, region, occupancy),
        width,
        first_pixel,
        listed,
        most,
        per_ray,
        fewest,
    )


def composite_wave_(
    wave: int,
    rays: WaveRays,
    samples: WaveSamples,
    density: Tensor,
    colour: Tensor | None,
    region: Region,
    background: Tensor,
    *,
    listed: int,
    scale: float = 1.0,
    min_transmittance: float = MIN_TRANSMITTANCE,
    part: Tensor | None = None,
) -> None:
    """Adds the samples of a wave to their rays, finishes those that are done, and lists the rest.

    Args:
        wave, rays, samples, region, background, listed, part: as before.
        density, colour: of the samples before their activations, [S], [S, 3]; or both in one, [S, 4] and None, as they
            are: they are clamped to at least 0 and to [0, 1].
        scale, min_transmittance: as in `luxel.render.ops.field.composite.composite`.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    torch.ops.luxel.composite_wave_(
        rays.state,
        rays.lists[wave % 2],
        rays.listed[wave : wave + 1],
        rays.lists[(wave + 1) % 2],
        rays.listed[wave + 1 : wave + 2],
        samples.ranges,
        density,
        colour,
        samples.t,
        rays.rgb,
        rays.transmittance,
        rays.depth,
        part,
        background,
        listed,
        region.step,
        region.growth,
        scale,
        min_transmittance,
    )


def _camera(
    world_to_cam: Tensor, intrinsics: Tensor, region: Region, occupancy: Tensor | None
) -> tuple[Any, ...]:
    return world_to_cam, intrinsics, occupancy, region.resolution, *region.scalars(), *region.extension()


def _check(
    stage: str, state: Tensor, rest: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]]
) -> None:
    if state.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{stage}: state must be float32 or float64, got {state.dtype}")
    expected = {"state": (state, state.dtype, (state.shape[0], STATE))} | rest
    require(stage, state.device, expected)


def _camera_fields(
    stage: str,
    like: Tensor,
    part: Tensor | None,
    world_to_cam: Tensor,
    intrinsics: Tensor,
    occupancy: Tensor | None,
    resolution: int,
    box: list[float],
    step: float,
    near: float,
    far: float,
    *extension: Any,
) -> dict[str, Any]:
    """Of the argument struct, checked."""
    region = Region(tuple(box), step, near, far, resolution, *extension)
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "part": (part, torch.int32, (3,)),
        "world_to_cam": (world_to_cam, like.dtype, (4, 4)),
        "intrinsics": (intrinsics, like.dtype, (4,)),
        "occupancy": (
            None if occupancy is None else aligned(occupancy),
            torch.uint8,
            (region.occupancy_bytes(),),
        ),
    }
    require(stage, like.device, expected)
    tensors = {
        name: None if tensor is None else tensor.contiguous() for name, (tensor, *_) in expected.items()
    }
    return region.arguments(stage) | tensors


def _image_tensors(
    state: Tensor, rgb: Tensor, transmittance: Tensor, depth: Tensor, background: Tensor
) -> dict[str, Any]:
    n, dtype = state.shape[0], state.dtype
    return {
        "rgb": (rgb, dtype, (n, 3)),
        "transmittance": (transmittance, dtype, (n,)),
        "depth": (depth, dtype, (n,)),
        "background": (background, dtype, (3,)),
    }


def _call(stage: str, state: Tensor, expected: dict[str, Any], **others: Any) -> None:
    _check(stage, state, expected)
    tensors = {name: tensor for name, (tensor, *_) in expected.items()}
    library_for(state.device).call(stage, state.device, state.dtype, state=state, **tensors, **others)


def _begin(
    state: Tensor,
    next_list: Tensor,
    next_listed: Tensor,
    rgb: Tensor,
    transmittance: Tensor,
    depth: Tensor,
    *rest: Any,
) -> None:
    *camera, background, width, first_pixel = rest
    n = state.shape[0]
    expected = _image_tensors(state, rgb, transmittance, depth, background) | {
        "next_list": (next_list, torch.int32, (n,)),
        "next_listed": (next_listed, torch.int32, (1,)),
    }
    fields = _camera_fields("begin_waves", state, *camera)
    _call("begin_waves", state, expected, **fields, width=width, first_pixel=first_pixel, count=n)


def _march(
    state: Tensor,
    list: Tensor,
    listed: Tensor,
    samples: Tensor,
    positions: Tensor,
    directions: Tensor | None,
    t: Tensor,
    ranges: Tensor,
    *rest: Any,
) -> None:
    *camera, width, first_pixel, rays, most, per_ray, fewest = rest
    n, capacity, dtype = state.shape[0], positions.shape[0], state.dtype
    expected = {
        "list": (list, torch.int32, (n,)),
        "listed": (listed, torch.int32, (1,)),
        "samples": (samples, torch.int32, (1,)),
        "positions": (positions, dtype, (capacity, 3)),
        "sample_directions": (directions, dtype, (capacity, 3)),
        "t": (t, dtype, (capacity,)),
        "ranges": (ranges, torch.int32, (n, 2)),
    }
    _counts("march_wave", rays, n, capacity, most)
    fields = _camera_fields("march_wave", state, *camera)
    sizes = {"width": width, "first_pixel": first_pixel, "count": rays, "capacity": capacity, "most": most}
    sizes |= {"per_ray": per_ray, "fewest": fewest}
    _call("march_wave", state, expected, **fields, **sizes)


def _counts(stage: str, rays: int, n: int, capacity: int, most: int) -> None:
    if not 0 <= rays <= n or capacity < 1 or most < 1:
        raise ValueError(
            f"{stage}: count must be 0 to {n}, capacity and most at least 1, got {rays}, {capacity} and {most}"
        )


def _composite(
    state: Tensor,
    list: Tensor,
    listed: Tensor,
    next_list: Tensor,
    next_listed: Tensor,
    ranges: Tensor,
    density: Tensor,
    colour: Tensor | None,
    t: Tensor,
    rgb: Tensor,
    transmittance: Tensor,
    depth: Tensor,
    part: Tensor | None,
    background: Tensor,
    rays: int,
    step: float,
    growth: float,
    scale: float,
    min_transmittance: float,
) -> None:
    n, capacity, dtype = state.shape[0], t.shape[0], state.dtype
    expected = _image_tensors(state, rgb, transmittance, depth, background) | {
        "list": (list, torch.int32, (n,)),
        "listed": (listed, torch.int32, (1,)),
        "next_list": (next_list, torch.int32, (n,)),
        "next_listed": (next_listed, torch.int32, (1,)),
        "ranges": (ranges, torch.int32, (n, 2)),
        "t": (t, dtype, (capacity,)),
        "part": (part, torch.int32, (3,)),
    }
    if colour is None:
        expected["values"] = (aligned(density), dtype, (capacity, 4))
    else:
        expected["density"] = (density.contiguous(), dtype, (capacity,))
        expected["colour"] = (colour.contiguous(), dtype, (capacity, 3))
    _counts("composite_wave", rays, n, capacity, 1)
    others = {
        "count": rays,
        "step": step,
        "growth": growth,
        "scale": scale,
        "min_transmittance": min_transmittance,
    }
    _call("composite_wave", state, expected, **others)


register_implementation("begin_waves_", _begin, lambda *_: None)
register_implementation("march_wave_", _march, lambda *_: None)
register_implementation("composite_wave_", _composite, lambda *_: None)
