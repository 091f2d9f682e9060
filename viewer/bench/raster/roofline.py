"""Roofline model of a frame: bytes and operations that it needs at least, against the measured rates of the machine.

Bytes and operations are counted from the scene's own numbers: N primitives, V of them visible, M (tile, splat) pairs, P
contributions to pixels, K spherical-harmonics coefficients. Every count is a floor: each array is moved once, and only
splats that change a pixel are evaluated there. A share of the ceiling below 1 therefore includes both avoidable
overhead and work that no implementation can avoid.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from luxel.render.ops.raster.bin_splats import TILE
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.bench.raster.variants import CameraSample
from luxel.viewer.bench.timing import summary, times_ms

STAGES = ("project", "bin and sort", "blend", "blend, backward", "project, backward", "other")
GPU_CEILINGS, CPU_CEILINGS = (1 << 28, 8192), (1 << 26, 2048)  # floats copied, rows of multiplied matrices
_BACKWARD = re.compile(r"bwd|backward|vjp", re.IGNORECASE)
_KINDS = (  # the first that is found in a kernel's name
    (
        "bin and sort",
        re.compile(r"radix|sort|scan|isect|intersect|bin_|gather_seen|instance|ranges|plan_", re.I),
    ),
    ("blend", re.compile(r"blend|rasterize_to_pixels|sum_rows|number_kernel|background", re.I)),
    ("project", re.compile(r"project|spherical_harmonics|DeviceSelect|select", re.I)),
)


def stage_of(kernel: str) -> str:
    """The stage that a kernel of luxel, gsplat, CUB or torch belongs to, by its name."""
    for stage, pattern in _KINDS:
        if pattern.search(kernel):
            backward = stage != "bin and sort" and _BACKWARD.search(kernel)
            return f"{stage}, backward" if backward else stage
    return "other"


def by_stage(kernels: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds per stage, in the order of `STAGES`; stages that take none are left out."""
    out: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    for row in kernels:
        out[stage_of(row["kernel"])] += row["ms"]
    return {stage: ms for stage, ms in out.items() if ms > 0}


@torch.no_grad()
def count_work(scene: Parameters, samples: Sequence[CameraSample]) -> dict[str, Any]:
    """The scene's numbers for one frame, means over the samples."""
    totals = dict.fromkeys(("visible", "pairs", "contributions"), 0.0)
    for sample in samples:
        frame = rasterize(scene, sample.camera, time=sample.time, count=True)
        assert frame.count is not None
        totals["visible"] += (frame.tile_counts > 0).sum().item()
        totals["pairs"] += frame.instances.item()
        totals["contributions"] += frame.count.sum().item()
    first = samples[0].camera
    numbers = sum(
        math.prod(t.shape[1:]) for name, t in scene.tensors().items() if name not in ("sh_dc", "sh_rest")
    )
    return {
        "primitive": scene.primitive,
        "geometry": 4 * numbers,
        "gaussians": scene.count,
        "coefficients": (scene.sh_degree + 1) ** 2,
        "pixels": first.width * first.height,
        "tiles": -(-first.width // TILE) * -(-first.height // TILE),
        **{name: value / len(samples) for name, value in totals.items()},
    }


def floors(work: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Least bytes and floating-point operations of each stage of a frame."""
    n, v, m, p = (work[name] for name in ("gaussians", "visible", "pairs", "contributions"))
    k, pixels = work["coefficients"], work["pixels"]
    costs, geometry = PRIMITIVES[work["primitive"]].costs, work["geometry"]
    colour, values = 12 * k, 12  # bytes of coefficients and of the colour that they give
    depth_passes, tile_passes = 3, max(1, math.ceil(math.log2(max(2, work["tiles"])) / 8))
    return {
        "project": {
            "bytes": n * (geometry + 4) + v * (colour + costs.splat + values),
            "flops": costs.cull * n + v * (costs.project + 6 * k),
        },
        # Depths are sorted per splat, tiles per pair; a pass of a radix sort reads and writes 8 and 6 bytes an element.
        "bin and sort": {
            "bytes": 4 * n
            + 8 * v * (1 + 2 * depth_passes)
            + 6 * m * (1 + 2 * tile_passes)
            + 8 * work["tiles"],
            "flops": 0,
        },
        "blend": {"bytes": m * costs.pair + pixels * (12 + 4 + 4), "flops": costs.blend * p},
        "blend, backward": {
            "bytes": m * costs.pair + pixels * (12 + 4 + 4) + v * (costs.splat + values),
            "flops": costs.blend_backward * p,
        },
        "project, backward": {
            "bytes": v * (geometry + colour + costs.splat + values) + n * (geometry + colour),
            "flops": v * (costs.project_backward + 12 * k),
        },
    }


def rooflines(
    kernels: Sequence[dict[str, Any]], work: dict[str, Any], ceilings: dict[str, Any]
) -> list[dict[str, Any]]:
    """One line per stage: its time, its floor, and the floor's share of the time.

    Args:
        kernels: rows of `kernel_times` of forward + backward.
        work: `count_work` of the scene.
        ceilings: `measure_ceilings` of the machine.
    """
    took, lines = by_stage(kernels), []
    for stage, floor in floors(work).items():
        if stage not in took:
            continue
        by_bytes = floor["bytes"] / ceilings["bytes_per_s"] * 1e3
        by_flops = floor["flops"] / ceilings["flops_per_s"] * 1e3
        lines.append(
            {
                "stage": stage,
                "kernels": [row["kernel"] for row in kernels if stage_of(row["kernel"]) == stage],
                "ms": took[stage],
                "gb": floor["bytes"] / 1e9,
                "gflop": floor["flops"] / 1e9,
                "floor_ms": max(by_bytes, by_flops),
                "bound": "memory" if by_bytes >= by_flops else "arithmetic",
                "share": max(by_bytes, by_flops) / took[stage],
            }
        )
    return lines


def measure_ceilings(device: torch.device) -> dict[str, Any]:
    """The rates that this machine reaches, measured now.

    Returns:
        bytes_per_s: copy from device memory to device memory, read and written bytes both counted, of a block that
        no cache holds; flops_per_s: float32 matrix product without tensor cores (TF32 off), 2 n^3 operations;
        how: both in words.
    """
    count, n = GPU_CEILINGS if device.type == "cuda" else CPU_CEILINGS
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    copy = _seconds(lambda _: target.copy_(source), device)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        a, b = (torch.rand(n, n, device=device) for _ in range(2))
        out = torch.empty_like(a)
        product = _seconds(lambda _: torch.mm(a, b, out=out), device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return {
        "bytes_per_s": 8 * count / copy,
        "flops_per_s": 2 * n**3 / product,
        "how": f"copy of {4 * count / 2**20:.0f} MiB, read + written; float32 product of two {n} x {n} matrices, "
        "TF32 off; medians of 10",
    }


def _seconds(run: Callable[[int], object], device: torch.device) -> float:
    """Seconds of one call, median."""
    start = time.perf_counter()
    run(0)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    slow = time.perf_counter() - start > 1
    return (
        summary(times_ms(run, device, warmup=0 if slow else 2, iterations=3 if slow else 10))["median"] / 1e3
    )
