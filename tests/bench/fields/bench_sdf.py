"""A distance field of a mesh with fine detail: how good after how many steps, and how long a step and a frame take.

What it measures
    queries    exact distances of positions, uniform and near the surface, by device time.
    training   mean |error| in sides of the box and the IoU of insides after steps of training, and the time of a step
               (sampling, forward, backward, Adam; captured on a GPU).
    frames     at WIDTH x HEIGHT from around the mesh: the whole, rays alone, and how often the network was asked.

How to run
    python tests/bench/fields/bench_sdf.py [--device cpu] [--mesh FILE] [--steps N] [--batch N] [--rate R]
        [--decay-from N] [--size WIDTH HEIGHT] [--out FOLDER]
    Without --mesh: `luxel.scenes.synthetic.knot_mesh.ridged_knot`. Prints, and writes sdf.json, an image
    and the surface as a mesh into --out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from luxel.render.fields.config import defaults
from luxel.render.fields.sdf import SdfField
from luxel.render.fields.training.optimizer import FieldOptimizer
from luxel.render.geometry.camera import Camera
from luxel.render.native import best_device
from luxel.render.ops.field.sphere_trace import Rays
from luxel.scenes.files.meshes.field_mesh import save_field_mesh
from luxel.scenes.files.meshes.mesh_files import read_mesh
from luxel.scenes.synthetic.knot_mesh import ridged_knot
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import compare_ms


def wait(device: torch.device) -> None:
    """For the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def queries(field: SdfField, device: torch.device) -> dict[str, Any]:
    """Times of exact distances, of half a batch either way."""
    assert field.samples is not None
    samples, generator = field.samples, torch.Generator(device).manual_seed(0)
    drawn = samples.draw(field.config.batch, generator).positions
    half = len(drawn) // 2
    runs: dict[str, Callable[[int], object]] = {
        "uniform": lambda _: samples.labelled(drawn[:half]),
        "near the surface": lambda _: samples.labelled(drawn[half:]),
        "a whole batch": lambda _: samples.draw(field.config.batch, generator),
        "a batch as training draws it": lambda _: field.draw_batch(generator),
    }
    return compare_ms(runs, device, warmup=2, iterations=10)


def frames(field: SdfField, size: tuple[int, int], device: torch.device) -> tuple[dict[str, Any], Camera]:
    """Times of a frame and of its rays, and evaluations of the network for each pixel."""
    middle, side = field.centre.cpu(), field.side.item()
    cameras = []
    for k in range(8):
        turn = 2 * math.pi * k / 8
        eye = middle + side * torch.tensor([1.3 * math.cos(turn), 1.3 * math.sin(turn), 0.6])
        camera = Camera.look_at(eye.tolist(), middle.tolist(), width=size[0], height=size[1])
        cameras.append(camera.to(device))
    evaluated = []

    def rays_alone(k: int) -> object:
        camera = cameras[k % 8]
        pose = camera.cam_to_world
        start = field.to_unit(pose[:3, 3])[:, None]
        rays = Rays(
            camera.width * camera.height,
            cam_to_unit=torch.cat([pose[:3, :3] / field.side, start], 1).contiguous(),
            intrinsics=camera.intrinsics,
            width=camera.width,
        )
        hits = field.trace(rays, widening=0.1 / float(camera.intrinsics[0]))
        evaluated.append(hits.evaluations / rays.count)
        return hits

    field.coarse_grid()
    runs: dict[str, Callable[[int], object]] = {
        "frame": lambda k: field.render(cameras[k % 8]),
        "rays": rays_alone,
    }
    times = compare_ms(runs, device, warmup=2, iterations=24 if device.type == "cuda" else 3)
    return times | {"evaluations of a pixel": sum(evaluated) / len(evaluated)}, cameras[1]


def main() -> int:
    """Trains, measures, prints, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=torch.device, default=best_device())
    parser.add_argument("--mesh", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument(
        "--decay-from", type=int, help="halves the rate ten times from here on (default: half way)"
    )
    parser.add_argument("--ema", type=float, default=0.95)
    parser.add_argument("--precise", action="store_true")
    parser.add_argument("--size", type=int, nargs=2, default=(1920, 1080), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device, steps = options.device, options.steps
    mesh = read_mesh(options.mesh) if options.mesh else ridged_knot()
    start = steps // 2 if options.decay_from is None else options.decay_from
    config = dataclasses.replace(
        defaults("sdf"),
        batch=options.batch or (1 << 18 if device.type == "cuda" else 1 << 13),
        rate=options.rate,
        decay_factor=0.5,
        decay_from=start,
        decay_every=max(1, (steps - start) // 10),
        ema=options.ema,
        precise=options.precise,
    )
    report: dict[str, Any] = {"machine": machine_facts(device), "config": config.to_dict(), "scores": {}}
    field = SdfField(config).to(device)
    wait(device)
    begun = time.perf_counter()
    field.begin(mesh, device)
    wait(device)
    assert field.samples is not None
    report["begin_s"] = time.perf_counter() - begun
    print(f"{len(mesh.faces)} triangles, sign by {field.samples.sign}: ready in {report['begin_s']:.2f} s")
    report["queries"] = queries(field, device)
    for name, row in report["queries"].items():
        print(f"  exact distances, {name}: {row['median']:.3f} ms")
    learner, seconds = FieldOptimizer(field), 0.0
    looks = sorted({steps} | {steps * k // 16 for k in (1, 2, 4, 8, 12)})
    done = 0
    for until in looks:
        begun = time.perf_counter()
        for step in range(done, until):
            learner.step(step)
        wait(device)
        seconds += time.perf_counter() - begun
        done = until
        scores = field.evaluate()
        report["scores"][until] = scores | {"seconds": seconds}
        shown = ", ".join(f"{name} {value:.3e}" for name, value in scores.items() if name != "iou")
        print(f"  {until} steps, {seconds:.1f} s: {shown}, iou {scores['iou']:.5f}", flush=True)
    report["step_ms"] = 1e3 * seconds / steps
    print(f"{report['step_ms']:.3f} ms a step of {config.batch} samples")
    report["frames"], camera = frames(field, tuple(options.size), device)
    for name in ("frame", "rays"):
        print(f"  {name} at {options.size[0]}x{options.size[1]}: {report['frames'][name]['median']:.2f} ms")
    print(f"  {report['frames']['evaluations of a pixel']:.2f} evaluations of a pixel")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "sdf.json").write_text(json.dumps(report, indent=1))
        image = (field.render(camera).cpu().numpy() * 255 + 0.5).astype(np.uint8)
        Image.fromarray(image).save(options.out / "sdf.png")
        save_field_mesh(options.out / "sdf.ply", field, 512 if device.type == "cuda" else 96)
    good = scores["mean_error"] < 1e-3 and scores["iou"] >= 0.99
    print("goal reached" if good else "goal missed: mean error below 1e-3 of the box, IoU of 0.99 or more")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
