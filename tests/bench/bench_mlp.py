"""The multilayer perceptron against torch.nn.Sequential: forward alone, and forward + backward.

What it measures
    quality    output and gradients against float64, before anything is timed; a relative error above 1e-4 (float) or
               1e-2 (half, on a GPU) ends the run with status 1.
    time       medians, p10 and p90 in turns: luxel, and torch.nn.Sequential without biases; on a GPU also luxel's
               float path and torch in half by autocast.

How to run
    python tests/bench/bench_mlp.py [--device cpu] [--rows N] [--network I W H O] [--iterations N] [--out FOLDER]
    Prints a table and writes mlp.json into --out. The network is I -> W x H -> O with ReLU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from luxel.render.fields.nets.mlp import Mlp
from luxel.render.native import best_device
from luxel.render.reference.field.mlp import mlp_reference
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import compare_ms

MAX_ERROR, MAX_HALF_ERROR = 1e-4, 1e-2


def sequential(net: Mlp) -> torch.nn.Sequential:
    """The same network of torch's layers."""
    parts: list[torch.nn.Module] = []
    for matrix in net.matrices():
        linear = torch.nn.Linear(matrix.shape[1], matrix.shape[0], bias=False, device=matrix.device)
        linear.weight.data.copy_(matrix.data)
        parts += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def errors(net: Mlp, device: torch.device) -> dict[str, float]:
    """||actual - true|| / ||true|| of the output and of both gradients, of values that are exact in half.

    A ReLU whose sum is near 0 may fall to either side in half, so rows where one is are left out.
    """
    generator = torch.Generator().manual_seed(0)
    inputs, width, layers, outputs, *_ = net.network
    wide = net.weights.detach().cpu().half().double()
    net.weights.data.copy_(wide)
    x = torch.randn(20_000, inputs, generator=generator).half().double()
    clear, h = torch.ones(len(x), dtype=torch.bool), x
    for matrix in net.matrices()[:-1]:
        h = h @ matrix.detach().cpu().double().T
        clear &= (h.abs() > 4e-3 * h.std()).all(1)
        h = h.relu()
    x = x[clear]
    g_out = torch.randn(len(x), outputs, generator=generator).half().double()
    true = [x.requires_grad_(), wide.requires_grad_()]
    expected = mlp_reference(true[0], true[1], inputs, width, layers, outputs)
    expected = [expected, *torch.autograd.grad(expected, true, g_out)]
    leaf = x.detach().float().to(device).requires_grad_()
    out = net(leaf)
    actual = [out, *torch.autograd.grad(out, [leaf, net.weights], g_out.float().to(device))]
    names = ("out", "g_x", "g_weights")
    return {
        name: ((a.cpu().double() - b).norm() / b.norm()).item()
        for name, a, b in zip(names, actual, expected, strict=True)
    }


def both_ways(
    net: torch.nn.Module, x: Tensor, g_out: Tensor, half: bool = False
) -> dict[str, Callable[[int], object]]:
    """What to time of a network, by name."""
    leaves = [x, *net.parameters()]

    def precision() -> contextlib.AbstractContextManager[object]:
        return torch.autocast(x.device.type, torch.float16) if half else contextlib.nullcontext()

    def forward(_: int) -> object:
        with torch.no_grad(), precision():
            return net(x)

    def training(_: int) -> object:
        with precision():
            out = net(x)
        return torch.autograd.grad(out, leaves, g_out.to(out.dtype))

    return {"forward": forward, "forward + backward": training}


def main() -> int:
    """Checks, times, prints, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=torch.device, default=best_device())
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--network", type=int, nargs=4, default=(32, 64, 2, 16), metavar=("I", "W", "H", "O"))
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device, (inputs, width, layers, outputs) = options.device, options.network

    networks = {
        name: Mlp(inputs, outputs, width=width, hidden_layers=layers, precise=precise, device=device)
        for name, precise in (("luxel", False), ("luxel, precise", True))
    }
    if device.type == "cpu":
        del networks["luxel, precise"]  # one and the same
    accuracy = {name: errors(net, device) for name, net in networks.items()}
    for name, error in accuracy.items():
        most = MAX_HALF_ERROR if device.type == "cuda" and name == "luxel" else MAX_ERROR
        print(f"{name}: error against float64: " + ", ".join(f"{k} {v:.1e}" for k, v in error.items()))
        if not all(value <= most for value in error.values()):
            print(f"more than {most:g}: nothing is timed")
            return 1

    generator = torch.Generator().manual_seed(1)
    x = torch.randn(options.rows, inputs, generator=generator).to(device).requires_grad_()
    g_out = torch.randn(options.rows, outputs, generator=generator).to(device)
    variants = {name: both_ways(net, x, g_out) for name, net in networks.items()}
    peer = sequential(networks["luxel"])
    variants["torch"] = both_ways(peer, x, g_out)
    if device.type == "cuda":
        variants["torch, half"] = both_ways(peer, x, g_out, half=True)
    times = {}
    print(f"{options.rows} rows, {inputs} -> {width} x {layers} -> {outputs}, on {device}")
    for way in ("forward", "forward + backward"):
        runs = {name: of[way] for name, of in variants.items()}
        times[way] = compare_ms(runs, device, warmup=3, iterations=options.iterations)
        for name, row in times[way].items():
            spread = f"(p10 {row['p10']:.4f}, p90 {row['p90']:.4f})"
            print(f"  {way:20} {name:16} {row['median']:8.4f} ms  {spread}")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        report = {"machine": machine_facts(device), "errors": accuracy, "times": times}
        (options.out / "mlp.json").write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
