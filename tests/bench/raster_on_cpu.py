"""The CPU backend on small random scenes: forward, backward, loss and optimiser.

What it measures
    Milliseconds (median, p10, p90) of forward, of forward + backward, of the photometric loss with its
    gradient and of one step of Adam, for a few counts and image sizes; threads as torch uses them.

How to run
    python tests/bench/raster_on_cpu.py [--out FOLDER] [--iterations N]     (or `make bench` without a GPU)
    Prints a table and writes cpu.json into --out.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from pathlib import Path
from typing import Any

import torch
from timing import machine_facts, summary, times_ms

from luxel.render.camera import Camera
from luxel.render.ops.adam import fused_adam_
from luxel.render.ops.loss import photometric_loss
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import rasterize

SIZES = ((5_000, 320, 240), (20_000, 480, 270), (100_000, 960, 540))


def cloud(count: int) -> Gaussians:
    """Random Gaussians in a ball of radius 1, of a size that fills it about evenly, SH degree 3."""
    generator = torch.Generator().manual_seed(count)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return Gaussians(
        means=0.5 * normal(count, 3),
        quats=normal(count, 4),
        log_scales=math.log(0.5 / count ** (1 / 3)) + 0.4 * normal(count, 3),
        opacity_logits=normal(count),
        sh_dc=normal(count, 3),
        sh_rest=0.05 * normal(count, 15, 3),
    )


def measure(count: int, width: int, height: int, iterations: int) -> dict[str, Any]:
    """All times of one size."""
    cpu = torch.device("cpu")
    gaussians = cloud(count)
    leaves = gaussians.detach().requires_grad_()
    camera = Camera.look_at((0, -3, 0.5), (0, 0, 0), width=width, height=height)
    g_image = torch.randn(height, width, 3, generator=torch.Generator().manual_seed(1))
    rgb = torch.rand(height, width, 3, requires_grad=True)
    target = torch.rand(height, width, 3)
    params = [tensor.clone() for tensor in gaussians.tensors().values()]
    grads = [torch.randn_like(tensor) for tensor in params]
    first, second = ([torch.zeros_like(tensor) for tensor in params] for _ in range(2))

    def fwd(_: int) -> None:
        with torch.no_grad():
            rasterize(gaussians, camera)

    def fb(_: int) -> None:
        for tensor in leaves.tensors().values():
            tensor.grad = None
        rasterize(leaves, camera).rgb.backward(g_image)

    def loss(_: int) -> None:
        rgb.grad = None
        photometric_loss(rgb, target).backward()

    def adam(i: int) -> None:
        fused_adam_(params, grads, first, second, [1e-3] * len(params), i + 1)

    stages = {"fwd": fwd, "fb": fb, "loss": loss, "adam": adam}
    times = {
        name: summary(times_ms(run, cpu, warmup=2, iterations=iterations)) for name, run in stages.items()
    }
    return {"count": count, "width": width, "height": height, "times": times}


def main(arguments: list[str] | None = None) -> int:
    """Measures every size and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--iterations", type=int, default=20)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = {
        **machine_facts(torch.device("cpu")),
        "cpu": platform.processor(),
        "threads": torch.get_num_threads(),
    }
    results = [measure(*size, options.iterations) for size in SIZES]
    (options.out / "cpu.json").write_text(json.dumps({"machine": facts, "rows": results}, indent=1) + "\n")
    print(json.dumps(facts))
    print("| Gaussians | image | fwd | fwd + bwd | loss + gradient | Adam |\n|---|---|---|---|---|---|")
    for r in results:
        cells = [f"{t['median']:.2f} [{t['p10']:.2f}, {t['p90']:.2f}] ms" for t in r["times"].values()]
        print(f"| {r['count']:,} | {r['width']}x{r['height']} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
