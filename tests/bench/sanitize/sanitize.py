"""A small run of every kernel, to be watched by compute-sanitizer; its results are compared with the CPU's.

What it covers
    Rasterizer forward and backward, of pinholes and through lenses: every channel count (colour, depth, normals,
    features), antialiasing, absolute gradients and statistics, deterministic sums, camera and background gradients,
    batches of cameras, SH degrees 0-3, image sizes from 1x1 to several tiles, no Gaussians, one, all behind the
    camera, NaN and infinite parameters, one that fills the image, thousands on one tile. Lists of a million splats,
    and of more tiles than 16 bits tell apart. Photometric loss with both paddings, with and without weights. Adam
    over several groups, dense and for visible rows only; Adam fused into the projection's backward, for one camera
    and several, whole warps and parts, with gradients from elsewhere and without, see `sanitize_adam.py`. Convexes
    and surfels likewise, see `sanitize_convexes.py` and `sanitize_surfels.py`; 4D Gaussians up to their splats,
    neighbours, and the losses of 4D Gaussians, with spare rows and none seen, see `sanitize_gaussians4d.py`. The grid
    encoding with its first and second gradients, in float32 and float16, fields as one stage, and positions in order,
    see `sanitize_fields.py`. The multilayer perceptron in half and in float, see `sanitize_mlp.py`; half is compared
    less tightly. Rays through volumes, what can be seen along them, images in waves and steps of a radiance field,
    see `sanitize_march.py`. Distances to meshes, and rays to the surface of a distance, see `sanitize_meshes.py`.
    Votes of label maps and label images, see `sanitize_labels.py`. Exposure, poses and Adam of training views, see
    `sanitize_views.py`.

How to run
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --error-exitcode 99 \\
        python tests/bench/sanitize/sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 99 python tests/bench/sanitize/sanitize.py
    Without torch's memory cache each tensor is an allocation of its own, so that an access beyond it is seen.
    --device cpu runs the same cases on the CPU backend alone. Prints one line per case; exit status 1 where a
    case failed or differs from the CPU.

    Several processes can share a GPU, --shard I/N runs every N-th case from the I-th (1 to N). Four at once:

    export PYTORCH_NO_CUDA_MEMORY_CACHING=1
    for i in 1 2 3 4; do
        compute-sanitizer --tool memcheck --error-exitcode 99 \\
            python tests/bench/sanitize/sanitize.py --shard $i/4 > memcheck-$i.txt 2>&1 & jobs="$jobs $!"
    done
    for job in $jobs; do wait $job || echo "job $job: exit status $?"; done; tail -n 2 memcheck-?.txt
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from sanitize_adam import adam_cases
from sanitize_convexes import convex_cases
from sanitize_fields import field_cases
from sanitize_gaussians4d import gaussians4d_cases
from sanitize_labels import label_cases
from sanitize_march import march_cases
from sanitize_meshes import mesh_cases
from sanitize_mlp import mlp_cases
from sanitize_surfels import surfel_cases
from sanitize_views import view_cases
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.geometry.lens import fisheye_lens, radial_lens
from luxel.render.ops.raster.bin_splats import bin_splats
from luxel.render.ops.raster.project_gaussians import project_gaussians
from luxel.render.ops.train.adam import adam_schedule, fused_adam_, scheduled_adam_
from luxel.render.ops.train.gather_view import ROW, gather_view
from luxel.render.ops.train.loss import photometric_loss
from luxel.render.ops.train.relocate import relocate_
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import DensifyStatistics, rasterize

TOLERANCE = 2e-3  # of the largest value; a splat at the edge of a cut-off may differ
# Edge-on surfels: on a CPU float32 is 3e-3 from float64, and Adam's second moments are squares.
LOOSE, LOOSE_TOLERANCE = ("half ", "surfels ", "fused adam surfels pile"), 1e-2

LENSES = {
    "fisheye": fisheye_lens((0.05, -0.01), 1.8),
    "radial": radial_lens((-0.1, 0.02), (0.003, -0.002), 1.5),
}


def cloud(count: int, seed: int, *, degree: int = 3, scale: float = 0.1) -> Gaussians:
    """Random Gaussians in the unit ball around the origin, on the CPU."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Gaussians(
        means=0.4 * normal(count, 3),
        quats=normal(count, 4),
        log_scales=math.log(scale) + 0.3 * normal(count, 3),
        opacity_logits=normal(count),
        sh_dc=normal(count, 3),
        sh_rest=0.1 * normal(count, (degree + 1) ** 2 - 1, 3),
    )


