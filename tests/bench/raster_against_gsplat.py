"""Rasterizer against gsplat 1.5.3 and against luxel's own float64 reference, in one process.

What it measures, for each row of `scenes_for_bench.ROWS`
    quality    PSNR of luxel's image to gsplat's (with its alpha cap of 0.999) and of both to the float64
               reference over a sample of tiles, also with luxel's own cap; relative error of the gradients
               of the parameters, ||g - h|| / ||h||, of luxel to gsplat (whole image) and of both to the
               reference (image gradient on a sample of tiles). A row under 60 dB or over 1e-3 is marked.
    time       forward without autograd, forward + backward from a given image gradient; CUDA events, turns,
               median, p10, p90. gsplat gets activated parameters outside of the timed region, packed and
               unpacked, the better one counts; "raw" times gsplat from raw parameters, as luxel always works.
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
from scenes_for_bench import ROWS, Row, build
from timing import compare_ms, gpu_state, kernel_table, kernel_times, machine_facts, peak_bytes
from torch import Tensor

from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import rasterize

GSPLAT_MAX_ALPHA = 0.999  # fixed in its kernels
MIN_PSNR, MAX_GRADIENT_ERROR = 60.0, 1e-3
Render = Callable[[Gaussians, Camera], Tensor]


def render_luxel(gaussians: Gaussians, camera: Camera, max_alpha: float = 0.99) -> Tensor:
    """luxel's image, [H, W, 3]."""
    return rasterize(gaussians, camera, sh_degree=3, max_alpha=max_alpha).rgb


def activated(gaussians: Gaussians) -> dict[str, Tensor]:
    """The parameters as gsplat takes them."""
    return {
        "means": gaussians.means,
        "quats": gaussians.quats,
        "scales": gaussians.scales,
        "opacities": gaussians.opacities,
        "colors": torch.cat([gaussians.sh_dc[:, None], gaussians.sh_rest], dim=1),
    }


def render_gsplat(inputs: dict[str, Tensor], camera: Camera, packed: bool) -> Tensor:
    """gsplat's image, [H, W, 3]."""
    from gsplat import rasterization

    image, _, _ = rasterization(
        **inputs,
        viewmats=camera.world_to_cam[None],
        Ks=pinhole_matrix(camera)[None],
        width=camera.width,
        height=camera.height,
        near_plane=camera.near,
        far_plane=camera.far,
        sh_degree=3,
        packed=packed,
        tile_size=16,
        render_mode="RGB",
        absgrad=False,
    )
    return image[0]


_matrices: dict[int, tuple[Camera, Tensor]] = {}


def pinhole_matrix(camera: Camera) -> Tensor:
    """The 3x3 intrinsics on the camera's device, made once per camera so that no timing includes it."""
    if id(camera) not in _matrices:
        fx, fy, cx, cy = camera.intrinsics.tolist()
        matrix = camera.intrinsics.new_tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
        _matrices[id(camera)] = (camera, matrix)
    return _matrices[id(camera)][1]


def psnr(image: Tensor, truth: Tensor) -> float:
    """10 log10(1 / mean squared difference); 200 where there is none."""
    mean_square = (image.double() - truth.double()).square().mean().item()
    return min(200.0, -10 * math.log10(mean_square)) if mean_square > 0 else 200.0


def gradients(
    gaussians: Gaussians, image_of: Callable[[Gaussians], Tensor], g_image: Tensor
) -> dict[str, Tensor]:
    """The gradients of sum(image * g_image) by the raw parameters."""
    leaves = gaussians.detach().requires_grad_()
    image_of(leaves).backward(g_image)
    found = {name: tensor.grad for name, tensor in leaves.tensors().items()}
    return {name: torch.zeros(()) if grad is None else grad for name, grad in found.items()}


def relative_errors(found: dict[str, Tensor], truth: dict[str, Tensor]) -> dict[str, float]:
    """||found - truth|| / ||truth|| per parameter, in float64."""
    return {
        name: ((found[name].double() - true.double()).norm() / true.double().norm().clamp_min(1e-300)).item()
        for name, true in truth.items()
    }


