"""What a training step of each primitive takes at the same number of (tile, primitive) pairs.

What it measures
    Gaussians are trained on a capture for --after steps. The scene then is trained on, count fixed and one view a step,
    as each primitive of the registry, in such a size that a view has as many (tile, primitive) pairs: median
    milliseconds of 40 steps, and with --kernels what they consist of.
    (`luxel.viewer.bench.train.step_times`, as `luxel bench record` measures.)

    With --trained convexes it starts from convexes that were trained themselves (preset light), beside as many
    Gaussians, trained as long, whose size is chosen so that a view has as many pairs.

How to run
    python tests/bench/train/step_of_primitives.py CAPTURE [--after 6000] [--background white] [--kernels]
    python tests/bench/train/step_of_primitives.py CAPTURE --trained convexes [--after 15000]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from step_profile import profiled

from luxel.render.primitives import PRIMITIVES, Gaussians, Parameters
from luxel.render.replay import release_memory
from luxel.render.train import Trainer
from luxel.scenes import open as open_capture
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.train.step_times import (
    equal_scene,
    instances,
    scaled_to,
    step_times,
    trained,
    trainer_for,
)

WINDOW, WINDOWS = 40, 9  # steps that are timed together, and how often


def main() -> None:
    """Trains, converts, measures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", type=Path)
    parser.add_argument("--cache", type=Path, help="of structure from motion")
    parser.add_argument("--after", type=int, default=6000)
    parser.add_argument("--background", default="auto")
    parser.add_argument("--trained", choices=("gaussians", "convexes"), default="gaussians")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda")
    print(machine_facts(device))
    capture = open_capture(options.capture, cache_dir=options.cache)
    views = list(capture.train)[::8]
    with tempfile.TemporaryDirectory() as folder:

        def trainer(primitive: str, run: str, name: str = "default", most: int | None = None) -> Trainer:
            return trainer_for(capture, f"{folder}/{run}", device, primitive, name, most, options.background)

        scenes: dict[str, Parameters]
        if options.trained == "convexes":
            convexes = trained(trainer("convexes", "first", "light"), options.after)
            gaussians = trained(trainer("gaussians", "second", most=convexes.count), options.after)
            pairs = instances(convexes, views, device)
            scenes = {"gaussians": scaled_to(pairs, gaussians, views, device), "convexes": convexes}
        else:
            gaussians = trained(trainer("gaussians", "first"), options.after)
            assert isinstance(gaussians, Gaussians)
            scenes = {name: equal_scene(name, gaussians, views, device) for name in PRIMITIVES}
        base = 0.0
        for primitive, scene in scenes.items():
            runner = trainer(primitive, primitive)
            row = step_times(runner, scene, views, window=WINDOW, windows=WINDOWS)
            base = base or row["step_ms"]
            print(
                f"{primitive}: {row['step_ms']:.3f} ms a step ({row['low']:.3f} to {row['high']:.3f}), "
                f"{row['step_ms'] / base:.2f} of Gaussians, {row['count']:,} with {row['instances']:,} pairs a view"
            )
            if options.kernels:
                print_kernels(runner)
            release_memory()


def print_kernels(runner: Trainer) -> None:
    """Prints what the steps of a trainer consist of."""
    rows, _ = profiled(runner, runner.steps_done + WINDOW)
    print(f"  {sum(r[1] for r in rows):.0f} us of kernels, {sum(r[2] for r in rows):.0f} launches")
    for kernel, us, launches in rows[:28]:
        print(f"  {us:8.1f} us {launches:5.1f} x  {kernel[:110]}")


if __name__ == "__main__":
    main()
