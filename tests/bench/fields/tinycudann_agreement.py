"""How far luxel's kernels and tiny-cuda-nn's are from float64, in the cases in which tests compare the two.

What it measures
    For each case of `test_the_real_one_agrees` and `test_the_real_network_agrees`: relative errors, in the norm of the
    tests, of the output and of the gradients by table, weights and inputs. Compared are luxel in half, luxel in float
    (its `precise` path) and tiny-cuda-nn, each with a float64 evaluation in plain torch.

How to read the table
    parameters   given: the reference reads them as they are; half: it reads them rounded to half, as both libraries do.
    scale        of the loss before it is differentiated; gradients are divided by it.
    rows         all: of the batch; clear: those where no hidden unit is within `MARGIN` standard deviations of 0. A
                 ReLU near 0 falls to either side in half, and then its whole gradient is an error.
    norm         |actual - expected| / |expected|; worst: the largest error of an element / root mean square of the
                 expected elements that are not 0.
    peer-luxel   |tiny-cuda-nn - luxel in half| / |luxel in half|: what the tests bound.

How to run
    python tests/bench/fields/tinycudann_agreement.py [--json FILE]
    Where `tinycudann` cannot be used, the stand-in of the tests takes its place, in float on the CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from tinycudann_stand_in import StandIn
from torch import Tensor

from luxel.render.backends import tinycudann
from luxel.render.errors import LuxelError
from luxel.render.fields.build import field_of
from luxel.render.fields.config import defaults
from luxel.render.fields.peers.tinycudann_field import PeerField, PeerMlp
from luxel.render.reference.field.encode_grid import encode_grid_reference
from luxel.render.reference.field.mlp import mlp_reference

MARGIN = 8e-3  # standard deviations of a hidden unit
SCALES = (1.0, 128.0, 1024.0)
SIDES = ("luxel", "float", "peer")
Results = dict[str, Tensor]
Evaluate = Callable[[Tensor, float], Results]


def choose_device() -> torch.device:
    """The GPU where tiny-cuda-nn can be used, else the CPU with the stand-in in its place."""
    try:
        tinycudann.require()
        return torch.device("cuda")
    except LuxelError as error:
        print(f"The stand-in takes tiny-cuda-nn's place: {error}\n")
        module = StandIn()
        tinycudann.require = lambda device=None: module
        return torch.device("cpu")


def clear_rows(x: Tensor, weights: Tensor, sizes: Any) -> tuple[Tensor, float]:
    """Rows whose hidden units all keep away from 0, and the share of units that are within 2^-10 of it."""
    clear = torch.ones(len(x), dtype=torch.bool, device=x.device)
    near, units = 0.0, 0
    matrices = weights.split([after * before for after, before in sizes.shapes()])
    for matrix, shape in list(zip(matrices, sizes.shapes(), strict=True))[:-1]:
        x = x @ matrix.view(shape).T
        spread = x.std()
        clear &= (x.abs() > MARGIN * spread).all(1)
        near, units = near + float((x.abs() < 2**-10 * spread).sum()), units + x.numel()
        x = x.relu()
    return clear, near / max(units, 1)


def rounded(parameter: Tensor, half: bool) -> Tensor:
    """In float64, rounded to half before where asked for."""
    given = parameter.detach()
    return (given.half() if half else given).double().requires_grad_()


class FieldCase:
    """A grid encoding with its network; the loss is a random combination of outputs."""

    def __init__(self, encoding: Any, sizes: tuple[int, int, int, int], device: torch.device) -> None:
        dimensions, width, hidden, outputs = sizes
        chosen = {"encoding": encoding, "width": width, "hidden": hidden, "log2_entries": 19, "finest": 512}
        config = replace(defaults("volume"), backend="tiny-cuda-nn", **chosen)
        whole = field_of(config, dimensions, outputs)
        assert isinstance(whole, PeerField)
        whole.encoding.table.data.mul_(5e3)
        self.field = whole.to(device)
        generator = torch.Generator(device).manual_seed(3)
        self.x = torch.rand(10_000, dimensions, generator=generator, device=device)
        self.g_out = torch.randn(10_000, outputs, generator=generator, device=device)
        self.leaves = {"table": self.field.encoding.table, "weights": self.field.network.weights}

    def evaluate(self, side: str) -> Evaluate:
        """Output and gradients by one of `SIDES`."""

        def run(rows: Tensor, scale: float) -> Results:
            self.field.by_luxel = side != "peer"
            self.field.network.precise = side == "float"
            self.field.encoding.half_tables = side != "float"
            out = self.field(self.x)
            self.field.network.precise, self.field.encoding.half_tables = False, True
            loss = (out * self.g_out * rows[:, None]).sum() * scale
            gradients = torch.autograd.grad(loss, list(self.leaves.values()))
            return {
                "out": out.detach(),
                **{name: g / scale for name, g in zip(self.leaves, gradients, strict=True)},
            }

        return run

    def reference(self, half: bool) -> tuple[Callable[[Tensor], Results], Tensor, float]:
        """In float64, with the rows that are clear and the share of units that are not."""
        table, weights = (rounded(leaf, half) for leaf in self.leaves.values())
        grid = self.field.encoding.grid
        sizes = self.field.network.network
        with torch.no_grad():
            features = encode_grid_reference(self.x.double(), table, grid.offsets, grid.scales, grid.hashed)
        clear, near = clear_rows(features, weights.detach(), sizes)

        def run(rows: Tensor) -> Results:
            encoded = encode_grid_reference(self.x.double(), table, grid.offsets, grid.scales, grid.hashed)
            out = mlp_reference(encoded, weights, *sizes[:4])
            loss = (out * self.g_out.double() * rows[:, None]).sum()
            g_table, g_weights = torch.autograd.grad(loss, [table, weights])
            return {"out": out.detach(), "table": g_table, "weights": g_weights}

        return run, clear, near


class NetworkCase:
    """A network alone; the loss is the mean of squared outputs."""

    def __init__(self, hidden: int, device: torch.device) -> None:
        self.network = PeerMlp(32, 3, width=64, hidden_layers=hidden, seed=4).to(device)
        generator = torch.Generator(device).manual_seed(1)
        self.x = torch.randn(5_000, 32, generator=generator, device=device, requires_grad=True)
        self.leaves = {"inputs": self.x, "weights": self.network.weights}

    def evaluate(self, side: str) -> Evaluate:
        """Output and gradients by one of `SIDES`."""

        def run(rows: Tensor, scale: float) -> Results:
            self.network.by_luxel = side != "peer"
            self.network.precise = side == "float"
            out = self.network(self.x)
            self.network.precise = False
            loss = (out.square() * rows[:, None]).mean() * scale
            gradients = torch.autograd.grad(loss, list(self.leaves.values()))
            return {
                "out": out.detach(),
                **{name: g / scale for name, g in zip(self.leaves, gradients, strict=True)},
            }

        return run

    def reference(self, half: bool) -> tuple[Callable[[Tensor], Results], Tensor, float]:
        """In float64, with the rows that are clear and the share of units that are not."""
        x, weights = (rounded(leaf, half) for leaf in self.leaves.values())
        sizes = self.network.network
        clear, near = clear_rows(x.detach(), weights.detach(), sizes)

        def run(rows: Tensor) -> Results:
            out = mlp_reference(x, weights, *sizes[:4])
            loss = (out.square() * rows[:, None]).mean()
            g_x, g_weights = torch.autograd.grad(loss, [x, weights])
            return {"out": out.detach(), "inputs": g_x, "weights": g_weights}

        return run, clear, near


def norm_error(actual: Tensor, expected: Tensor) -> float:
    """|actual - expected| / |expected|."""
    expected = expected.double()
    return float((actual.double() - expected).norm() / expected.norm().clamp_min(1e-300))


def worst_error(actual: Tensor, expected: Tensor) -> float:
    """The largest error of an element, over the root mean square of what is not 0."""
    expected = expected.double()
    present = expected[expected != 0]
    spread = present.square().mean().sqrt() if len(present) else torch.tensor(1.0)
    return float((actual.double() - expected).abs().max() / spread)


def compare(name: str, case: FieldCase | NetworkCase) -> list[dict[str, Any]]:
    """The lines of a case."""
    lines = []
    for half in (False, True):
        reference, clear, near = case.reference(half)
        for rows_name, rows in (("all", torch.ones_like(clear)), ("clear", clear)):
            expected = reference(rows.double())
            for scale in SCALES:
                results = {side: case.evaluate(side)(rows.float(), scale) for side in SIDES}
                for quantity in expected:
                    line: dict[str, Any] = {
                        "case": name, "quantity": quantity, "parameters": "half" if half else "given",
                        "rows": rows_name, "kept": float(clear.double().mean()) if rows_name == "clear" else 1.0,
                        "near_0": near, "scale": scale,
                    }  # fmt: skip
                    for side, result in results.items():
                        line[f"{side}_norm"] = norm_error(result[quantity], expected[quantity])
                        line[f"{side}_worst"] = worst_error(result[quantity], expected[quantity])
                    line["peer_luxel"] = norm_error(results["peer"][quantity], results["luxel"][quantity])
                    lines.append(line)
    return lines


def cases(device: torch.device) -> list[tuple[str, Callable[[], FieldCase | NetworkCase]]]:
    """By the names that the tests give them."""
    named: list[tuple[str, Callable[[], FieldCase | NetworkCase]]] = [
        (f"network-{hidden}", lambda hidden=hidden: NetworkCase(hidden, device)) for hidden in (0, 1, 3)
    ]
    for encoding in ("hash", "dense", "lowres"):
        for sizes in ((2, 64, 2, 3), (3, 64, 1, 16), (3, 16, 2, 1)):
            name = f"{encoding}-{'-'.join(map(str, sizes))}"
            named.append((name, lambda e=encoding, s=sizes: FieldCase(e, s, device)))
    return named


def show(lines: list[dict[str, Any]]) -> None:
    """One table of all cases."""
    head = (
        f"{'case':<18} {'of':<8} {'params':<6} {'rows':<10} {'scale':>5} | {'luxel norm':>10} {'worst':>8} |"
        f" {'float norm':>10} {'worst':>8} | {'tcnn norm':>10} {'worst':>8} | {'tcnn-luxel':>10}"
    )
    print(head)
    print("-" * len(head))
    for line in lines:
        if line["quantity"] == "out" and (line["scale"] != 1 or line["rows"] != "all"):
            continue  # an output depends on neither
        errors = " | ".join(f"{line[f'{s}_norm']:10.2e} {line[f'{s}_worst']:8.1e}" for s in SIDES)
        rows = line["rows"] if line["rows"] == "all" else f"clear {100 * line['kept']:.0f}%"
        print(
            f"{line['case']:<18} {line['quantity']:<8} {line['parameters']:<6} {rows:<10} {line['scale']:>5.0f} |"
            f" {errors} | {line['peer_luxel']:10.2e}"
        )


def summary(lines: list[dict[str, Any]]) -> None:
    """The largest norms by scale, quantity and rows, and what ReLU units near 0 alone explain."""
    print("\nLargest norms of all cases, against float64 of parameters rounded to half:")
    for scale in SCALES:
        for quantity in ("out", "table", "weights", "inputs"):
            for rows in ("all", "clear"):
                chosen = [
                    line
                    for line in lines
                    if (line["quantity"], line["rows"], line["scale"], line["parameters"])
                    == (quantity, rows, scale, "half")
                ]
                if chosen:
                    worst = {s: max(line[f"{s}_norm"] for line in chosen) for s in SIDES}
                    both = max(line["peer_luxel"] for line in chosen)
                    print(
                        f"  scale {scale:>5.0f} {quantity:<8} {rows:<6}"
                        + "".join(f" {side} {error:.2e}" for side, error in worst.items())
                        + f" tcnn-luxel {both:.2e}"
                    )
    print(
        "\nUnits within 2^-10 standard deviations of 0, of which about half may change sides; the error of a gradient"
    )
    print("by changed sides alone is about the root of the share that does:")
    for name, near in dict.fromkeys(
        (line["case"], line["near_0"]) for line in lines if line["parameters"] == "half"
    ):
        print(f"  {name:<18} share {near:.1e}, root of half of it {math.sqrt(near / 2):.1e}")


def main() -> int:
    """Runs all cases; 1 where one could not be run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write all lines there")
    options = parser.parse_args()
    device, begin = choose_device(), time.perf_counter()
    lines, failed = [], []
    for name, make in cases(device):
        try:
            lines += compare(name, make())
        except Exception:
            failed.append(name)
            print(f"{name} could not be run:\n{traceback.format_exc()}")
    show(lines)
    summary(lines)
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))
    print(
        f"\n{len(lines)} lines, {time.perf_counter() - begin:.0f} s on {device}; failed: {', '.join(failed) or 'none'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
