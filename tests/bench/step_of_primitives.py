"""What a training step of each primitive takes at the same number of tile instances.

What it measures
    Gaussians are trained on a capture for --after steps. The scene then is trained on, count fixed and one view a step,
    as Gaussians, as 4D Gaussians that stand still, and as convexes whose size is chosen so that the views ask for as
    many (tile, primitive) pairs: median milliseconds of 40 steps, and with --kernels what they consist of.

    With --trained convexes it starts from convexes that were trained themselves (preset light), beside as many
    Gaussians, trained as long, whose size is chosen so that the views ask for as many pairs.

How to run
    python tests/bench/step_of_primitives.py CAPTURE [--after 6000] [--background white] [--kernels]
    python tests/bench/step_of_primitives.py CAPTURE --trained convexes [--after 15000]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from step_profile import profiled, timed

from luxel.render.camera import View
from luxel.render.primitives import Gaussians, Gaussians4d, Parameters
from luxel.render.rasterize import rasterize
from luxel.render.replay import release_memory
from luxel.render.train import Trainer
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset
from luxel.scenes import open as open_capture
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.raster.conversions import as_primitive

WINDOW, WINDOWS = 40, 9  # steps that are timed together, and how often


def instances(scene: Parameters, views: list[View], device: torch.device) -> float:
    """(Tile, primitive) pairs of a view, on average."""
    with torch.no_grad():
        found = [rasterize(scene, v.camera.to(device), time=v.time, max_instances=1).instances for v in views]
    return torch.cat(found).double().mean().item()


def asking_for(wanted: float, scene: Parameters, views: list[View], device: torch.device) -> Parameters:
    """The scene in such a size that it asks for ``wanted`` pairs a view."""
    low, high = 0.2, 5.0
    for _ in range(12):
        middle = (low * high) ** 0.5
        if instances(scene.scaled(middle), views, device) > wanted:
            high = middle
        else:
            low = middle
    return scene.scaled(low)


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

        def trainer(primitive: str, name: str, kind: str = "default", most: int | None = None) -> Trainer:
            config = preset(kind, primitive)
            config.background, config.checkpoints.every, config.eval_every = options.background, 0, 0
            config.batch = 1
            config.max_gaussians = most or config.max_gaussians
            return Trainer(config, capture.train, capture.test, capture.points, f"{folder}/{name}", device)

        def trained(*what: Any) -> Parameters:
            runner = trainer(*what)
            while runner.steps_done < options.after:
                runner.step()
            runner.synchronize()
            return runner.scene.map(torch.clone)

        scenes: dict[str, Parameters]
        if options.trained == "convexes":
            convexes = trained("convexes", "first", "light")
            gaussians = trained("gaussians", "second", "default", convexes.count)
            wanted = instances(convexes, views, device)
            scenes = {"gaussians": asking_for(wanted, gaussians, views, device), "convexes": convexes}
        else:
            gaussians = trained("gaussians", "first")
            assert isinstance(gaussians, Gaussians)
            wanted = instances(gaussians, views, device)
            scenes = {
                "gaussians": gaussians,
                "gaussians4d": Gaussians4d.from_gaussians(gaussians, time=0.0, time_scale=1.0),
                "convexes": asking_for(wanted, as_primitive(gaussians, "convexes"), views, device),
            }
        base = 0.0
        for primitive, scene in scenes.items():
            median = measured(trainer(primitive, primitive), scene, base, views, options.kernels)
            base = base or median
            release_memory()


def measured(runner: Trainer, scene: Parameters, base: float, views: list[View], kernels: bool) -> float:
    """Median milliseconds of a step of ``runner`` on a scene of fixed count, which it prints."""
    runner.config.strategy = FixedCount(prune_opacity=0)
    runner.config.sh_every = runner.config.reorder_every = 0
    asked = instances(scene, views, runner.device)
    runner.start_from(scene)
    for _ in range(100):
        runner.step()
    took = [1e3 * timed(runner, WINDOW) / WINDOW for _ in range(WINDOWS)]
    median = float(np.median(took))
    print(
        f"{runner.config.primitive}: {median:.3f} ms a step ({min(took):.3f} to {max(took):.3f}), "
        f"{median / (base or median):.2f} of Gaussians, {scene.count:,} with {asked:,.0f} instances a view"
    )
    if kernels:
        rows, _ = profiled(runner, runner.steps_done + WINDOW)
        print(f"  {sum(r[1] for r in rows):.0f} us of kernels, {sum(r[2] for r in rows):.0f} launches")
        for kernel, us, launches in rows[:28]:
            print(f"  {us:8.1f} us {launches:5.1f} x  {kernel[:110]}")
    return median


if __name__ == "__main__":
    main()
