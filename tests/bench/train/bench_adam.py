"""One step of Adam against torch's fused one.

What it measures
    The step of 59 numbers for each of 1 M Gaussians in 6 groups (CUDA events, turns, median, p10, p90), and the
    bandwidth that the bytes which must move amount to. `luxel bench record --parts loss` measures the loss.

How to run
    python tests/bench/train/bench_adam.py [--out FOLDER] [--device cpu] [--count N] [--iterations N]
    Prints a table and writes adam.json into --out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from luxel.render.native import best_device
from luxel.render.ops.train.adam import fused_adam_
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import compare_ms

ADAM_FLOATS_MOVED = 4 + 3


def time_adam(count: int, device: torch.device, iterations: int) -> dict[str, Any]:
    """One step of luxel's Adam and of torch's fused one."""
    shapes = [(count, 3), (count, 4), (count, 3), (count,), (count, 3), (count, 15, 3)]
    params = [torch.randn(shape, device=device) for shape in shapes]
    grads = [torch.randn(shape, device=device) for shape in shapes]
    moments = [[torch.zeros(shape, device=device) for shape in shapes] for _ in range(2)]
    rates = [1e-3] * len(shapes)
    leaves = [p.clone().requires_grad_() for p in params]
    for leaf, g in zip(leaves, grads, strict=True):
        leaf.grad = g
    torch_adam = torch.optim.Adam([{"params": [p], "lr": 1e-3} for p in leaves], eps=1e-15, fused=True)
    variants = {
        "luxel": lambda i: fused_adam_(params, grads, *moments, rates, i + 1),
        "torch, fused": lambda i: torch_adam.step(),
    }
    times = compare_ms(variants, device, warmup=3, iterations=iterations)
    return {"times": times, "bytes": 4 * ADAM_FLOATS_MOVED * sum(p.numel() for p in params)}


def table(title: str, result: dict[str, Any]) -> str:
    """Times as text."""
    lines = [title]
    for name, row in result["times"].items():
        rate = result["bytes"] / row["median"] / 1e9
        lines.append(
            f"  {name:24} {row['median']:8.4f} ms  (p10 {row['p10']:.4f}, p90 {row['p90']:.4f})  {rate:6.3f} TB/s"
        )
    return "\n".join(lines)


def main() -> int:
    """Times, prints, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=torch.device, default=best_device())
    parser.add_argument("--count", type=int, default=1_000_000, help="of Gaussians")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    adam = time_adam(options.count, options.device, options.iterations)
    print(table(f"Adam, {options.count} x 59 numbers, on {options.device}", adam))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        report = {"machine": machine_facts(options.device), "adam": adam}
        (options.out / "adam.json").write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