def lists_case(count: int, width: int, height: int, device: torch.device) -> dict[str, Tensor]:
    """How long the list of each tile is."""
    gaussians, camera = cloud(count, 12, degree=0, scale=2 / width).to(device), camera_at(0.3, width, height)
    splats, _, tile_counts, totals = project_gaussians(
        tuple(gaussians.tensors().values()),  # pyright: ignore[reportArgumentType]
        camera.world_to_cam[None].to(device),
        camera.intrinsics[None].to(device),
        width=width,
        height=height,
        sh_degree=0,
        near=0.01,
        far=100.0,
        dilation=0.3,
    )
    seen, capacity = totals.tolist()
    size = {"width": width, "height": height, "visible_capacity": seen, "capacity": capacity}
    _, ranges, overflow, _ = bin_splats(splats, tile_counts, totals, **size)
    return {"lengths": (ranges[:, 1] - ranges[:, 0]).float(), "overflow": overflow.float()}


def relocate_case(device: torch.device, added: int) -> dict[str, Tensor]:
    """Rows, moments and sources after a relocation, or after rows were added.

    Opacities are 0.5 and 1, which every device computes exactly, so that draws agree.
    """
    gaussians = cloud(333, 13).to(device)
    gaussians.opacity_logits[:] = 0
    gaussians.opacity_logits[::3] = 40
    gaussians.opacity_logits[::7] = -8
    gaussians.means[5] = math.nan
    kinds = [[t.contiguous() for t in gaussians.tensors().values()]]
    kinds += [[torch.ones_like(t) for t in kinds[0]] for _ in range(2)]
    rows, first, second = kinds
    outputs = relocate_(rows, first, second, 333 - added, added=added, min_opacity=0.005, seed=1, step=600)
    named = {
        f"{k} {i}": t
        for k, kind in zip(("row", "first", "second"), kinds, strict=True)
        for i, t in enumerate(kind)
    }
    return named | {f"out {i}": t.float() for i, t in enumerate(outputs)}


def camera_at(angle: float, width: int, height: int) -> Camera:
    """A camera on a circle around the origin."""
    eye = (3 * math.cos(angle), 3 * math.sin(angle), 0.5)
    return Camera.look_at(eye, (0, 0, 0), width=width, height=height)


def gaussian_cases() -> dict[str, Gaussians]:
    """Gaussians that hurt, by name."""
    broken = cloud(60, 2)
    broken.means[0, 0], broken.means[1, 2] = math.nan, math.inf
    broken.quats[2] = 0
    broken.quats[3, 1] = math.nan
    broken.log_scales[4], broken.log_scales[5] = 200, -200
    broken.opacity_logits[6], broken.opacity_logits[7] = math.nan, -math.inf
    broken.sh_dc[8, 0] = math.nan
    broken.opacity_logits[8] = -math.inf
    behind = cloud(40, 3)
    behind.means += torch.tensor([30.0, 0, 0])
    huge = cloud(5, 4, scale=50)
    pile = cloud(3000, 5, scale=0.004)
    pile.means *= 0.01
    return {
        "usual": cloud(300, 1),
        "none": Gaussians.empty(),
        "one": cloud(1, 6),
        "broken": broken,
        "behind": behind,
        "huge": huge,
        "pile": pile,
        "degree 0": cloud(100, 7, degree=0),
        "degree 1": cloud(100, 8, degree=1),
        "degree 2": cloud(100, 9, degree=2),
    }


def raster(
    gaussians: Gaussians, camera: Camera, device: torch.device, feature_count: int = 0, **options: Any
) -> dict[str, Tensor]:
    """One forward and backward pass; all outputs and gradients, on the CPU."""
    leaves = gaussians.to(device).detach().requires_grad_()
    pose = camera.world_to_cam.detach().clone().to(device).requires_grad_()
    camera = dataclasses.replace(camera.to(device), world_to_cam=pose)
    background = torch.tensor([0.2, 0.5, 0.8], device=device, requires_grad=True)
    features = None
    if feature_count:
        generator = torch.Generator().manual_seed(feature_count)
        features = (
            torch.randn(gaussians.count, feature_count, generator=generator).to(device).requires_grad_()
        )
    statistics = DensifyStatistics.zeros(gaussians.count, device)
    frame = rasterize(
        leaves, camera, background=background, features=features, statistics=statistics, count=True, **options
    )
    outputs = {
        name: value
        for name in ("rgb", "alpha", "depth", "median_depth", "normals", "features", "count")
        if (value := getattr(frame, name)) is not None
    }
    loss = torch.zeros((), device=device)
    for k, (name, value) in enumerate(outputs.items()):
        if value.requires_grad:
            weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(k)).to(device)
            loss = loss + (value * weights).mean()
        outputs[name] = value.detach().cpu()
    if loss.requires_grad:
        loss.backward()
    inputs = {**leaves.tensors(), "world_to_cam": camera.world_to_cam, "background": background}
    if features is not None:
        inputs["features"] = features
    for name, value in inputs.items():
        if value.grad is not None:
            outputs[f"g_{name}"] = value.grad.cpu()
    for name in ("grad_norm", "abs_grad_norm", "visible", "max_radius"):
        outputs[f"statistics {name}"] = getattr(statistics, name).float().cpu()
    return outputs


