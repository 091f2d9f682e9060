"""A field (hash grid, then a perceptron) as one stage, against its parts, torch and tiny-cuda-nn.

What it measures
    quality    output and gradients of every way against float64, before anything is timed; a relative error above 1e-4
               (CPU) or 1e-2 (half, on a GPU) ends the run with status 1.
    time       medians in turns, and millions of positions per second: ordering positions, the encoding alone, the
               perceptron alone, the field's inference at random positions and at samples along rays, its training step
               (forward, and backward to table and weights; no optimizer); torch (index_select and nn.Sequential in
               half), and tiny-cuda-nn where it is installed.
    kernels    of a training step and of the perceptron's, by name.

How to run
    python tests/bench/fields/bench_field.py [--device cpu] [--log2-rows 20] [--log2-entries 19] [--growth 1.38191]
        [--ways usual,unsorted,sorted,float_table] [--hashing spatial,blocks] [--iterations N]
        [--no-torch] [--out FOLDER]
    Prints a table and writes field.json into --out. The field: 16 levels of 2 features in 3D, 32 -> 64 x 2 -> 16, ReLU.
    Several hashings are timed in turns, and names say whose a time is but for the first's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.backends import tinycudann
from luxel.render.errors import LuxelError
from luxel.render.fields.encodings.grid import Grid
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.fields.sdf import SdfField
from luxel.render.native import best_device
from luxel.render.ops.field.encode_grid import encode_grid
from luxel.render.ops.field.field import field
from luxel.render.ops.field.grid_layout import Hashed
from luxel.render.ops.field.mlp import mlp
from luxel.render.ops.field.order_positions import order_positions
from luxel.render.reference.field.encode_grid import encode_grid_reference
from luxel.render.reference.field.mlp import mlp_reference
from luxel.viewer.bench.fields.peers import torch_encoding
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import compare_ms, kernel_times

MAX_ERROR, MAX_HALF_ERROR = 1e-4, 1e-2
SIZES = (32, 64, 2, 16)
SAMPLES = 128  # of a ray
# Of the field: whether the table is read in half, and whether positions are sorted first (None: where it pays).
WAYS: dict[str, tuple[bool, bool | None]] = {
    "usual": (True, None),
    "unsorted": (True, False),
    "sorted": (True, True),
    "float_table": (False, None),
}
USUAL = "usual,unsorted"
HASHINGS: dict[str, Hashed] = {"spatial": True, "blocks": "blocks"}
OF_TABLES = ("encoding", "inference, random", "inference, rays", "training, random", "training, rays")


def along_rays(count: int, generator: torch.Generator) -> Tensor:
    """Samples of random chords of the unit cube, one ray after the other, [N, 3]."""
    rays = -(-count // SAMPLES)
    ends = torch.rand(2, rays, 1, 3, generator=generator)
    at = (torch.arange(SAMPLES) + 0.5)[None, :, None] / SAMPLES
    return torch.lerp(ends[0], ends[1], at).reshape(-1, 3)[:count].contiguous()


class Problem:
    """Positions, table, weights and a gradient of the output on a device.

    Args:
        grid: levels.
        count: N.
        device: of everything.
    """

    def __init__(self, grid: Grid, count: int, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(0)
        self.grid, self.device = grid, device
        self.random = torch.rand(count, 3, generator=generator).to(device)
        self.rays = along_rays(count, generator).to(device)
        table = torch.randn(grid.entries, grid.features, generator=generator)
        self.table = table.half().float().to(device).requires_grad_()
        self.half = self.table.detach().half() if device.type == "cuda" else None
        self.weights = Mlp(SIZES[0], SIZES[3], device=device).weights
        with torch.no_grad():
            self.weights.copy_(self.weights.half().float())
        self.g_out = torch.randn(count, SIZES[3], generator=generator).half().float().to(device)

    def field(self, x: Tensor, way: str, fresh: bool = False) -> Tensor:
        """The stage; fresh: with the table's half made anew, as a training step does."""
        halved, sort = WAYS[way]
        half = self.half if halved else None
        if half is not None and fresh:
            half = self.table.detach().half()
        levels = self.grid.offsets, self.grid.scales, self.grid.hashed
        return field(
            x, self.table, self.weights, *levels, *SIZES[1:], "relu", "none", half_table=half, sort=sort
        )

    def encode(self, x: Tensor, half: Tensor | None) -> Tensor:
        """The encoding's stage."""
        return encode_grid(x, self.table, self.grid.offsets, self.grid.scales, self.grid.hashed, half)


