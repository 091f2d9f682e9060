"""Frames of neural fields, captured, launched one by one, and looked at by the host: the same images, in what time.

What it measures
    Each kind is trained for some seconds on what `luxel bench fields` trains it on, and drawn at some sizes from some
    views: by CUDA graphs (captured), by the same kernels without (launched), and in waves that the host looks at
    (polled). Volumes also with 128 steps along the box, as before. Beside the times: positions that the field is asked
    in a frame, how far the images are apart (PSNR, and the share of pixels that differ by more than 1/255), graphs
    captured, parts of images that were drawn twice, and bytes that the plans keep.

How to run
    python tests/bench/viewer/bench_frames.py [--kinds sdf volume radiance] [--sizes 1920x1080 3840x2160] [--seconds S]
        [--encoding hash] [--capture FOLDER] [--iterations N] [--device cpu] [--out FILE]
    Prints a table and writes it as JSON. Status 1 where images differ on more than 0.5 % of the pixels.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from luxel.render.fields import volume
from luxel.render.fields.application import Application
from luxel.render.fields.config import defaults
from luxel.render.fields.drawing import frame_mode as frame_modes
from luxel.render.fields.training.trainer import FieldTrainer
from luxel.render.native import best_device
from luxel.viewer.bench.fields.datasets import FieldDataset, capture_dataset, frames, make_dataset
from luxel.viewer.bench.fields.stages import counting, encoded_field
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.timing import compare_ms

OLD_STEPS = 128


def trained(dataset: FieldDataset, encoding: Any, seconds: float, device: torch.device) -> Application:
    """An application after so many seconds."""
    config = dataclasses.replace(defaults(dataset.kind), encoding=encoding, steps=10**7)
    if device.type == "cpu":
        config = dataclasses.replace(config, batch=2048, log2_entries=13)
    with tempfile.TemporaryDirectory() as folder:
        trainer = FieldTrainer.new(config, dataset.data, f"{folder}/run", device, say=lambda _: None)
        while trainer.train_seconds < seconds:
            trainer.step()
        return trainer.application


def with_steps(made: Application, steps: int | None, draw: Callable[[], Tensor]) -> Tensor:
    """An image with that many steps through the box of a volume."""
    if steps is not None and isinstance(made, volume.VolumeField) and steps != volume.FIELD_STEPS:
        volume.FIELD_STEPS = steps
        made._place = None
    return draw()


def psnr(a: Tensor, b: Tensor) -> float:
    """dB."""
    return -10 * math.log10(max(float((a - b).double().square().mean()), 1e-12))


def measure(
    made: Application, dataset: FieldDataset, size: tuple[int, int], iterations: int, device: torch.device
) -> dict[str, Any]:
    """One row."""
    draws = frames(made, dataset, *size, 4)
    new = volume.FIELD_STEPS
    ways: dict[str, tuple[frame_modes.Mode, int | None]] = {m: (m, new) for m in get_args(frame_modes.Mode)}
    if made.kind == "volume":
        ways[f"captured, {OLD_STEPS} steps"] = "captured", OLD_STEPS
        ways[f"polled, {OLD_STEPS} steps"] = "polled", OLD_STEPS

    def run(way: str, i: int) -> Tensor:
        mode, steps = ways[way]
        with frame_modes.use_frame_mode(mode), torch.no_grad():
            return with_steps(made, steps, draws[i % len(draws)])

    images = {way: [run(way, i).clone() for i in range(len(draws))] for way in ways}
    rows = {}
    for way in ways:
        with counting(encoded_field(made)) as queries:
            for i in range(len(draws)):
                run(way, i)
        rows[way] = queries.rows / len(draws)
    report = compare_ms(
        {way: lambda i, w=way: run(w, i) for way in ways},
        device,
        warmup=2 * len(draws),
        iterations=iterations,
    )
    for way, row in report.items():
        off = torch.cat(
            [(a - b).abs().amax(-1).flatten() for a, b in zip(images[way], images["polled"], strict=True)]
        )
        row["differ"] = float((off > 1 / 255).float().mean())
        row["psnr"] = min(psnr(a, b) for a, b in zip(images[way], images["polled"], strict=True))
        row["queries"] = rows[way]
    with_steps(made, new, draws[0])
    renderer: Any = getattr(made, "_renderer", None)
    report["renderer"] = {
        "captures": getattr(renderer, "captures", 0),
        "redrawn": getattr(renderer, "redrawn", 0),
    }
    return report


def main() -> int:
    """Trains, checks, times, prints, writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", default=["sdf", "volume", "radiance"])
    parser.add_argument("--sizes", nargs="+", default=["1920x1080", "3840x2160"])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--encoding", default="hash")
    parser.add_argument("--capture", type=Path)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--device", type=torch.device, default=best_device())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device, report, good = options.device, {"machine": machine_facts(options.device), "rows": []}, True
    for kind in options.kinds:
        given = capture_dataset(options.capture) if kind == "radiance" and options.capture else None
        chosen = given or make_dataset(kind, small=device.type == "cpu")
        made = trained(chosen, options.encoding, options.seconds, device)
        for size in options.sizes:
            width, height = (int(side) for side in size.split("x"))
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            row = measure(made, chosen, (width, height), options.iterations, device)
            facts = row.pop("renderer")
            for way, line in row.items():
                print(
                    f"{kind:9} {size:10} {way:21} {line['median']:8.3f} ms "
                    f"(p10 {line['p10']:.3f}, p90 {line['p90']:.3f})"
                    f"  {line['queries'] / 1e6:6.2f} M queries  {line['psnr']:6.2f} dB of polled, "
                    f"{100 * line['differ']:.3f} % differ",
                    flush=True,
                )
                good = good and (line["differ"] < 0.005 or f"{OLD_STEPS}" in way)
            facts["peak_bytes"] = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
            print(f"{'':9} {facts}", flush=True)
            report["rows"].append({"kind": kind, "size": size, "times": row, **facts})
        del made
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
