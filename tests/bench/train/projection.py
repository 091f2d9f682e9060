"""The projection alone: forward, backward, Adam after it and Adam within it, per kernel, with the bytes they must move.

What it measures
    Kernel times from the profiler, with the L2 cache swept before each call. Scenes: N random Gaussians in random
    order of which a share is seen (an object in training: most; a large scene: few), and rows of
    `luxel bench raster` where `--data` is given. Gradients of the splats are random. Before any time is taken the
    fused step is compared with the backward followed by Adam. Floors count every byte once: parameters of all, or
    of the seen, and what the pass writes; times follow from the device-to-device copy measured first.

How to run
    python tests/bench/train/projection.py [--data FOLDER] [--only NAME]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.project_gaussians import project_gaussians
from luxel.render.ops.train.adam import adam_schedule, fused_adam_
from luxel.render.ops.train.project_adam import project_adam_
from luxel.render.primitives.gaussians import Gaussians
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.raster.scenes import data_scenes
from luxel.viewer.bench.timing import kernel_times

RATES = (1.6e-4, 1e-3, 5e-3, 5e-2, 2.5e-3, 1.25e-4)


def cloud(count: int, share: float, device: torch.device) -> tuple[Gaussians, Camera]:
    """Random Gaussians in random order, of which about ``share`` lie before the camera."""
    generator = torch.Generator(device).manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    means = 0.5 * normal(count, 3)
    means[torch.rand(count, generator=generator, device=device) > share] += torch.tensor(
        [0, 0, 50.0], device=device
    )
    gaussians = Gaussians(
        means=means,
        quats=normal(count, 4),
        log_scales=math.log(0.01) + 0.3 * normal(count, 3),
        opacity_logits=normal(count),
        sh_dc=normal(count, 3),
        sh_rest=0.1 * normal(count, 15, 3),
    )
    return gaussians, Camera.look_at((0, -4, 0.5), (0, 0, 0), width=800, height=800).to(device)


class Step:
    """Inputs of one call of each stage on a scene."""

    def __init__(self, gaussians: Gaussians, camera: Camera) -> None:
        self.parameters = [t.detach().clone() for t in gaussians.tensors().values()]
        self.moments = [[torch.full_like(t, v) for t in self.parameters] for v in (1e-4, 1e-6)]
        self.cameras = (camera.world_to_cam[None], camera.intrinsics[None])
        self.view: dict[str, Any] = {"width": camera.width, "height": camera.height, "sh_degree": 3}
        self.view |= {"near": 0.01, "far": 1e4, "dilation": 0.3}
        self.splats, self.values, self.tile_counts, *_ = self.forward(0)
        generator = torch.Generator(camera.world_to_cam.device).manual_seed(2)
        self.g_splats, self.g_values = (
            torch.randn(t.shape, generator=generator, device=t.device) for t in (self.splats, self.values)
        )
        self.count = self.parameters[0].shape[0]
        self.seen = int((self.tile_counts > 0).sum())
        self.statistics = torch.zeros(self.count, 4, device=self.splats.device)

    def forward(self, _: int) -> tuple[Tensor, ...]:
        parameters: Any = tuple(self.parameters)
        return project_gaussians(parameters, *self.cameras, **self.view)

    def backward(self, _: int) -> list[Tensor]:
        options = (*self.view.values(), False, False, False)
        given = (self.tile_counts, self.g_splats, self.g_values, False)
        arguments = (*self.parameters, *self.cameras, self.statistics, *options, *given)
        return list(torch.ops.luxel.project_gaussians_bwd(*arguments)[:6])

    def apart(self, i: int, visible: Tensor | None = None) -> None:
        fused_adam_(self.parameters, self.backward(i), *self.moments, RATES, 100, visible=visible)

    def fused(self, _: int, **options: Any) -> None:
        if not hasattr(self, "schedule"):
            self.schedule = torch.tensor(adam_schedule(RATES, 100), device=self.splats.device)
        project_adam_(
            "gaussians",
            self.parameters,
            *self.moments,
            self.cameras,
            tile_counts=self.tile_counts,
            g_splats=self.g_splats,
            g_values=self.g_values,
            schedule=self.schedule,
            statistics=self.statistics,
            **self.view,
            **options,
        )

    def state(self) -> list[Tensor]:
        return [*self.parameters, *self.moments[0], *self.moments[1]]


def check(step: Step) -> float:
    """The largest relative difference of a movement between the fused step and the two kernels."""
    start = [t.clone() for t in step.state()]
    worst = 0.0
    for visible_only in (False, True):
        results = []
        for run in (step.apart, step.fused):
            for t, old in zip(step.state(), start, strict=True):
                t.copy_(old)
            if run == step.apart:
                step.apart(0, (step.tile_counts[0] > 0) if visible_only else None)
            else:
                step.fused(0, visible_only=visible_only)
            results.append([t - old for t, old in zip(step.state(), start, strict=True)])
        for a, b in zip(*results, strict=True):
            worst = max(worst, ((a - b).norm() / a.norm()).item())
    for t, old in zip(step.state(), start, strict=True):
        t.copy_(old)
    return worst


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second of a large copy, reading and writing."""
    a = torch.rand(1 << 28, device=device)
    b = torch.empty_like(a)
    row = max(kernel_times(lambda _: b.copy_(a), device), key=lambda row: row["ms"])
    return 2 * a.numel() * 4 / row["ms"] * 1e3