def loss_case(
    device: torch.device, shape: tuple[int, ...], weighted: bool, padding: Any
) -> dict[str, Tensor]:
    """The photometric loss of two random images and its gradient."""
    generator = torch.Generator().manual_seed(sum(shape))
    rgb = torch.rand(*shape, 3, generator=generator).to(device).requires_grad_()
    target = torch.rand(*shape, 3, generator=generator).to(device)
    weight = (torch.rand(*shape, generator=generator) > 0.3).float().to(device) if weighted else None
    loss = photometric_loss(rgb, target, weight, 0.2, padding)
    loss.backward()
    assert rgb.grad is not None
    return {"loss": loss.detach().cpu(), "g_rgb": rgb.grad.cpu()}


def adam_case(device: torch.device, masked: bool) -> dict[str, Tensor]:
    """Two steps over six groups of 133 rows."""
    generator = torch.Generator().manual_seed(12)
    shapes = [(133, 3), (133, 4), (133, 3), (133,), (133, 3), (133, 15, 3)]

    def fresh() -> list[Tensor]:
        return [torch.randn(*shape, generator=generator).to(device) for shape in shapes]

    params, grads = fresh(), fresh()
    first, second = ([torch.zeros_like(p) for p in params] for _ in range(2))
    visible = (torch.rand(133, generator=generator) > 0.5).to(device) if masked else None
    fused_adam_(params, grads, first, second, [1e-3] * 6, 1, (0.9, 0.999), 1e-15, visible)
    schedule = torch.tensor(adam_schedule([1e-3] * 6, 2), device=device)
    skip = torch.zeros(1, dtype=torch.int32, device=device)
    scheduled_adam_(params, grads, first, second, range(6), schedule, (0.9, 0.999), 1e-15, visible, skip)
    return {f"params {i}": p.cpu() for i, p in enumerate(params)}


def gather_case(device: torch.device, views: int, numbers: int) -> dict[str, Tensor]:
    """Photographs with alphas and weights by a cursor near the end of its table, and cameras of 4 or 12 numbers."""
    generator = torch.Generator().manual_seed(1)
    images, alphas, weights = (
        torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8).to(device)
        for shape in ((3, 33, 17, 3), (3, 33, 17), (3, 33, 17))
    )
    poses, intrinsics = (
        torch.randn(3, *shape, generator=generator).to(device) for shape in ((4, 4), (numbers,))
    )
    table = torch.zeros(5, ROW, dtype=torch.int32)
    table[0, 0], table[1:, 0], table[1:, 1] = 2, torch.tensor([0, 2, 1, 2]), torch.tensor([2, 1, 0, 1])
    gathered = gather_view(images, alphas, weights, poses, intrinsics, table.to(device), views)
    return {str(i): tensor.cpu() for i, tensor in enumerate(gathered) if tensor is not None}


