"""Rasterizer against gsplat 1.5.3 and against luxel's own float64 reference, in one process.

What it measures, for each row of `scenes_for_bench.ROWS`
    quality    PSNR of luxel's image to gsplat's (with its alpha cap of 0.999) and of both to the float64
               reference over a sample of tiles, also with luxel's own cap; relative error of the gradients
               of the parameters, ||g - h|| / ||h||, of luxel to gsplat (whole image) and of both to the
               reference (image gradient on a sample of tiles). A row under 60 dB or over 1e-3 is marked.
    time       forward without autograd, forward + backward from a given image gradient; CUDA events, turns,
               median, p10, p90. gsplat gets activated parameters outside of the timed region, packed and
               unpacked, the better one counts; "raw" times gsplat from raw parameters, as luxel always works.
               "no wait" gives luxel its room for (tile, splat) pairs beforehand instead of reading it back.
    memory     parameters plus peak of forward + backward.
    stages     device time per kernel.

How to run
    python tests/bench/raster_against_gsplat.py --data FOLDER [--out FOLDER] [--rows NAME ...] [--quick]
    FOLDER holds bonsai-7k.splat and garden-points.npz. Writes raster.json and raster.md into --out after each
    row and prints the table last. --quick takes about a minute on a large GPU. Without a GPU:
    --device cpu --shrink 16 --keep 2000 --quick (gsplat is left out).
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from raster_quality import (
    activated,
    forget_matrices,
    pinhole_matrix,
    quality_of_gradients,
    quality_of_images,
    render_gsplat,
    render_luxel,
)
from scenes_for_bench import ROWS, Row, build
from timing import compare_ms, gpu_state, kernel_table, kernel_times, machine_facts, peak_bytes
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import rasterize

MIN_PSNR, MAX_GRADIENT_ERROR = 60.0, 1e-3


def timed(
    gaussians: Gaussians, cameras: list[Camera], with_gsplat: bool, options: argparse.Namespace
) -> dict[str, Any]:
    """Times, memory and kernels of all competitors."""
    device = gaussians.device
    camera_of = [cameras[i % len(cameras)] for i in range(1024)]
    for camera in cameras:
        pinhole_matrix(camera)
    first = cameras[0]
    g_image = torch.randn(first.height, first.width, 3, device=device)
    leaves = gaussians.detach().requires_grad_()

    def fwd(image: Callable[[Camera], Tensor]) -> Callable[[int], object]:
        def run(i: int) -> None:
            with torch.no_grad():
                image(camera_of[i])

        return run

    def fb(image: Callable[[Camera], Tensor], inputs: list[Tensor]) -> Callable[[int], object]:
        def run(i: int) -> None:
            for tensor in inputs:
                tensor.grad = None
            image(camera_of[i]).backward(g_image)

        return run

    raw_inputs = list(leaves.tensors().values())
    with torch.no_grad():
        pairs = max(int(rasterize(gaussians, camera).tile_counts.sum()) for camera in cameras)
    room = int(1.25 * pairs)
    forward = {
        "luxel": fwd(lambda camera: render_luxel(gaussians, camera)),
        "luxel, no wait": fwd(lambda camera: render_luxel(gaussians, camera, room=room)),
    }
    both = {
        "luxel": fb(lambda camera: render_luxel(leaves, camera), raw_inputs),
        "luxel, no wait": fb(lambda camera: render_luxel(leaves, camera, room=room), raw_inputs),
    }
    if with_gsplat:
        inputs = {
            name: tensor.detach().clone().requires_grad_() for name, tensor in activated(gaussians).items()
        }
        leaf_inputs = list(inputs.values())
        for packed in (False, True):
            name = "gsplat packed" if packed else "gsplat"
            forward[name] = fwd(lambda camera, packed=packed: render_gsplat(inputs, camera, packed))
            both[name] = fb(lambda camera, packed=packed: render_gsplat(inputs, camera, packed), leaf_inputs)
        both["gsplat raw"] = fb(lambda camera: render_gsplat(activated(leaves), camera, False), raw_inputs)
    settings = {"warmup": options.warmup, "iterations": options.iterations}
    out: dict[str, Any] = {
        "pairs": pairs,
        "fwd": compare_ms(forward, device, **settings),
        "fb": compare_ms(both, device, **settings),
    }
    parameters = sum(t.numel() * t.element_size() for t in raw_inputs)
    out["memory_gb"] = {}
    for name, run in both.items():
        for tensor in raw_inputs:
            tensor.grad = None
        if with_gsplat:
            for tensor in leaf_inputs:
                tensor.grad = None
        out["memory_gb"][name] = (parameters + peak_bytes_from_nothing(run, raw_inputs, device)) / 1e9
    out["kernels"] = {"luxel": kernel_times(both["luxel"], device)}
    if with_gsplat:
        out["kernels"]["gsplat"] = kernel_times(both["gsplat"], device)
    return out


def peak_bytes_from_nothing(run: Callable[[int], object], inputs: list[Tensor], device: torch.device) -> int:
    """Peak of forward + backward with gradients: ``run`` drops the old ones first, so they are added back."""
    peak = peak_bytes(run, device)
    return peak + sum(t.numel() * t.element_size() for t in inputs) if peak else 0


def best(times: dict[str, Any], names: tuple[str, ...]) -> tuple[str, float]:
    """The fastest of several competitors: name and median."""
    found = [(times[name]["median"], name) for name in names if name in times]
    return (min(found)[1], min(found)[0]) if found else ("", math.nan)


def measure(row: Row, options: argparse.Namespace, with_gsplat: bool) -> dict[str, Any]:
    """Everything about one row; what fails is recorded as text and the rest goes on."""
    device = torch.device(options.device)
    gaussians, cameras = build(row, options.data, device, keep=options.keep)
    result: dict[str, Any] = {**dataclasses.asdict(row), "count": gaussians.count, "cameras": len(cameras)}
    if not options.no_quality:
        tiles = options.tiles
        attempt(result, "images", lambda: quality_of_images(gaussians, cameras, with_gsplat, tiles))
        attempt(
            result,
            "gradients",
            lambda: quality_of_gradients(gaussians, cameras[0], with_gsplat, max(1, tiles // 2)),
        )
    attempt(result, "times", lambda: timed(gaussians, cameras, with_gsplat, options))
    if device.type == "cuda":
        result["gpu_state"] = gpu_state()
    return result


def attempt(result: dict[str, Any], key: str, function: Callable[[], Any]) -> None:
    """Stores what ``function`` returns, or the traceback of its failure."""
    try:
        result[key] = function()
    except Exception:
        result[f"{key}_failure"] = traceback.format_exc()
        print(f"FAILED {result['name']} {key}\n{traceback.format_exc()}", file=sys.stderr)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def table(results: list[dict[str, Any]]) -> str:
    """A Markdown table; `!` marks what misses the quality or the goal, or is slower than gsplat."""
    head = "| row | N | luxel fwd / fb | gsplat fwd / fb | faster | goal | dB to gsplat "
    head += (
        "| dB to float64: luxel, gsplat | worst gradient: to gsplat, float64 (gsplat's) | GB luxel, gsplat |"
    )
    lines = [head, "|" + "---|" * 10]
    for r in results:
        times, images, errors = r.get("times", {}), r.get("images", {}), r.get("gradients", {})
        cells = [r["name"], f"{r['count'] / 1e6:.2f} M" if "count" in r else "?"]
        pairs = []
        for name in (("luxel",), ("gsplat", "gsplat packed")):
            pairs.append([best(times.get(kind, {}), name)[1] for kind in ("fwd", "fb")])
            cells.append(" / ".join(f"{ms:.3f}" for ms in pairs[-1]))
        ratios = [theirs / ours for ours, theirs in zip(*pairs, strict=True)]
        slow = "" if all(ratio >= 1 or math.isnan(ratio) for ratio in ratios) else " !"
        cells.append(" / ".join(f"{ratio:.2f}x" for ratio in ratios) + slow)
        met = pairs[0][0] <= r["goal_fwd"] and pairs[0][1] <= r["goal_fb"]
        cells.append(f"{r['goal_fwd']} / {r['goal_fb']}" + ("" if met else " !"))
        cells.append(marked(images.get("luxel_to_gsplat", math.nan), lambda v: v >= MIN_PSNR, ".1f"))
        cells.append(
            marked(images.get("luxel_to_reference", math.nan), lambda v: v >= MIN_PSNR, ".1f")
            + f", {images.get('gsplat_to_reference', math.nan):.1f}"
        )
        worst = {pair: max(values.values()) for pair, values in errors.items()}
        cells.append(
            marked(worst.get("luxel_to_gsplat", math.nan), lambda v: v <= MAX_GRADIENT_ERROR, ".1e")
            + ", "
            + marked(worst.get("luxel_to_reference", math.nan), lambda v: v <= MAX_GRADIENT_ERROR, ".1e")
            + f" ({worst.get('gsplat_to_reference', math.nan):.1e})"
        )
        memory = times.get("memory_gb", {})
        cells.append(", ".join(f"{memory.get(name, math.nan):.2f}" for name in ("luxel", "gsplat")))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def marked(value: float, passes: Callable[[float], bool], form: str) -> str:
    """The number, with `!` if it does not pass; NaN (not measured) is only shown."""
    return f"{value:{form}}" + ("" if math.isnan(value) or passes(value) else " !")


def report(result: dict[str, Any]) -> str:
    """The details of one row as text: gradients by parameter, spread of the times, kernels."""
    lines = [f"== {result['name']}: {result['count']:,} Gaussians, {result['width']}x{result['height']}"]
    lines += [f"  {name}: {value:.5g}" for name, value in result.get("images", {}).items()]
    for pair, values in result.get("gradients", {}).items():
        lines.append(
            f"  gradient {pair}: " + ", ".join(f"{name} {error:.1e}" for name, error in values.items())
        )
    times = result.get("times", {})
    for kind in ("fwd", "fb"):
        for name, t in times.get(kind, {}).items():
            rounds = ", ".join(f"{ms:.3f}" for ms in t["rounds"])
            spread = f"[{t['p10']:.3f}, {t['p90']:.3f}]  rounds {rounds}"
            lines.append(f"  {kind:3} {name:14} {t['median']:8.3f} ms  {spread}")
    for name, rows in times.get("kernels", {}).items():
        if rows:
            lines += [f"  kernels of {name}, forward + backward:", kernel_table(rows)]
    return "\n".join(lines)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Command line; --quick only changes what was not given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--rows", nargs="+", choices=[row.name for row in ROWS])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="two rows, few iterations and tiles")
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--iterations", type=int)
    parser.add_argument(
        "--tiles", type=int, help="tiles that the reference renders; half as many for gradients"
    )
    parser.add_argument("--keep", type=int, help="take at most this many Gaussians")
    parser.add_argument("--shrink", type=float, default=1, help="divide the resolution by this")
    parser.add_argument("--no-gsplat", action="store_true")
    parser.add_argument("--no-quality", action="store_true", help="times only")
    options = parser.parse_args(arguments)
    on_gpu = options.device.startswith("cuda")
    defaults = (3, 10, 16) if options.quick else (10, 100, 64)
    if not on_gpu:
        defaults = (0, 2, 4)
    for name, value in zip(("warmup", "iterations", "tiles"), defaults, strict=True):
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.rows is None:
        options.rows = ["bonsai-1080p", "garden-g1-1080p"] if options.quick else [row.name for row in ROWS]
    return options


def main(arguments: list[str] | None = None) -> int:
    """Runs the rows that were asked for; 0 if each could be measured in full."""
    options = parse(arguments)
    device = torch.device(options.device)
    installed = importlib.util.find_spec("gsplat") is not None
    with_gsplat = device.type == "cuda" and installed and not options.no_gsplat
    options.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    facts = machine_facts(device)
    if with_gsplat:
        import gsplat

        facts["gsplat"] = gsplat.__version__
    results: list[dict[str, Any]] = []
    for row in ROWS:
        if row.name not in options.rows:
            continue
        small = dataclasses.replace(
            row,
            width=max(17, round(row.width / options.shrink)),
            height=max(17, round(row.height / options.shrink)),
        )
        start = time.perf_counter()
        try:
            results.append(measure(small, options, with_gsplat))
        except Exception:
            results.append({**dataclasses.asdict(small), "count": 0, "failure": traceback.format_exc()})
            print(f"FAILED {row.name}\n{traceback.format_exc()}", file=sys.stderr)
        forget_matrices()
        print(report(results[-1]) + f"\n  took {time.perf_counter() - start:.1f} s", flush=True)
        text = table(results)
        (options.out / "raster.json").write_text(
            json.dumps({"machine": facts, "rows": results}, indent=1) + "\n"
        )
        (options.out / "raster.md").write_text(text + "\n")
    print(json.dumps(facts))
    print(table(results))
    return int(any(key.endswith("failure") for result in results for key in result))


if __name__ == "__main__":
    sys.exit(main())