def report(name: str, step: Step, device: torch.device, bandwidth: float, fused: bool) -> None:
    """Prints kernel times and floors of one scene."""
    print(f"== {name}: {step.seen:,} of {step.count:,} seen", end="")
    print(f"; fused differs by {check(step):.1e} of the movement" if fused else "")
    n, seen = 4 * step.count, 4 * step.seen
    runs: dict[str, tuple[Any, str, float]] = {
        "fwd": (step.forward, "project_gaussians_fwd", n * 12 + seen * (48 + 11)),
        "bwd": (step.backward, "project_gaussians_bwd", n * 60 + seen * (59 + 11 + 8)),
        "adam apart": (step.apart, "adam_kernel", n * 59 * 7),
    }
    if fused:
        dense, sparse = n + n * 59 * 6 + seen * (11 + 8), n + seen * (59 * 6 + 11 + 8)
        runs["bwd+adam"] = (step.fused, "project_gaussians_bwd", dense)
        runs["bwd+adam, seen only"] = (
            lambda i: step.fused(i, visible_only=True),
            "project_gaussians_bwd",
            sparse,
        )
    sweep = torch.empty(1 << 26, device=device)

    for title, (run, kernel, floor) in runs.items():

        def swept(i: int, run: Any = run) -> None:
            sweep.fill_(float(i))
            run(i)

        times = kernel_times(swept, device, iterations=10)
        ms = sum(row["ms"] for row in times if kernel in row["kernel"])
        at_least = 1e3 * floor / bandwidth
        print(
            f"  {title:20s} {1e3 * ms:8.1f} us   floor {1e3 * at_least:7.1f} us   {ms / at_least:5.2f} x",
            flush=True,
        )


def main() -> None:
    """Runs the scenes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default="", help="scenes whose name contains this")
    parser.add_argument("--no-fused", action="store_true", help="for a library from before there was one")
    options = parser.parse_args()
    device = torch.device("cuda")
    print(machine_facts(device))
    bandwidth = copy_bandwidth(device)
    print(f"copy: {bandwidth / 1e12:.2f} TB/s")
    for count, share in ((272_000, 0.9), (1_000_000, 0.9), (9_000_000, 0.1)):
        name = f"cloud of {count:,}, {share:.0%} seen"
        if options.only in name:
            report(name, Step(*cloud(count, share, device)), device, bandwidth, not options.no_fused)
    for scene in data_scenes(options.data) if options.data else ():
        if options.only in scene.name:
            gaussians = scene.build(device)
            camera = scene.look(gaussians, 1920, 1080)[0].to(device)
            report(scene.name, Step(gaussians, camera), device, bandwidth, not options.no_fused)


if __name__ == "__main__":
    main()
