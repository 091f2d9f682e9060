"""How near the surfaces that `luxel export --mesh` extracts are to exact shapes.

What it measures
    Scenes are trained on generated captures of shapes whose surface is known
    (scenes/synthetic/captures/shape_captures.py),
    and the depth that their cameras see is fused into a mesh. Accuracy: mean distance of random points of the mesh to
    the exact surface; completeness: mean distance of what the cameras see of the surface to the mesh; chamfer: the
    mean of both, and the same as a share of the longest side of the shapes' box. Normals: mean and median angle
    between the mesh and the exact surface, in degrees. "exact" fuses the exact depth, which bounds what fusion reaches.
    "offset" is the mean signed distance of the points of the mesh, below 0 inside.
    Depth "centres" is what the export fuses, of 3D Gaussians that of their centres; "rays" is where rays meet them.

How to run
    python tests/bench/mesh/mesh_accuracy.py [--kind links blocks] [--views 100] [--side 800] [--resolution 512]
        [--depth centres rays] [--steps 30000] [--device cuda] [--keep FOLDER] [VARIANT ...]
    Variants are those of `luxel bench train`, such as luxel:preset=surface or luxel:primitive=convexes. Without any:
    3D Gaussians, the same with preset surface, and surfels with preset surface.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from luxel.render.mesh.depth_fusion import DepthFusion
from luxel.render.mesh.tree import MeshTree
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.ops.mesh.mesh_distance import mesh_distance
from luxel.render.surfaces.scene_surface import scene_surface
from luxel.render.train.presets import preset
from luxel.scenes import open as open_capture
from luxel.scenes.loading.scene_files import load_any_scene
from luxel.scenes.synthetic.captures.shape_captures import (
    SHAPE_CAPTURES,
    SurfacePoints,
    distances,
    shape_cameras,
    visible_surface,
    write_shape_capture,
)
from luxel.scenes.synthetic.rays.ray_caster import StaticScene, StaticSolid
from luxel.viewer.bench.train.variants import parse_variant

SAMPLES = 200_000
DEPTHS = ("centres", "rays")
VARIANTS = ("luxel:preset=default", "luxel:preset=surface", "luxel:primitive=surfels,preset=surface")


def accuracy(mesh: TriangleMesh, solids: tuple[StaticSolid, ...], truth: SurfacePoints) -> dict[str, float]:
    """Distances in world units and as a share of the box's longest side, angles in degrees.

    All on the device of ``truth``. Distances to the mesh are in float32 on a GPU: off by 1e-7 of the box or so.
    """
    device = truth.xyz.device
    mesh = mesh.to(device).to(torch.float64)
    points, normals = (part.to(device) for part in on_mesh(mesh))
    points.requires_grad_()
    away = distances(solids, points)
    (exact,) = torch.autograd.grad(away.sum(), points)
    cosines = (torch.nn.functional.normalize(exact, dim=-1) * normals).sum(-1).clamp(-1, 1)
    angles = torch.rad2deg(torch.arccos(cosines))
    accurate = float(away.detach().abs().mean())
    kind = torch.float64 if device.type == "cpu" else torch.float32
    complete = float(mesh_distance(truth.xyz.to(kind), MeshTree.build(mesh.to(kind)), "none").mean())
    size = float((truth.xyz.amax(0) - truth.xyz.amin(0)).max())
    return {
        "accuracy": accurate,
        "offset": float(away.detach().mean()),
        "completeness": complete,
        "chamfer": (accurate + complete) / 2,
        "chamfer_of_box": (accurate + complete) / 2 / size,
        "normals_mean": float(angles.mean()),
        "normals_median": float(angles.median()),
        "triangles": len(mesh.faces),
    }


def on_mesh(mesh: TriangleMesh) -> tuple[Tensor, Tensor]:
    """Random points, uniform by area, and the normals there, [SAMPLES, 3] each."""
    generator = torch.Generator().manual_seed(0)
    sums = mesh.areas().cumsum(0)
    share, u, v = (
        torch.rand(shape, generator=generator).double().to(sums) for shape in (SAMPLES, SAMPLES, SAMPLES)
    )
    face = torch.searchsorted(sums, share * sums[-1]).clamp_(max=len(sums) - 1)
    weights = torch.stack([1 - u.sqrt(), u.sqrt() * (1 - v), u.sqrt() * v], -1)
    points = (weights[..., None] * mesh.corners()[face]).sum(1)
    return points, torch.nn.functional.normalize(mesh.face_vectors()[face], dim=-1)


def exact_fusion(kind: str, options: argparse.Namespace) -> TriangleMesh:
    """The mesh that fusion makes of exact depth."""
    device = torch.device(options.device)
    scene = StaticScene(SHAPE_CAPTURES[kind](), device=device, shadow_side=0)
    views = [
        (scene.depth(camera).nan_to_num(posinf=0.0), camera)
        for camera in (camera.to(device) for camera in shape_cameras(options.views, options.side))
    ]
    fusion = DepthFusion(torch.full((3,), -1.0), 2.0, options.resolution, device)
    for depth, camera in views:
        fusion.reserve(depth, camera)
    for depth, camera in views:
        fusion.add(depth, depth.new_zeros(()).expand(*depth.shape, 3), camera)
    return fusion.surface().mesh


def measure(kind: str, text: str, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Trains a variant on a capture and measures its meshes, one of each depth."""
    device = torch.device(options.device)
    capture = open_capture(folder)
    if options.steps:
        text = f"{text}{',' if ':' in text else ':'}steps={options.steps}"
    first = replace(preset("default", "gaussians"), lpips=False, save_renders=0)
    variant = parse_variant(text, first, 1).with_seed(options.seed)
    cameras = [view.camera for view in (*capture.train, *capture.test)]
    fused: dict[str, tuple[TriangleMesh, float]] = {}

    def keep(run: Path, name: str, backend: str) -> None:
        scene = load_any_scene(run).to(device)
        render = {"antialiased": variant.config.antialiased} if scene.antialiases else {}  # as the export
        for depth in options.depth * (1 if device.type == "cpu" else 2):  # the first loads kernels
            begin = time.perf_counter()
            how = {"exact": depth != "centres", **render}
            mesh = scene_surface(scene, cameras, options.resolution, **how).mesh
            if device.type == "cuda":
                torch.cuda.synchronize()
            fused[depth] = mesh, time.perf_counter() - begin
            said(f"{kind}, {text}: fused", begin)

    result = variant.train(capture, device, None, keep)
    begin = time.perf_counter()
    scores = {
        depth: accuracy(mesh, SHAPE_CAPTURES[kind](), options.truth) for depth, (mesh, _) in fused.items()
    }
    said(f"{kind}, {text}: measured", begin)
    return [
        {
            "depth": depth,
            "psnr": result["psnr"],
            "count": result["count"],
            "fusion_seconds": seconds,
            **scores[depth],
        }
        for depth, (_, seconds) in fused.items()
    ]


