"""The photometric loss at 1920x1080 against plain torch, and one step of Adam against torch's fused one.

What it measures
    quality    value and gradient against the float64 reference, before anything is timed; a worse relative error
               than 1e-4 ends the run with status 1. With and without per-pixel weights, zero and valid padding.
    time       forward + backward through autograd (CUDA events, turns, median, p10, p90) of luxel, of the plain torch
               reference in float32, and of luxel replayed from a CUDA graph, where the host costs nothing.
               Adam: 59 numbers for each of 1 M Gaussians in 6 groups.
    stages     device time per kernel, and the bandwidth that the bytes which must move amount to.

How to run
    python tests/bench/bench_loss.py [--out FOLDER] [--device cpu] [--size W H] [--iterations N]
    Prints a table and writes loss.json into --out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.native import best_device
from luxel.render.ops.train.adam import fused_adam_
from luxel.render.ops.train.loss import photometric_loss
from luxel.render.reference.train.loss import photometric_loss as reference_loss
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import compare_ms, kernel_times
from luxel.viewer.bench.train.loss_times import image_pair, loss_variants, time_loss, value_and_gradient

MAX_ERROR = 1e-4
ADAM_FLOATS_MOVED = 4 + 3


def check(width: int, height: int, device: torch.device) -> dict[str, dict[str, float]]:
    """Errors against float64, by case."""
    rgb, target, weight = image_pair(width, height, device, seed=0)
    wide = rgb.detach().double().requires_grad_()
    errors = {}
    for padding in ("zero", "valid"):
        for weighted in (False, True):
            w = weight if weighted else None

            def native(a: Tensor, b: Tensor, w: Tensor | None, padding: Any = padding) -> Tensor:
                return photometric_loss(a, b, w, 0.2, padding)

            def witness(a: Tensor, b: Tensor, w: Tensor | None, padding: Any = padding) -> Tensor:
                return reference_loss(a, b, None if w is None else w.double(), 0.2, padding)

            value, g = value_and_gradient(native, rgb, target, w)
            expected, g_expected = value_and_gradient(witness, wide, target.double(), w)
            errors[f"{padding} padding, {'weighted' if weighted else 'unweighted'}"] = {
                "value": abs(value.item() - expected.item()) / expected.item(),
                "gradient": ((g - g_expected).norm() / g_expected.norm()).item(),
            }
    return errors


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
    """Checks, times, prints, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=torch.device, default=best_device())
    parser.add_argument("--size", type=int, nargs=2, default=(1920, 1080), metavar=("W", "H"))
    parser.add_argument("--count", type=int, default=1_000_000, help="Gaussians for Adam")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    width, height = options.size

    errors = check(width, height, options.device)
    print("error against float64:")
    for case, error in errors.items():
        print(f"  {case:28} value {error['value']:.1e}  gradient {error['gradient']:.1e}")
    if not all(error[kind] <= MAX_ERROR for error in errors.values() for kind in error):
        print(f"more than {MAX_ERROR:g}: nothing is timed")
        return 1

    loss = time_loss(width, height, options.device, options.iterations, {"plain torch": reference_loss})
    kernels = kernel_times(loss_variants({}, width, height, options.device)["luxel"], options.device)
    adam = time_adam(options.count, options.device, options.iterations)
    print(table(f"loss, forward + backward, {width}x{height}x3, on {options.device}", loss))
    for row in kernels:
        print(f"    {row['ms']:8.4f} ms  x{row['launches']:<5g} {row['kernel']}")
    print(table(f"Adam, {options.count} x 59 numbers", adam))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        report = {
            "machine": machine_facts(options.device),
            "errors": errors,
            "loss": {**loss, "kernels": kernels},
            "adam": adam,
        }
        (options.out / "loss.json").write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