def errors(grid: Grid, ways: list[str], device: torch.device) -> dict[str, dict[str, float]]:
    """||actual - true|| / ||true|| of output and gradients, by way.

    A ReLU whose sum is near 0 may fall to either side in half, so rows where one is are left out.
    """
    problem = Problem(grid, 20_000, device)
    x, table = problem.random.cpu().double(), problem.table.detach().cpu().double().requires_grad_()
    weights = problem.weights.detach().cpu().double().requires_grad_()
    with torch.no_grad():
        h = encode_grid_reference(x, table, grid.offsets, grid.scales, grid.hashed)
        clear = torch.ones(len(x), dtype=torch.bool)
        parts = weights.split([64 * 32, 64 * 64, 16 * 64])
        for matrix in (parts[0].view(64, 32), parts[1].view(64, 64)):
            h = h @ matrix.T
            clear &= (h.abs() > 2e-3 * h.std()).all(1)
            h = h.relu()
    x, g_out = x[clear], problem.g_out.cpu()[clear]
    out = mlp_reference(
        encode_grid_reference(x, table, grid.offsets, grid.scales, grid.hashed), weights, *SIZES
    )
    expected = [out, *torch.autograd.grad(out, (table, weights), g_out.double())]
    by_way: dict[str, dict[str, float]] = {}
    for way in ways:
        out = problem.field(x.float().to(device), way)
        leaves = problem.table, problem.weights
        values = [out, *torch.autograd.grad(out, leaves, g_out.to(device))]
        names = ("out", "g_table", "g_weights")
        by_way[way] = {
            name: ((a.detach().cpu().double() - b).norm() / b.norm()).item()
            for name, a, b in zip(names, values, expected, strict=True)
        }
    return by_way


def torch_field(problem: Problem) -> Callable[[Tensor], Tensor]:
    """The field of torch's parts, in half."""
    parts: list[torch.nn.Module] = []
    sizes = (32, 64, 64, 16)
    for before, after in itertools.pairwise(sizes):
        parts += [torch.nn.Linear(before, after, bias=False), torch.nn.ReLU()]
    network = torch.nn.Sequential(*parts[:-1]).to(problem.device)
    at = 0
    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            shape = layer.weight.shape
            layer.weight.data.copy_(problem.weights.detach()[at : at + shape.numel()].view(shape))
            at += shape.numel()
    dtype = torch.float16 if problem.device.type == "cuda" else torch.float32

    def run(x: Tensor) -> Tensor:
        with torch.autocast(problem.device.type, torch.float16, enabled=dtype == torch.float16):
            return network(torch_encoding(problem.grid, x, problem.table.to(dtype)))

    return run


def tiny_cuda_nn(problem: Problem) -> torch.nn.Module | None:
    """The peer, where it is installed."""
    try:
        library = tinycudann.require(problem.device)
    except LuxelError:
        return None
    network = Mlp(SIZES[0], SIZES[3], width=SIZES[1], hidden_layers=SIZES[2])
    with tinycudann.current_device(problem.device):
        return tinycudann.native_field(library, problem.grid, network)


