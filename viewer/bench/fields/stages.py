"""Where the time of a neural field goes: the stages of a frame by kernel, and encoding and network alone.

On a GPU a frame's fused kernel holds encoding and network. Its time is split between them in the proportion that the
two take alone at the same positions, as separate kernels that pass the features through memory: an estimate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from luxel.render.fields.application import Application
from luxel.render.fields.encodings.encoding import Encoding
from luxel.render.fields.encodings.grid_encoding import GridEncoding
from luxel.render.fields.nets.field import Field
from luxel.viewer.bench.timing import compare_ms, kernel_times, summary, times_ms

PARTS = ("encoding", "network", "rest", "gaps")
STAGES = ("encoding", "network", "encoding + network")
MAX_ROWS = 1 << 20  # of a stage alone
_FUSED = re.compile(r"\bfield(_live)?(_kernel\b(?!<0)|$)")  # field_kernel<0> is the network alone
_ENCODING = re.compile(r"encode_grid|field_levels|colour_inputs")
_NETWORK = re.compile(r"mlp|field_kernel<0|colour_network")


@dataclass
class Queries:
    """The field queries of a frame.

    Attributes:
        calls: of the field.
        rows: positions in all of them.
        tables: how often a table was prepared (rounded to half) for them.
        largest: positions of the largest call, [N, D].
    """

    calls: int = 0
    rows: int = 0
    tables: int = 0
    largest: Tensor | None = field(default=None, repr=False)

    def table_prepared(self) -> None:
        """Counts one prepared table."""
        self.tables += 1

    def queried(self, positions: Tensor, live: Tensor | None = None) -> None:
        """Adds positions [..., D], of which the first ``live`` count."""
        x = positions.reshape(-1, positions.shape[-1])
        if live is not None:
            x = x[: int(live)]
        self.calls, self.rows = self.calls + 1, self.rows + len(x)
        if self.largest is None or len(x) > len(self.largest):
            self.largest = x[:MAX_ROWS].detach().clone()


def encoded_field(application: Application) -> Field:
    """The field of encoding and network that an application evaluates at positions.

    Raises:
        ValueError: there is none.
    """
    for module in application.modules():
        if isinstance(module, Field):
            return module
    raise ValueError(f"A field of {application.kind!r} has no encoding")


@contextmanager
def counting(module: Field) -> Iterator[Queries]:
    """Counts the queries of a field within the context, also through frozen copies; frames are not captured."""
    queries = Queries()

    def note(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        queries.table_prepared()
        queries.queried(arguments[0])

    handle = module.register_forward_pre_hook(note)
    module.observers.append(queries)
    try:
        yield queries
    finally:
        handle.remove()
        module.observers.remove(queries)


def frame_parts(
    kernels: Sequence[dict[str, Any]],
    frame_ms: float,
    encoding_share: float,
    rounding_ms: float,
    on_gpu: bool,
) -> dict[str, float]:
    """Milliseconds of a frame by `PARTS`; together they are the frame, or the kernels where these take longer.

    Args:
        kernels: rows of `luxel.viewer.bench.timing.kernel_times` or `stage_times` of a frame.
        frame_ms: of the full frame.
        encoding_share: the encoding's share of the kernel that holds encoding and network.
        rounding_ms: of rounding tables to half, by kernels whose names do not identify them.
        on_gpu: the time that no kernel accounts for is a gap, in which the device waits for the host. On a CPU
            ``kernels`` are luxel's operations, and that time is the work of all others: rest.
    """
    part_ms: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    for row in kernels:
        name, ms = row["kernel"], row["ms"]
        if _FUSED.search(name):
            part_ms["encoding"] += encoding_share * ms
            part_ms["network"] += (1 - encoding_share) * ms
        elif _ENCODING.search(name):
            part_ms["encoding"] += ms
        else:
            part_ms["network" if _NETWORK.search(name) else "rest"] += ms
    rounding = min(rounding_ms, part_ms["rest"])
    part_ms["encoding"] += rounding
    part_ms["rest"] -= rounding
    part_ms["gaps" if on_gpu else "rest"] += max(0.0, frame_ms - sum(part_ms.values()))
    return part_ms


def shares(parts: dict[str, float]) -> dict[str, float]:
    """Each part's share of all."""
    total = sum(parts.values())
    return {name: ms / total if total > 0 else 0.0 for name, ms in parts.items()}


def stages_alone(
    whole: Field, positions: Tensor, device: torch.device, *, warmup: int, iterations: int
) -> dict[str, Any]:
    """Times of encoding, network, and both together, in turns at the same positions; tables are rounded already.

    Both are one operation where the encoding has one with the network, which takes the positions in their order.

    Args:
        whole: the field.
        positions: of a frame's queries, [N, D].

    Returns:
        rows; times: by `STAGES`, of `compare_ms`; rounding_ms: of the table, once.
    """
    encoding, network = whole.encoding, whole.network
    with torch.no_grad():
        encode, both = encoding.prepared(), whole.snapshot()
        features = encode(positions)
        runs: dict[str, Callable[[int], object]] = {
            "encoding": lambda _: encode(positions),
            "network": lambda _: network(features),
            "encoding + network": lambda _: both(positions),
        }
        times = compare_ms(runs, device, warmup=warmup, iterations=iterations)
        rounding = 0.0
        if encoding.tables:
            rounding = sum(row["ms"] for row in kernel_times(lambda _: encoding.prepared(), device))
    return {"rows": len(positions), "times": times, "rounding_ms": rounding}


