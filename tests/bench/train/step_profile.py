"""What a training step on a GPU is made of: kernels, gaps, density control, memory.

What it measures
    A capture is trained for --after steps; then the time of a step, the kernels of 80 steps between two refinements
    (from the profiler), the share of the time during which a kernel ran, refinements included, and what settling,
    refining and capturing cost. With --gaussians N, that many random Gaussians in the middle of the capture's points
    are trained instead, their number fixed: the memory and time of a large scene.

How to run
    python tests/bench/train/step_profile.py CAPTURE [--after 6000] [--preset default] [--background white]
    python tests/bench/train/step_profile.py CAPTURE --gaussians 10000000
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.gaussians.presets import PRESETS
from luxel.render.train import Trainer
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset
from luxel.scenes import open as open_capture
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.train.step_times import restart_from, seconds_of


def random_gaussians(xyz: np.ndarray, count: int, device: torch.device) -> Gaussians:
    """Small Gaussians in the box that holds nine tenths of the points along each axis."""
    generator = torch.Generator(device).manual_seed(0)
    low, high = (torch.from_numpy(np.quantile(xyz, q, axis=0)).float().to(device) for q in (0.05, 0.95))
    size = (high - low).prod().div(count).pow(1 / 3)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    return Gaussians(
        means=low + (high - low) * uniform(count, 3),
        quats=torch.randn(count, 4, generator=generator, device=device),
        log_scales=(0.4 * size).log().expand(count, 3).clone(),
        opacity_logits=torch.full((count,), -2.0, device=device),
        sh_dc=uniform(count, 3) - 0.5,
        sh_rest=torch.zeros(count, 15, 3, device=device),
    )


def profiled(trainer: Trainer, until: int) -> tuple[list[tuple[str, float, float]], float]:
    """Trains up to step ``until``; kernels as (name, microseconds, launches) per step, and seconds of wall clock."""
    from torch.profiler import ProfilerActivity, profile

    steps = until - trainer.steps_done
    trainer.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        started = time.perf_counter()
        while trainer.steps_done < until:
            trainer.step()
        trainer.synchronize()
        seconds = time.perf_counter() - started
    rows = [
        (event.key, event.self_device_time_total / steps, event.count / steps)
        for event in profiler.key_averages()
        if "CUDA" in str(event.device_type)
    ]
    return sorted(rows, key=lambda row: -row[1]), seconds


class Utilisation:
    """Asks nvidia-smi now and then during how much of the time before a kernel ran."""

    def __enter__(self) -> Utilisation:
        command = [
            "nvidia-smi",
            "--query-gpu=utilization.gpu",
            "--format=csv,noheader,nounits",
            "-lms",
            "200",
        ]
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except FileNotFoundError:
            self._process = None
        return self

    def __exit__(self, *_: object) -> None:
        said = ""
        if self._process is not None:
            self._process.terminate()
            said, _ = self._process.communicate()
        percents = [int(line) for line in said.split() if line.isdecimal()][
            2:
        ]  # the first look at what was before
        self.mean = f"{np.mean(percents):.0f} % ({len(percents)} samples)" if percents else "nothing"


def watch(owner: Any, name: str, spent: dict[str, list[float]]) -> None:
    """Notes the seconds of each call of a method, the device's part included."""
    method = getattr(owner, name)

    def timed(*args: Any, **options: Any) -> Any:
        torch.cuda.synchronize()
        started = time.perf_counter()
        result = method(*args, **options)
        torch.cuda.synchronize()
        spent.setdefault(name, []).append(time.perf_counter() - started)
        return result

    setattr(owner, name, timed)


def main() -> None:
    """Trains, then measures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", type=Path)
    parser.add_argument("--cache", type=Path, help="of structure from motion")
    parser.add_argument("--after", type=int, default=6000)
    parser.add_argument("--preset", choices=PRESETS, default="default")
    parser.add_argument("--background", default="auto")
    parser.add_argument("--gaussians", type=int)
    options = parser.parse_args()
    device = torch.device("cuda")
    print(machine_facts(device))
    capture = open_capture(options.capture, cache_dir=options.cache)
    config = preset(options.preset)
    config.background, config.checkpoints.every, config.eval_every = options.background, 0, 0
    if options.gaussians:
        config.strategy, config.sh_every, config.reorder_every = FixedCount(refine_every=10**6), 0, 0
        options.after = min(options.after, 100)
    with tempfile.TemporaryDirectory() as folder:
        torch.cuda.reset_peak_memory_stats()
        trainer = Trainer(config, capture.train, capture.test, capture.points, f"{folder}/run", device)
        if options.gaussians:
            many = random_gaussians(capture.points.xyz, options.gaussians, device)
            restart_from(trainer, many)
        started = time.perf_counter()
        while trainer.steps_done < options.after:
            trainer.step()
        trainer.synchronize()
        print(
            f"{options.after} steps in {time.perf_counter() - started:.2f} s, {trainer.queue.captures} captures"
        )
        report(trainer)


def report(trainer: Trainer) -> None:
    """Prints what this script measures."""
    start = -(-trainer.steps_done // 100) * 100 + 5  # just after a refinement
    while trainer.steps_done < start:
        trainer.step()
    trainer.synchronize()
    started = time.perf_counter()
    while trainer.steps_done < start + 80:
        trainer.step()
    trainer.synchronize()
    peak = torch.cuda.max_memory_allocated() / 1e9
    print(
        f"{(time.perf_counter() - started) / 80 * 1e3:.3f} ms a step, {trainer.store.count:,} Gaussians, "
        f"peak of allocated memory {peak:.2f} GB, reserved {torch.cuda.max_memory_reserved() / 1e9:.2f} GB"
    )
    while trainer.steps_done < start + 100:
        trainer.step()
    rows, seconds = profiled(trainer, start + 180)
    total = sum(us for _, us, _ in rows)
    print(f"kernels {total:.0f} us a step, wall clock {seconds / 80 * 1e6:.0f} us")
    for name, us, launches in rows[:40]:
        print(f"  {us:8.1f} us {launches:5.1f} x  {name[:100]}")
    with Utilisation() as utilisation:
        seconds = seconds_of(trainer, 4000) / 10
    rows, traced = profiled(trainer, trainer.steps_done + 400)
    kernels = sum(us for _, us, _ in rows) * 400e-6
    print(
        f"400 steps with refinements: kernels {1e3 * kernels:.0f} ms, wall clock {1e3 * seconds:.0f} ms without the "
        f"profiler ({kernels / seconds:.1%} of it), {1e3 * traced:.0f} ms with it, which itself takes time between "
        f"kernels ({kernels / traced:.1%}); the driver says {utilisation.mean}"
    )
    spent: dict[str, list[float]] = {}
    for owner, name in (
        (trainer.queue, "synchronize"),
        (trainer.config.strategy, "after_step"),
        (trainer.densifier, "reset"),
        (trainer.queue._replay, "_capture"),
    ):
        watch(owner, name, spent)
    for _ in range(1000):
        trainer.step()
    for name, calls in spent.items():
        print(f"  {name}: {len(calls)} times in 1000 steps, {1e3 * np.mean(calls):.2f} ms each")


if __name__ == "__main__":
    main()
