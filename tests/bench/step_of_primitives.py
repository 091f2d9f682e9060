"""What a training step of each primitive takes at the same number of tile instances.

What it measures
    Gaussians are trained on a capture for --after steps. The scene then is trained on, count fixed and one view a step,
    as Gaussians, as 4D Gaussians that stand still, and as convexes whose size is chosen so that the views ask for as
    many (tile, primitive) pairs: median milliseconds of 40 steps, and with --kernels what they consist of.

How to run
    python tests/bench/step_of_primitives.py CAPTURE [--after 6000] [--background white] [--kernels]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from step_profile import profiled, timed

from luxel.render.camera import View
from luxel.render.primitives import Gaussians, Gaussians4d, Parameters
from luxel.render.rasterize import rasterize
from luxel.render.replay import release_memory
from luxel.render.train import Trainer, learning
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset
from luxel.scenes import open as open_capture
from luxel.viewer.bench.conversions import as_convexes
from luxel.viewer.bench.machine import machine_facts

WINDOW, WINDOWS = 40, 9  # steps that are timed together, and how often


def instances(scene: Parameters, views: list[View], device: torch.device) -> float:
    """(Tile, primitive) pairs of a view, on average."""
    with torch.no_grad():
        found = [rasterize(scene, v.camera.to(device), time=v.time, max_instances=1).instances for v in views]
    return torch.cat(found).double().mean().item()


def convexes_with(wanted: float, gaussians: Gaussians, views: list[View], device: torch.device) -> Parameters:
    """Convexes in the place of Gaussians, of such a size that they ask for ``wanted`` pairs a view."""
    convexes, low, high = as_convexes(gaussians), 0.2, 5.0
    for _ in range(12):
        middle = (low * high) ** 0.5
        if instances(convexes.scaled(middle), views, device) > wanted:
            high = middle
        else:
            low = middle
    return convexes.scaled(low)


def main() -> None:
    """Trains, converts, measures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", type=Path)
    parser.add_argument("--cache", type=Path, help="of structure from motion")
    parser.add_argument("--after", type=int, default=6000)
    parser.add_argument("--background", default="auto")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda")
    print(machine_facts(device))
    capture = open_capture(options.capture, cache_dir=options.cache)
    views = list(capture.train)[::8]
    with tempfile.TemporaryDirectory() as folder:

        def trainer(primitive: str, name: str) -> Trainer:
            config = preset("default", primitive)
            config.background, config.checkpoints.every, config.eval_every = options.background, 0, 0
            config.batch = 1
            return Trainer(config, capture.train, capture.test, capture.points, f"{folder}/{name}", device)

        first = trainer("gaussians", "first")
        while first.steps_done < options.after:
            first.step()
        first.settle()
        trained: Gaussians = first.scene.map(torch.clone)
        del first
        wanted = instances(trained, views, device)
        scenes: dict[str, Parameters] = {
            "gaussians": trained,
            "gaussians4d": Gaussians4d.from_gaussians(trained, time=0.0, time_scale=1.0),
            "convexes": convexes_with(wanted, trained, views, device),
        }
        base = 0.0
        for primitive, scene in scenes.items():
            runner = trainer(primitive, primitive)
            runner.config.strategy = FixedCount(prune_opacity=0)
            runner.config.sh_every = runner.config.reorder_every = 0
            asked = instances(scene, views, device)
            runner.optimiser = learning.Optimiser(scene)
            runner._start_statistics()
            for _ in range(100):
                runner.step()
            took = []
            for _ in range(WINDOWS):
                took.append(1e3 * timed(runner, WINDOW) / WINDOW)
            median = float(np.median(took))
            base = base or median
            print(
                f"{primitive}: {median:.3f} ms a step ({min(took):.3f} to {max(took):.3f}), {median / base:.2f} of "
                f"Gaussians, {scene.count:,} with {asked:,.0f} instances a view"
            )
            if options.kernels:
                rows, _ = profiled(runner, runner.steps_done + WINDOW)
                print(
                    f"  {sum(r[1] for r in rows):.0f} us of kernels, {sum(r[2] for r in rows):.0f} launches"
                )
                for kernel, us, launches in rows[:28]:
                    print(f"  {us:8.1f} us {launches:5.1f} x  {kernel[:110]}")
            del runner
            release_memory()


if __name__ == "__main__":
    main()
