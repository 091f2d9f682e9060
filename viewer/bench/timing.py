"""How the benchmarks measure: CUDA events, medians in turns, kernel and stage times, peaks of memory.

Nothing here asserts a time. On a CPU the same functions use the host's clock.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from luxel.render.replay import release_memory


def times_ms(
    run: Callable[[int], object], device: torch.device, *, warmup: int, iterations: int
) -> list[float]:
    """Milliseconds of each call of ``run(i)`` on the device's stream; the host runs ahead as it can."""
    for i in range(warmup):
        run(i)
    if device.type != "cuda":
        out = []
        for i in range(iterations):
            start = time.perf_counter()
            run(i)
            out.append(1e3 * (time.perf_counter() - start))
        return out
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(iterations)
    ]
    torch.cuda.synchronize(device)
    for i, (start, end) in enumerate(events):
        start.record()
        run(i)
        end.record()
    torch.cuda.synchronize(device)
    return [start.elapsed_time(end) for start, end in events]


def summary(times: Sequence[float]) -> dict[str, float]:
    """median, p10 and p90 of a list of times."""
    p10, median, p90 = np.percentile(np.asarray(times), [10, 50, 90]).tolist()
    return {"median": median, "p10": p10, "p90": p90, "samples": len(times)}


def compare_ms(
    variants: dict[str, Callable[[int], object]],
    device: torch.device,
    *,
    warmup: int,
    iterations: int,
    rounds: int = 2,
) -> dict[str, dict[str, Any]]:
    """Times of each variant, taken in turns over ``rounds``, so that clock drift affects all alike.

    Returns:
        per name: median, p10, p90 over all rounds, and the median of each round (their spread is the noise).
    """
    times: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(rounds):
        for name, run in variants.items():
            times[name].append(times_ms(run, device, warmup=warmup, iterations=-(-iterations // rounds)))
    return {
        name: {**summary([t for part in parts for t in part]), "rounds": [float(np.median(p)) for p in parts]}
        for name, parts in times.items()
    }


def peak_bytes(run: Callable[[int], object], device: torch.device) -> int:
    """Peak of torch's allocated memory during a call over what was allocated before it; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    run(0)
    torch.cuda.synchronize(device)
    release_memory()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run(0)
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def kernel_times(
    run: Callable[[int], object], device: torch.device, *, iterations: int = 5
) -> list[dict[str, Any]]:
    """Mean device time and launches per call of ``run``, by kernel, longest first; empty on a CPU."""
    if device.type != "cuda":
        return []
    from torch.profiler import ProfilerActivity, profile

    run(0)
    torch.cuda.synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        for i in range(iterations):
            run(i)
        torch.cuda.synchronize(device)
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in profiler.events() or []:
        if "CUDA" in str(event.device_type):
            entry = totals[short_kernel_name(event.name)]
            entry[0] += event.time_range.elapsed_us()
            entry[1] += 1
    rows = [
        {"kernel": name, "ms": us / 1e3 / iterations, "launches": launches / iterations}
        for name, (us, launches) in totals.items()
    ]
    return sorted(rows, key=lambda row: -row["ms"])


def many_kernel_times(
    run: Callable[[int], object], device: torch.device, *, iterations: int = 5
) -> list[dict[str, Any]]:
    """As `kernel_times`, for calls of many thousand launches: the profiler's records are summed as they are.

    What the host does is not recorded, and no tree of events is built, which would take longer than the calls.
    """
    if device.type != "cuda":
        return []
    from torch.profiler import ProfilerActivity, profile

    run(0)
    torch.cuda.synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for i in range(iterations):
            run(i)
        torch.cuda.synchronize(device)
    return record_times(profiler, "CUDA", iterations)


def record_times(profiler: Any, device_type: str, iterations: int) -> list[dict[str, Any]]:
    """Rows of `kernel_times` from the records of a profile.

    Args:
        profiler: a `torch.profiler.profile` that has ended.
        device_type: "CUDA", or "CPU".
        iterations: calls in it.
    """
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for record in profiler.profiler.kineto_results.events():
        if str(record.device_type()).endswith(device_type):
            entry = totals[record.name()]
            entry[0] += record.duration_ns()
            entry[1] += 1
    merged: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, (ns, launches) in totals.items():
        entry = merged[short_kernel_name(name)]
        entry[0] += ns
        entry[1] += launches
    rows = [
        {"kernel": name, "ms": ns / 1e6 / iterations, "launches": launches / iterations}
        for name, (ns, launches) in merged.items()
    ]
    return sorted(rows, key=lambda row: -row["ms"])


def stage_times(
    run: Callable[[int], object], device: torch.device, *, iterations: int = 3
) -> list[dict[str, Any]]:
    """Mean host time and calls per call of ``run`` of luxel's operations, longest first; for CPUs."""
    if device.type == "cuda":
        return []
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it announces each start and stop on stderr otherwise
    from torch.profiler import ProfilerActivity, profile

    run(0)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for i in range(iterations):
            run(i)
    rows = [
        {
            "kernel": event.key.removeprefix("luxel::"),
            "ms": event.cpu_time_total / 1e3 / iterations,
            "launches": event.count / iterations,
        }
        for event in profiler.key_averages()
        if event.key.startswith("luxel::")
    ]
    return sorted(rows, key=lambda row: -row["ms"])


def short_kernel_name(name: str) -> str:
    """A kernel name without return type and arguments, at most 72 characters."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    name = re.sub(r"^void ", "", name.split("(")[0] if not name.startswith("Mem") else name)
    return name if len(name) <= 72 else name[:69] + "..."
