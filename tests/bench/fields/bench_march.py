"""What stands before and behind a radiance field, fused and as plain torch operations.

What it measures
    frame      all but the field of an image of a sphere's shell at 800x800 and 1920x1080: rays, the box, marching
               through 128^3 cells, inputs of the field; activation, composition, background, compaction of rays. luxel
               has two kernels a wave; torch an operation for each small step. The field is a constant on both sides.
    training   the same of 2^18 samples: march and composite, forward and backward; torch over all places of all rays.
    quality    before anything is timed images and gradients are compared; more than 1 % of the pixels off by more
               than 1e-3 ends the run with status 1.

How to run
    python tests/bench/fields/bench_march.py [--device cpu] [--sizes 800x800 1920x1080] [--iterations N] [--out FOLDER]
    Prints a table and writes march.json into --out.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.fields.drawing.wavefront_polled import render_wavefront_polled
from luxel.render.geometry.camera import Camera
from luxel.render.native import best_device
from luxel.render.ops.field.composite import composite
from luxel.render.ops.field.march_rays import Region, march_rays, pack_cells
from luxel.render.reference.field.composite import composite_reference
from luxel.render.reference.field.march_rays import march_rays_reference, pixel_rays_reference
from luxel.render.reference.field.render_wave import render_waves_reference
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import compare_ms

REGION = Region.of_box((-1.5, -1.5, -1.5, 1.5, 1.5, 1.5))
SCALE = 1 / 3
DENSITY = 6.5  # before the activation: some ten samples end a ray


def shell(device: torch.device) -> Tensor:
    """Cells around a sphere of radius 1, bool [G, G, G]."""
    axis = (torch.arange(REGION.resolution, device=device) + 0.5) / REGION.resolution * 3 - 1.5
    z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
    return ((x * x + y * y + z * z).sqrt() - 1).abs() < 0.05


def camera_of(width: int, height: int, device: torch.device) -> Camera:
    """As NeRF's synthetic scenes have it."""
    return Camera.look_at(
        (3.2, 1.7, 1.8), (0, 0, 0), width=width, height=height, fov_y=math.radians(39.6)
    ).to(device)


class Constant:
    """A field that costs nothing."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.density = torch.full((rows,), DENSITY, device=device)
        self.colour = torch.tensor([0.5, -1.0, 2.0], device=device).repeat(rows, 1)

    def __call__(self, positions: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Density and colour before their activations."""
        return self.density[: len(positions)], self.colour[: len(positions)]


def frames(camera: Camera, device: torch.device) -> dict[str, Callable[[int], Any]]:
    """Both ways to draw an image, by name."""
    cells = shell(device)
    bits = pack_cells(cells)
    field = Constant(max(1 << 20, camera.width * camera.height), device)
    white = torch.ones(3, device=device)
    given = camera.world_to_cam, camera.intrinsics, camera.width, camera.height, REGION.box, REGION.step
    return {
        "luxel": lambda _: render_wavefront_polled(field, camera, REGION, bits, white, SCALE)[0].reshape(
            -1, 3
        ),
        "torch": lambda _: render_waves_reference(field, *given, cells, white, scale=SCALE)[0],
    }


def training(rays: int, device: torch.device) -> dict[str, Callable[[int], Any]]:
    """Both ways to march and composite, with gradients, by name."""
    cells = shell(device)
    bits = pack_cells(cells)
    camera = camera_of(800, 800, device)
    pixels = torch.randint(800 * 800, (rays,), generator=torch.Generator().manual_seed(0)).to(device)
    views = torch.tensor([[0, 800]], device=device)
    lens = camera.world_to_cam[None], camera.intrinsics[None]
    origins, directions = pixel_rays_reference(pixels, views, *lens)
    behind = torch.ones(rays, 3, device=device)
    capacity = 1 << 18
    density = torch.full((capacity,), DENSITY, device=device).requires_grad_()
    colour = torch.zeros(capacity, 3, device=device).requires_grad_()

    def fused(turn: int) -> tuple[Tensor, ...]:
        s = march_rays(origins, directions, REGION, bits, capacity=capacity)
        seen = composite(density, colour, s.dt, s.t, s.ranges, s.counters, behind, scale=SCALE)
        return seen.rgb, *torch.autograd.grad(seen.rgb.square().sum(), (density, colour))

    def plain(turn: int) -> tuple[Tensor, ...]:
        row, _, t, _ = march_rays_reference(origins, directions, REGION.box, REGION.step, cells)
        count = torch.bincount(row, minlength=rays)
        ranges = torch.stack([count.cumsum(0) - count, count], -1)
        dt = torch.full_like(t, REGION.step)
        n = len(t)
        rgb, *_ = composite_reference(density[:n], colour[:n], dt, t, ranges, behind, SCALE)
        return rgb, *torch.autograd.grad(rgb.square().sum(), (density, colour))

    return {"luxel": fused, "torch": plain}


def off(a: Tensor, b: Tensor) -> float:
    """The share of the rows that differ by more than 1e-3."""
    return ((a - b).abs().amax(-1) > 1e-3).double().mean().item()


def main() -> int:
    """Checks, times, prints, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=torch.device, default=best_device())
    parser.add_argument("--sizes", nargs="+", default=["800x800", "1920x1080"])
    parser.add_argument("--rays", type=int, default=8192, help="of a training step")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = options.device

    work: dict[str, dict[str, Callable[[int], Any]]] = {}
    for size in options.sizes:
        width, height = (int(side) for side in size.split("x"))
        work[f"frame {size}"] = frames(camera_of(width, height, device), device)
    work["training"] = training(options.rays, device)
    times: dict[str, Any] = {}
    for name, ways in work.items():
        a, b = (way(0) for way in ways.values())
        share = off(a[0], b[0]) if name == "training" else off(a, b)
        if not share < 0.01:
            print(f"{name}: {100 * share:.2f} % of the pixels differ: nothing is timed")
            return 1
        times[name] = rows = compare_ms(ways, device, warmup=2, iterations=options.iterations)
        ratio = rows["torch"]["median"] / rows["luxel"]["median"]
        for way, row in rows.items():
            spread = f"(p10 {row['p10']:.3f}, p90 {row['p90']:.3f})"
            print(f"{name:18} {way:6} {row['median']:9.3f} ms  {spread}")
        print(f"{name:18} ratio  {ratio:9.1f}   ({100 * share:.3f} % of the pixels differ)", flush=True)
        times[name]["ratio"] = ratio
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "march.json").write_text(
            json.dumps({"machine": machine_facts(device), "times": times}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
