"""Rays that are traced without the host's help meet the surface where they do with it."""

from __future__ import annotations

import math

import torch
from mesh_shapes import SHAPES, ball
from torch import Tensor

from luxel.render.fields.drawing.sphere_tracer import DeviceSphereTracer
from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.sphere_trace import Rays, sphere_trace

STEPS, GROWTH, PIXEL = 32, 0.125, 0.1


def grid_of(distance, cells: int, device: torch.device) -> Tensor:
    along = (torch.arange(cells) + 0.5) / cells
    places = torch.stack(torch.meshgrid(along, along, along, indexing="ij"), -1)
    return (distance(places) - 1e-3).to(device)


def rays_of(width: int, height: int, eye: tuple[float, float, float], device: torch.device) -> Rays:
    camera = Camera.look_at(eye, (0.5, 0.5, 0.5), width=width, height=height, fov_y=math.radians(35))
    pose = camera.cam_to_world[:3].contiguous().to(device)
    lens = camera.intrinsics.to(device)
    return Rays(width * height, cam_to_unit=pose, intrinsics=lens, width=width)


def places(hits, count: int) -> Tensor:
    out = torch.full((count, 3), torch.nan)
    out[hits.rays.cpu().long()] = hits.x.cpu()
    return out


def test_it_is_sphere_trace(device):
    for name, distance in SHAPES.items():
        plan, grid = DeviceSphereTracer(device, STEPS, GROWTH), grid_of(distance, 24, device)
        for width, height, eye in (
            (53, 41, (2.0, -1.0, 0.9)),
            (97, 20, (0.5, -1.5, 0.4)),
            (5, 5, (2.0, 2, 2)),
        ):
            given = rays_of(width, height, eye, device)
            widening = PIXEL / float(given.intrinsics[:2].max())  # pyright: ignore[reportOptionalSubscript]
            expected = sphere_trace(
                given, grid, distance, tolerance=2e-4, widening=widening, growth=GROWTH, steps=STEPS
            )
            with plan.traced(
                lambda x, live, d=distance: d(x)[:, None], None, given, grid, tolerance=2e-4, pixels=PIXEL
            ) as hits:
                actual = hits()
            a, b = places(actual, given.count), places(expected, given.count)
            missed = a.isnan().any(-1) != b.isnan().any(-1)
            assert missed.float().mean() < 2e-3, name
            assert (a - b).abs().nan_to_num().max() < 1e-4
            assert len(actual.rays) > 2 and 0 < actual.evaluations <= expected.evaluations


def test_another_grid_is_taken(device):
    plan, given = DeviceSphereTracer(device, STEPS, GROWTH), rays_of(30, 30, (2.0, -1.0, 0.9), device)
    numbers = []
    for cells in (24, 24, 16):
        empty = torch.full((cells,) * 3, 2.0, device=device)
        for grid in (grid_of(ball, cells, device), empty):
            with plan.traced(
                lambda x, live: ball(x)[:, None], None, given, grid, tolerance=2e-4, pixels=PIXEL
            ) as hits:
                numbers.append(len(hits().rays))
    assert all(n > 50 for n in numbers[::2]) and not any(numbers[1::2])