def sample_tiles(camera: Camera, count: int) -> tuple[list[int], Tensor]:
    """``count`` random whole tiles of 16x16 pixels and the mask of their pixels, [H, W]."""
    across, down = -(-camera.width // 16), -(-camera.height // 16)
    whole = (camera.width // 16, camera.height // 16)
    every = torch.randperm(across * down, generator=torch.Generator().manual_seed(7)).tolist()
    tiles = [t for t in every if t % across < whole[0] and t // across < whole[1]][:count]
    mask = torch.zeros(camera.height, camera.width, dtype=torch.bool)
    for tile in tiles:
        row, column = divmod(tile, across)
        mask[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16] = True
    return tiles, mask.to(camera.intrinsics.device)


def quality_of_images(
    gaussians: Gaussians, cameras: list[Camera], with_gsplat: bool, tile_count: int
) -> dict[str, Any]:
    """PSNRs; over several cameras the lowest counts. The reference is asked for the first camera."""
    from luxel.render.reference.rasterize import rasterize_reference

    out: dict[str, Any] = {}
    with torch.no_grad():
        inputs = activated(gaussians)
        if with_gsplat:
            pairs = [
                (render_luxel(gaussians, camera, GSPLAT_MAX_ALPHA), render_gsplat(inputs, camera, False))
                for camera in cameras
            ]
            out["luxel_to_gsplat"] = min(psnr(a, b) for a, b in pairs)
            out["luxel_to_gsplat_mean_abs"] = max((a - b).abs().mean().item() for a, b in pairs)
            out["luxel_to_gsplat_max_abs"] = max((a - b).abs().max().item() for a, b in pairs)
        camera = cameras[0]
        tiles, mask = sample_tiles(camera, tile_count)
        exact, in_double = gaussians.to(torch.float64), camera.to(torch.float64)
        for name, cap in (("gsplat's cap", GSPLAT_MAX_ALPHA), ("default cap", 0.99)):
            truth = rasterize_reference(exact, in_double, sh_degree=3, max_alpha=cap, tiles=tiles).rgb[mask]
            if cap == GSPLAT_MAX_ALPHA:
                out["mean_of_reference"] = truth.mean().item()
                if with_gsplat:
                    out["gsplat_to_reference"] = psnr(render_gsplat(inputs, camera, False)[mask], truth)
            out[f"luxel_to_reference, {name}"] = psnr(render_luxel(gaussians, camera, cap)[mask], truth)
        out["luxel_to_reference"] = out["luxel_to_reference, default cap"]
    return out


def quality_of_gradients(
    gaussians: Gaussians, camera: Camera, with_gsplat: bool, tile_count: int
) -> dict[str, dict[str, float]]:
    """Relative errors of the gradients, per pair and parameter."""
    from luxel.render.reference.rasterize import rasterize_reference

    generator = torch.Generator(gaussians.device).manual_seed(11)
    g_image = torch.randn(camera.height, camera.width, 3, generator=generator, device=gaussians.device)
    out: dict[str, dict[str, float]] = {}

    def luxel(g: Gaussians) -> Tensor:
        return render_luxel(g, camera, GSPLAT_MAX_ALPHA)

    def gsplat(g: Gaussians) -> Tensor:
        return render_gsplat(activated(g), camera, False)

    if with_gsplat:
        ours = gradients(gaussians, luxel, g_image)
        out["luxel_to_gsplat"] = relative_errors(ours, gradients(gaussians, gsplat, g_image))
        del ours
    tiles, mask = sample_tiles(camera, tile_count)
    g_image = g_image * mask[..., None]

    def reference(g: Gaussians) -> Tensor:
        return rasterize_reference(
            g, camera.to(torch.float64), sh_degree=3, max_alpha=GSPLAT_MAX_ALPHA, tiles=tiles
        ).rgb

    truth = gradients(gaussians.to(torch.float64), reference, g_image.double())
    out["luxel_to_reference"] = relative_errors(gradients(gaussians, luxel, g_image), truth)
    if with_gsplat:
        out["gsplat_to_reference"] = relative_errors(gradients(gaussians, gsplat, g_image), truth)
    return out


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
    forward = {"luxel": fwd(lambda camera: render_luxel(gaussians, camera))}
    both = {"luxel": fb(lambda camera: render_luxel(leaves, camera), raw_inputs)}
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
    with_gsplat = device.type == "cuda" and not options.no_gsplat
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
        _matrices.clear()
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