def encoding_share(alone: dict[str, Any]) -> float:
    """The encoding's share of the sum of the encoding's and the network's time alone."""
    encoding, network = (alone["times"][stage]["median"] for stage in STAGES[:2])
    return encoding / (encoding + network)


def rooflines(alone: dict[str, Any], whole: Field, ceilings: dict[str, Any]) -> list[dict[str, Any]]:
    """One line per stage: its time, its floor, and the floor's share of the time.

    Args:
        alone: of `stages_alone`.
        whole: the field.
        ceilings: of `luxel.viewer.bench.raster.roofline.measure_ceilings`, and half_flops_per_s.
    """
    lines = []
    for stage, floor in floors(alone["rows"], whole).items():
        ms = alone["times"][stage]["median"]
        by_bytes = floor["bytes"] / ceilings["bytes_per_s"] * 1e3
        rate = ceilings["flops_per_s"], ceilings["half_flops_per_s"]
        by_flops = (floor["flops"] / rate[0] + floor["half_flops"] / rate[1]) * 1e3
        lines.append(
            {
                "stage": stage,
                "rows": alone["rows"],
                "ms": ms,
                "gb": floor["bytes"] / 1e9,
                "gathered_gb": floor["gathered"] / 1e9,
                "gflop": (floor["flops"] + floor["half_flops"]) / 1e9,
                "floor_ms": max(by_bytes, by_flops),
                "bound": "memory" if by_bytes >= by_flops else "arithmetic",
                "share": max(by_bytes, by_flops) / ms,
            }
        )
    return lines


class Reads(NamedTuple):
    """The least work of an encoding at some positions.

    Attributes:
        table: bytes of tables, each entry once; an entry that no position needs does not count.
        gathered: bytes of all look-ups in tables, most of which caches serve.
        flops: operations in float.
    """

    table: int
    gathered: int
    flops: int


def reads_of_grid(encoding: GridEncoding, rows: int) -> Reads:
    """Of a grid: no more entries than there are corners of cells, for positions spread over the complete box."""
    grid = encoding.grid
    entry = grid.features * (2 if encoding.half_tables and encoding.table.is_cuda else 4)
    corners = 2**grid.dimensions
    sizes = [after - before for before, after in zip(grid.offsets, grid.offsets[1:], strict=False)]
    entries = sum(min(size, rows * corners) for size in sizes)
    # Of a level: scaling and splitting a position, a corner's weight, and its features times that.
    steps = 3 * grid.dimensions + corners * (grid.dimensions - 1 + 2 * grid.features)
    return Reads(entries * entry, rows * grid.levels * corners * entry, rows * grid.levels * steps)


def reads_of(encoding: Encoding, rows: int) -> Reads:
    """Of an encoding of which nothing else is known: an operation for each number, and its tables once."""
    table = sum(table.numel() * table.element_size() for table in encoding.tables)
    return Reads(table, table, rows * encoding.width)


# Encodings whose work is counted from their sizes; `reads_of` counts that of all others.
READS: dict[type[Encoding], Callable[[Any, int], Reads]] = {GridEncoding: reads_of_grid}


def floors(rows: int, whole: Field) -> dict[str, dict[str, float]]:
    """Least bytes and operations of each of `STAGES` for ``rows`` positions.

    Returns:
        per stage: bytes, each array moved once, of a table as `Reads` has it; gathered, the bytes of all look-ups in
        tables; flops in float; half_flops, of the network.
    """
    encoding, network = whole.encoding, whole.network
    table, gathered, encoding_flops = READS.get(type(encoding), reads_of)(encoding, rows)
    in_half = network.weights.is_cuda and not network.precise
    products = 2 * rows * sum(after * before for after, before in network.network.shapes())
    weights = 4 * network.weights.numel()
    sizes = encoding.dimensions, encoding.width, network.network.outputs
    inward, between, outward = (4 * rows * n for n in sizes)
    network_flops = {"flops": 0 if in_half else products, "half_flops": products if in_half else 0}
    both = {"flops": encoding_flops + network_flops["flops"], "half_flops": network_flops["half_flops"]}
    return {
        "encoding": {
            "bytes": inward + table + between,
            "gathered": gathered,
            "flops": encoding_flops,
            "half_flops": 0,
        },
        "network": {"bytes": between + weights + outward, "gathered": 0, **network_flops},
        "encoding + network": {"bytes": inward + table + weights + outward, "gathered": gathered, **both},
    }


def half_ceiling(device: torch.device, single: float) -> dict[str, Any]:
    """The rate of products in half on tensor cores, measured now; on a CPU, where networks are float, ``single``."""
    if device.type != "cuda":
        return {"half_flops_per_s": single, "half_how": "as in float32"}
    n = 8192
    a, b = (torch.rand(n, n, device=device, dtype=torch.float16) for _ in range(2))
    out = torch.empty_like(a)
    ms = summary(times_ms(lambda _: torch.mm(a, b, out=out), device, warmup=3, iterations=10))["median"]
    return {
        "half_flops_per_s": 2e3 * n**3 / ms,
        "half_how": f"float16 product of two {n} x {n} matrices, median of 10",
    }