def main() -> int:
    """Generates, trains, measures; one line of JSON each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variants", nargs="*", default=VARIANTS)
    parser.add_argument("--kind", nargs="+", choices=tuple(SHAPE_CAPTURES), default=list(SHAPE_CAPTURES))
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--side", type=int, default=800)
    parser.add_argument("--resolution", type=int, default=512)
    parser.add_argument("--depth", nargs="+", choices=DEPTHS, default=list(DEPTHS))
    parser.add_argument("--steps", type=int, help="instead of those of the variants")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder of captures, which are read if they are there")
    parser.add_argument("--exact", action="store_true", help="fuse exact depth too")
    options = parser.parse_args()
    for kind in options.kind:
        with tempfile.TemporaryDirectory() as name:
            folder = prepared(kind, options, options.keep or Path(name))
            if options.exact:
                begin = time.perf_counter()
                mesh = exact_fusion(kind, options)
                said(f"{kind}, exact: fused", begin)
                scores = accuracy(mesh, SHAPE_CAPTURES[kind](), options.truth)
                print(json.dumps({"kind": kind, "variant": "exact", **_rounded(scores)}), flush=True)
                said(f"{kind}, exact: fused and measured", begin)
            for text in options.variants:
                for scores in measure(kind, text, options, folder):
                    print(json.dumps({"kind": kind, "variant": text, **_rounded(scores)}), flush=True)
    return 0


def prepared(kind: str, options: argparse.Namespace, into: Path) -> Path:
    """The folder of a capture, generated unless it is there; sets `options.truth`."""
    begin, folder = time.perf_counter(), into / f"{kind}-{options.views}-{options.side}"
    if not (folder / "transforms.json").exists():  # written last
        write_shape_capture(folder, kind, views=options.views, side=options.side, device=options.device)
    said(f"{kind}: capture", begin)
    begin = time.perf_counter()
    observed_by = shape_cameras(options.views, max(1, options.side // 2))
    options.truth = visible_surface(SHAPE_CAPTURES[kind](), observed_by, device=options.device)
    said(f"{kind}: exact surface", begin)
    return folder


def said(what: str, begin: float) -> None:
    """Prints how long a stage took, beside the results."""
    print(f"{what} in {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}


if __name__ == "__main__":
    raise SystemExit(main())