def cases() -> dict[str, Callable[[torch.device], dict[str, Tensor]]]:
    """Every case by name, as a function of the device."""
    out: dict[str, Callable[[torch.device], dict[str, Tensor]]] = {}
    usual = cloud(300, 1)
    everything: dict[str, Any] = {"depth": True, "normals": True}

    def add(name: str, *arguments: Any, **options: Any) -> None:
        out[name] = lambda device: raster(arguments[0], arguments[1], device, **options)

    for name, gaussians in gaussian_cases().items():
        add(f"raster {name}", gaussians, camera_at(0.3, 67, 45), **everything)
    for width, height in ((1, 1), (16, 16), (17, 1), (3, 50), (129, 97)):
        add(f"raster {width}x{height}", usual, camera_at(0.3, width, height), **everything)
    for depth, normals in itertools.product((False, True), repeat=2):
        add(
            f"raster depth={depth} normals={normals}",
            usual,
            camera_at(1, 67, 45),
            depth=depth,
            normals=normals,
        )
    for count in (1, 2, 3, 4, 5, 8, 13, 16, 19):
        add(f"raster features={count}", usual, camera_at(2, 67, 45), feature_count=count)
    add("raster all features=16", usual, camera_at(2, 67, 45), feature_count=16, **everything)
    add("raster absolute gradients", usual, camera_at(2, 67, 45), absolute_gradients=True)
    hard = gaussian_cases()
    for name in ("usual", "none", "broken", "pile", "huge"):
        add(
            f"raster deterministic {name}", hard[name], camera_at(2, 67, 45), deterministic=True, **everything
        )
    add("raster given room", usual, camera_at(2, 67, 45), max_instances=20_000)
    add("raster antialiased", usual, camera_at(2, 67, 45), antialiased=True)
    for degree in (0, 1, 2):
        add(f"raster sh_degree={degree}", usual, camera_at(2, 67, 45), sh_degree=degree)
    batch = Camera.stack([camera_at(0.7 * k, 67, 45) for k in range(3)])
    add("raster batch of 3", usual, batch, **everything)
    add("raster deterministic batch of 3", usual, batch, deterministic=True, feature_count=5)
    add("raster batch of 3, none", Gaussians.empty(), batch)
    for count, width, height in ((1_100_000, 640, 480), (40_000, 4160, 4160)):
        out[f"lists of {count} splats, {width}x{height}"] = lambda device, c=count, w=width, h=height: (
            lists_case(c, w, h, device)
        )
    for name, row in LENSES.items():
        through = dataclasses.replace(camera_at(0.3, 67, 45), lens=row)
        for kind in ("usual", "none", "one", "broken", "behind", "huge", "pile"):
            add(f"raster {name} {kind}", hard[kind], through, **everything)
        add(f"raster {name} antialiased", usual, through, antialiased=True, absolute_gradients=True)
    mixed = [
        dataclasses.replace(camera_at(0.7 * k, 67, 45), lens=row) for k, row in enumerate(LENSES.values())
    ]
    add("raster batch of lenses", usual, Camera.stack([*mixed, camera_at(1.4, 67, 45)]), **everything)
    for shape, weighted, padding in itertools.product(
        ((45, 67), (2, 33, 31), (7, 5), (1, 1)), (False, True), ("zero", "valid")
    ):
        out[f"loss {shape} weighted={weighted} {padding}"] = lambda device, s=shape, w=weighted, p=padding: (
            loss_case(device, s, w, p)
        )
    for masked in (False, True):
        out[f"adam masked={masked}"] = lambda device, m=masked: adam_case(device, m)
    for added in (0, 33):
        out[f"relocate added={added}"] = lambda device, a=added: relocate_case(device, a)
    penalties = {"opacity_penalty": 0.1, "scale_penalty": 0.1}
    one = Camera.stack([camera_at(0.3, 67, 45)])
    for name, gaussians in gaussian_cases().items():
        cameras = one if name in ("broken", "pile") else batch
        out |= adam_cases(name, gaussians, cameras, penalties)
    for views, numbers in itertools.product((1, 3), (4, 12)):
        out[f"gather {views} views of {numbers}"] = lambda device, v=views, k=numbers: gather_case(
            device, v, k
        )
    out |= label_cases(hard, {"one view": camera_at(0.3, 67, 45), "three views": batch})
    more = gaussians4d_cases(camera_at) | field_cases() | mlp_cases() | march_cases() | mesh_cases()
    return out | convex_cases(camera_at) | surfel_cases(camera_at) | more | view_cases()


def difference(actual: dict[str, Tensor], truth: dict[str, Tensor]) -> tuple[float, str]:
    """The largest ||actual - truth|| / ||truth|| over all tensors and where it is; NaN must meet NaN."""
    worst = (0.0, "")
    for name, true in truth.items():
        a, b = actual[name].cpu().double(), true.double()
        if not torch.equal(a.isfinite(), b.isfinite()):
            return math.inf, f"{name}: not finite at other places"
        scale = max(b.nan_to_num(0, 0, 0).norm().item(), 1e-6 * math.sqrt(max(1, b.numel())))
        error = (a - b).nan_to_num(0, 0, 0).norm().item() / scale
        if name in ("count", "median_depth"):  # a pixel at a cut-off may fall to either side
            error = (
                0.0 if (a != b).double().mean().nan_to_num(0).item() < 0.02 or error < TOLERANCE else error
            )
        worst = max(worst, (error, name))
    return worst


def shard(text: str) -> tuple[int, int]:
    """I and N of "I/N"."""
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text} is no I/N with I from 1 to N")
    return int(index), int(count)


def main(arguments: list[str] | None = None) -> int:
    """Runs the cases; the exit status says whether all of them passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument(
        "--shard", type=shard, default=(1, 1), metavar="I/N", help="run every N-th case, from the I-th"
    )
    options = parser.parse_args(arguments)
    device, cpu = torch.device(options.device), torch.device("cpu")
    failed = 0
    index, count = options.shard
    matching = [(name, case) for name, case in cases().items() if options.only in name]
    chosen = dict(matching[index - 1 :: count])
    for name, case in chosen.items():
        try:
            actual = case(device)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            error, where = difference(actual, case(cpu)) if device.type != "cpu" else (0.0, "")
            good = error <= (LOOSE_TOLERANCE if name.startswith(LOOSE) else TOLERANCE)
            print(f"{'ok  ' if good else 'DIFF'} {name}: {error:.1e} {where}", flush=True)
        except Exception:
            good = False
            print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        failed += not good
    print(f"{len(chosen) - failed} of {len(chosen)} cases passed on {device}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
