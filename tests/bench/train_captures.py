"""Trains real captures to the end and reports quality, time, count and memory, beside gsplat's numbers.

What it measures
    chair   NeRF-synthetic: transforms_train.json, transforms_test.json, white background, 30,000 steps.
    fox     50 photographs and nothing else: poses and points from luxel's own structure from motion, every
            8th view held out, 7,000 steps.
    plush   A COLMAP model with 97 photographs, every 8th held out, 7,000 steps.
    Held-out PSNR, SSIM and LPIPS at the end and PSNR on the way; seconds of training (evaluation does not
    count, the device is waited for at the end); Gaussians; peak of torch's memory. gsplat's numbers are those
    of gsplat 1.5.3 with its default strategy, fused SSIM and fused Adam on one NVIDIA H200.

How to run
    python tests/bench/train_captures.py --captures FOLDER [--out FOLDER] [--only chair fox plush]
    FOLDER holds chair/, fox/images/ and plush/. --cache FOLDER keeps what structure from motion found, and
    has it at hand where pycolmap is not installed; --points FOLDER starts a capture from the NAME.ply there.
    --steps N for another length, --set NAME=VALUE for any field of the configuration
    ("--set strategy.kind=mcmc", "--set backend=gsplat"), --quick for 300 steps each. Writes
    train.json, train.md and one render beside its photograph per capture into --out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from luxel.render.train import TrainConfig
from luxel.scenes import load_points
from luxel.scenes import open as open_capture
from luxel.viewer.bench.machine import machine_facts
from luxel.viewer.bench.train.measure import describe_capture, train_once
from luxel.viewer.bench.train.variants import with_settings


@dataclass(frozen=True)
class Run:
    """One capture of the benchmark: where it is, how it is trained, what is wanted, what gsplat reaches."""

    name: str
    folder: str
    steps: int
    background: str
    goal_psnr: float
    gsplat_psnr: float
    gsplat_seconds: float


RUNS = (
    Run("chair", "chair", 30_000, "white", 35.8, 35.83, 146),
    Run("fox", "fox/images", 7_000, "auto", 28.6, 28.7, 22),
    Run("plush", "plush", 7_000, "auto", math.nan, 28.7, 21),
)


def configuration(run: Run, options: argparse.Namespace) -> TrainConfig:
    """The defaults of luxel with the length of the run, and what --set says."""
    steps = options.steps or (300 if options.quick else run.steps)
    values = TrainConfig(steps=steps, eval_every=max(1, steps // 6)).to_dict()
    values["background"] = run.background
    return TrainConfig.from_dict(with_settings(values, tuple(options.set)))


def train(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Trains one capture and measures it."""
    device = torch.device(options.device)
    config = configuration(run, options)
    started = time.perf_counter()
    cache = None if options.cache is None else options.cache / run.name
    capture = open_capture(options.captures / run.folder, max_size=options.max_size, cache_dir=cache)
    opened = time.perf_counter() - started
    if options.points is not None and (file := options.points / f"{run.name}.ply").is_file():
        capture.points = load_points(file)
    split = f"{len(capture.train)} views, {len(capture.test)} held out: {capture.holdout}"
    print(f"== {run.name}: {capture.kind}; {split}")
    print(
        f"  {len(capture.points.xyz):,} points, opened in {opened:.1f} s; {' '.join(capture.warnings)}",
        flush=True,
    )
    measured = train_once(
        config, capture, device, lambda folder, *_: keep_a_render(folder, options.out / f"{run.name}.png")
    )
    found = {
        **describe_capture(capture),
        **measured,
        "name": run.name,
        "size": [capture.train[0].camera.width, capture.train[0].camera.height],
        "train_seconds": measured["seconds"],
        "open_seconds": opened,
        "peak_gb": (measured["peak_bytes"] or 0) / 1e9,
        "config": config.to_dict(),
        "goal_psnr": run.goal_psnr,
        "gsplat_psnr": run.gsplat_psnr,
        "gsplat_seconds": run.gsplat_seconds,
    }
    way = [f"{p['step']}: {p['psnr']:.2f} dB {p['seconds']:.1f} s" for p in measured["curve"]]
    print("  on the way: " + ", ".join(way))
    return found


def keep_a_render(run: Path, to: Path) -> None:
    """Keeps the first render that the run saved beside its photograph."""
    renders = sorted((run / "renders").glob("**/*.png")) if (run / "renders").is_dir() else []
    if renders:
        shutil.copy(renders[0], to)


def table(results: list[dict[str, Any]]) -> str:
    """The results as Markdown; `!` marks a PSNR under the goal."""
    lines = [
        "| capture | views + held out | steps | PSNR | SSIM | LPIPS "
        "| training | per step | Gaussians | peak | gsplat |",
        "|" + "---|" * 11,
    ]
    for r in results:
        if "failure" in r:
            lines.append(f"| {r['name']} | failed: {r['failure'].strip().splitlines()[-1]} |" + " |" * 9)
            continue
        goal = r["goal_psnr"]
        mark = "" if math.isnan(goal) else " (goal reached)" if r["psnr"] >= goal else f" ! (goal {goal})"
        cells = [
            r["name"],
            f"{r['views']} + {r['held_out']}",
            f"{r['steps']:,}",
            f"{r['psnr']:.2f} dB{mark}",
            f"{r['ssim']:.4f}",
            f"{r['lpips']:.4f}",
            f"{r['train_seconds']:.1f} s",
            f"{1e3 * r['train_seconds'] / max(1, r['steps']):.2f} ms",
            f"{r['count']:,}",
            f"{r['peak_gb']:.2f} GB",
            f"{r['gsplat_psnr']} dB in {r['gsplat_seconds']:g} s",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Trains what was asked for; 0 if every run came to its end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--captures", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--points", type=Path)
    parser.add_argument(
        "--only", nargs="+", choices=[run.name for run in RUNS], default=[r.name for r in RUNS]
    )
    parser.add_argument("--steps", type=int)
    parser.add_argument("--max-size", type=int, help="longer side of the images at most")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = machine_facts(torch.device(options.device))
    results: list[dict[str, Any]] = []
    for run in RUNS:
        if run.name not in options.only:
            continue
        try:
            results.append(train(run, options))
        except Exception:
            results.append({"name": run.name, "failure": traceback.format_exc()})
            print(traceback.format_exc(), flush=True)
        (options.out / "train.json").write_text(
            json.dumps({"machine": facts, "runs": results}, indent=1) + "\n"
        )
        (options.out / "train.md").write_text(table(results) + "\n")
        print(table(results[-1:]), flush=True)
    print(json.dumps(facts))
    print(table(results))
    return int(any("failure" in result for result in results))


if __name__ == "__main__":
    sys.exit(main())