def to_time(problem: Problem, ways: list[str], peers: bool) -> dict[str, dict[str, Callable[[int], object]]]:
    """What is timed, by group and name."""
    x, g_out, leaves = problem.random, problem.g_out, (problem.table, problem.weights)
    features = torch.randn(len(x), SIZES[0], device=problem.device)
    wide_g = torch.randn(len(x), SIZES[0], device=problem.device)
    wanting = features.clone().requires_grad_()
    weights = problem.weights

    def quiet(run: Callable[[], object]) -> Callable[[int], object]:
        def call(_: int) -> object:
            with torch.no_grad():
                return run()

        return call

    def gradients(run: Callable[[], Tensor], of: tuple[Tensor, ...], g: Tensor) -> Callable[[int], object]:
        def call(_: int) -> object:
            out = run()
            return torch.autograd.grad(out, of, g.to(out.dtype))

        return call

    groups: dict[str, dict[str, Callable[[int], object]]] = {
        "order": {
            "random": quiet(lambda: order_positions(x)),
            "rays": quiet(lambda: order_positions(problem.rays)),
        },
        "encoding": {
            "forward": quiet(lambda: problem.encode(x, problem.half)),
            "forward, rays": quiet(lambda: problem.encode(problem.rays, problem.half)),
            "forward + backward": gradients(
                lambda: problem.encode(x, problem.half), (problem.table,), wide_g
            ),
        },
        "perceptron": {
            "forward": quiet(lambda: mlp(features, weights, *SIZES)),
            "forward + backward": gradients(lambda: mlp(wanting, weights, *SIZES), (wanting, weights), g_out),
        },
        "inference, random": {w: quiet(lambda w=w: problem.field(x, w)) for w in ways},
        "inference, rays": {w: quiet(lambda w=w: problem.field(problem.rays, w)) for w in ways},
        "training, random": {
            w: gradients(lambda w=w: problem.field(x, w, fresh=True), leaves, g_out) for w in ways
        },
        "training, rays": {
            w: gradients(lambda w=w: problem.field(problem.rays, w, fresh=True), leaves, g_out) for w in ways
        },
    }
    both = gradients(lambda: mlp(problem.encode(x, problem.half), weights, *SIZES), leaves, g_out)
    groups["training, random"]["two stages"] = both
    if peers:
        plain = torch_field(problem)
        groups["torch"] = {
            "inference, random": quiet(lambda: plain(x)),
            "training, random": gradients(lambda: plain(x), (problem.table,), g_out),
        }
    if (peer := tiny_cuda_nn(problem)) is not None:
        parameters = tuple(peer.parameters())
        groups["tiny-cuda-nn"] = {
            "inference, random": quiet(lambda: peer(x)),
            "inference, rays": quiet(lambda: peer(problem.rays)),
            "training, random": gradients(lambda: peer(x), parameters, g_out),
            "training, rays": gradients(lambda: peer(problem.rays), parameters, g_out),
        }
    return groups


def main() -> int:
    """Checks, times, prints, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=torch.device, default=best_device())
    parser.add_argument("--log2-rows", type=int, default=20)
    parser.add_argument("--log2-entries", type=int, default=19)
    parser.add_argument("--growth", type=float, default=SdfField.hash_growth)
    parser.add_argument("--ways", default=None, help=f"of {', '.join(WAYS)}; separated by commas")
    parser.add_argument("--hashing", default="spatial", help="of spatial, blocks; separated by commas")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device: torch.device = options.device
    usual = USUAL if device.type == "cuda" else "float_table"
    ways: list[str] = str(options.ways or usual).split(",")
    grids = {
        name: Grid.multi_resolution_hash(3, options.growth, options.log2_entries, HASHINGS[name])
        for name in str(options.hashing).split(",")
    }

    tried = list(dict.fromkeys([*ways, "sorted"]))
    accuracy = {
        f"{way}, {name}": norms
        for name, grid in grids.items()
        for way, norms in errors(grid, tried, device).items()
    }
    most = MAX_HALF_ERROR if device.type == "cuda" else MAX_ERROR
    for way, norms in accuracy.items():
        print(f"{way}: error against float64: " + ", ".join(f"{k} {v:.1e}" for k, v in norms.items()))
    if not all(value <= most for norms in accuracy.values() for value in norms.values()):
        print(f"more than {most:g}: nothing is timed")
        return 1

    problems = {name: Problem(grid, 2**options.log2_rows, device) for name, grid in grids.items()}
    (first, problem), *others = problems.items()
    count = len(problem.random)
    print(f"{count} positions, {problem.grid.entries} entries, {first}, on {device}")
    times: dict[str, Any] = {}
    groups = to_time(problem, ways, not options.no_torch)
    for name, other in others:
        for group, runs in to_time(other, ways, peers=False).items():
            if group in OF_TABLES:
                groups[group] |= {f"{way}, {name}": run for way, run in runs.items()}
    for group, runs in groups.items():
        iterations = min(options.iterations, 3) if group == "torch" else options.iterations
        times[group] = compare_ms(runs, device, warmup=3, iterations=iterations)
        for name, row in times[group].items():
            rate = count / row["median"] / 1e3
            spread = f"(p10 {row['p10']:.4f}, p90 {row['p90']:.4f})"
            print(f"  {group:18} {name:26} {row['median']:8.4f} ms {rate:9.1f} M/s  {spread}", flush=True)
    steps = {
        f"training, {name}": to_time(of, ways[:1], peers=False)["training, random"][ways[0]]
        for name, of in problems.items()
    }
    steps["perceptron"] = groups["perceptron"]["forward + backward"]
    kernels = {name: kernel_times(step, device)[:12] for name, step in steps.items()}
    for name, rows in kernels.items():
        for row in rows:
            print(f"  {name}, kernels: {row['kernel']:60} {row['ms']:8.4f} ms")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        report = {"machine": machine_facts(device), "errors": accuracy, "times": times, "kernels": kernels}
        (options.out / "field.json").write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
